// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/recursive_listing.h"

#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "rpc/frontend/listing.h"

namespace quorate::rpc {
namespace {

// The approximate memory of an entry of changed_, without its path, in bytes.
constexpr size_t kChangedBytes = 80;

}  // namespace

RecursiveListing::RecursiveListing(std::string top, size_t paths_max, size_t bytes_max)
    : top_(top.empty() ? "/" : std::move(top)),
      paths_max_(paths_max),
      bytes_max_(bytes_max),
      node_(top_) {}

void RecursiveListing::Add(std::string_view name) {
  if (list_.count >= paths_max_ || list_.paths.size() > bytes_max_) return;
  std::string path = node_ == "/" ? std::string() : node_;
  path.append("/").append(name);
  BigEndianWriter(&list_.paths).String(path);
  ++list_.count;
}

void RecursiveListing::BeginNext() {
  BigEndianReader reader(std::string_view(list_.paths).substr(next_));
  node_ = reader.String();
  next_ = list_.paths.size() - reader.rest().size();
  place_ = {};
  is_top_ = false;
}

tree::ErrorCode RecursiveListing::ReadNext(const tree::Tree& tree,
                                           std::span<const tree::Identity> identities,
                                           size_t* spent) {
  ASSERT(!done_);
  using tree::ErrorCode;
  while (*spent < kNodesPerHold) {
    const size_t count_before = list_.count;
    const size_t bytes_before = list_.paths.size();
    const size_t count_max = 1 + (kNodesPerHold - *spent) / (1 + node_.size() / kBytesPerNode);
    tree::Stat stat;
    const ErrorCode error = tree.ReadChildren(
        node_, identities, count_max, [this](std::string_view name) { Add(name); }, &place_, &stat);
    *spent += 1 + list_.count - count_before +
              (node_.size() + list_.paths.size() - bytes_before) / kBytesPerNode +
              identities.size() / kIdentitiesPerNode;
    if (error != ErrorCode::kOk && is_top_) return error;
    if (bytes() > bytes_max_) return ErrorCode::kTooLarge;
    // A znode below the top that is gone or may not be read is listed without what is below it.
    if (error == ErrorCode::kOk && !place_.at_end && list_.count < paths_max_) continue;
    if (list_.count >= paths_max_ || next_ == list_.paths.size()) {
      done_ = true;
      break;
    }
    BeginNext();
  }
  return ErrorCode::kOk;
}

void RecursiveListing::OnEvent(tree::EventType type, std::string_view path) {
  const bool exists = type == tree::EventType::kNodeCreated;
  if (!exists && type != tree::EventType::kNodeDeleted) return;
  const std::string_view above = top_ == "/" ? std::string_view() : top_;
  const bool is_below =
      path.size() > above.size() + 1 && path.starts_with(above) && path[above.size()] == '/';
  if (!is_below) return;
  const auto [entry, is_new] = changed_.try_emplace(std::string(path), exists);
  entry->second = exists;
  if (is_new) changed_bytes_ += kChangedBytes + path.size();
}

RecursiveListing::Result RecursiveListing::Finish() {
  ASSERT(done_);
  if (changed_.empty()) return std::move(list_);
  Result corrected;
  BigEndianWriter writer(&corrected.paths);
  const auto add = [&](std::string_view path) {
    writer.String(path);
    ++corrected.count;
  };
  BigEndianReader reader(list_.paths);
  while (!reader.empty()) {
    const std::string_view path = reader.String();
    const auto change = changed_.find(path);
    if (change == changed_.end()) {
      add(path);
    } else if (change->second) {
      add(path);
      changed_.erase(change);
    }
  }
  for (const auto& [path, exists] : changed_) {
    if (exists && corrected.count < paths_max_) add(path);
  }
  return corrected;
}

}  // namespace quorate::rpc
