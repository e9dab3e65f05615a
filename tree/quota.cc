// SPDX-License-Identifier: Apache-2.0

#include "tree/quota.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>
#include <utility>

namespace quorate::tree {
namespace {

// The bytes of a text that are parsed: longer than any text with four numbers. The limit bounds the
// work, because a client may have written any text.
constexpr size_t kTextBytesMax = 1024;

int64_t ParseNumber(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc{} && end == text.data() + text.size();
  return is_whole ? number : -1;
}

}  // namespace

StatsTrack ParseStatsTrack(std::string_view text) {
  StatsTrack track;
  text = text.substr(0, kTextBytesMax);
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(",;"), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = pair.substr(0, equals);
    std::string_view value = pair.substr(equals + 1);
    value = value.substr(0, value.find('='));
    if (key == "count") track.count = ParseNumber(value);
    if (key == "bytes") track.bytes = ParseNumber(value);
    if (key == "countHardLimit") track.count_hard_limit = ParseNumber(value);
    if (key == "byteHardLimit") track.byte_hard_limit = ParseNumber(value);
  }
  return track;
}

std::string ToString(const StatsTrack& track) {
  std::string text =
      "count=" + std::to_string(track.count) + ",bytes=" + std::to_string(track.bytes);
  // Clients that do not know hard limits stop reading at the second "=".
  if (track.byte_hard_limit != -1 || track.count_hard_limit != -1) text += '=';
  if (track.byte_hard_limit != -1) {
    text += ";byteHardLimit=" + std::to_string(track.byte_hard_limit);
  }
  if (track.count_hard_limit != -1) {
    text += ";countHardLimit=" + std::to_string(track.count_hard_limit);
  }
  return text;
}

std::optional<std::string_view> QuotaPathOf(std::string_view path, std::string_view name) {
  if (!path.ends_with(name) || !path.starts_with(kQuotaRoot)) return std::nullopt;
  // The path has been reduced to "/a/b/". The root itself, "/", has no quota.
  path.remove_suffix(name.size());
  path.remove_prefix(kQuotaRoot.size());
  if (path.size() < 3 || path.front() != '/' || path.back() != '/') return std::nullopt;
  path.remove_suffix(1);
  return path;
}

std::string QuotaNodePath(std::string_view quota_path, std::string_view name) {
  std::string path(kQuotaRoot);
  path += quota_path;
  path += '/';
  path += name;
  return path;
}

void QuotaIndex::OnCreated(std::string_view path) {
  const std::optional<std::string_view> quota_path = QuotaPathOf(path, kLimitsName);
  if (quota_path.has_value()) paths_.emplace(*quota_path);
}

void QuotaIndex::OnDeleted(std::string_view path) {
  const std::optional<std::string_view> quota_path = QuotaPathOf(path, kLimitsName);
  if (quota_path.has_value()) paths_.erase(std::string(*quota_path));
}

std::optional<std::string_view> QuotaIndex::Find(std::string_view path) const {
  if (paths_.empty()) return std::nullopt;
  while (path.size() > 1) {
    const auto found = paths_.find(path);
    if (found != paths_.end()) return *found;
    path = path.substr(0, path.rfind('/'));
  }
  return std::nullopt;
}

}  // namespace quorate::tree
