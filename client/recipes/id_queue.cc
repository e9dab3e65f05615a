// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/id_queue.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/recipes/sequential_names.h"

namespace quorate {
namespace {

constexpr std::string_view kPrefix = "queue-|";
constexpr std::string_view kSeparator = "|";

// Returns the part of an item's name before its number.
absl::StatusOr<std::string> PrefixOf(const std::string& path, std::string_view id) {
  if (id.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("the id of an item of the queue ", path, " is empty; choose one"));
  std::string prefix = std::string(kPrefix).append(id).append(kSeparator);
  std::replace(prefix.begin(), prefix.end(), '/', '_');
  return prefix;
}

}  // namespace

absl::Status IdQueue::Offer(std::string_view data, std::string_view id) {
  const absl::StatusOr<std::string> prefix = PrefixOf(path(), id);
  if (!prefix.ok()) return prefix.status();
  return Add(*prefix, data);
}

absl::StatusOr<std::vector<std::string>> IdQueue::NamesOf(std::string_view id) {
  const absl::StatusOr<std::string> prefix = PrefixOf(path(), id);
  if (!prefix.ok()) return prefix.status();
  absl::StatusOr<std::vector<Item>> items = ListItems(0);
  if (!items.ok()) return items.status();
  std::vector<std::string> names;
  for (Item& item : *items) {
    // The last separator ends the id, which can have others. No number contains one.
    if (item.name.substr(0, item.name.rfind(kSeparator) + 1) == *prefix) {
      names.push_back(std::move(item.name));
    }
  }
  return names;
}

absl::StatusOr<int64_t> IdQueue::Count(std::string_view id) {
  const absl::StatusOr<std::vector<std::string>> names = NamesOf(id);
  if (!names.ok()) return names.status();
  return static_cast<int64_t>(names->size());
}

absl::StatusOr<int64_t> IdQueue::RemoveAll(std::string_view id) {
  const absl::StatusOr<std::vector<std::string>> names = NamesOf(id);
  if (!names.ok()) return names.status();
  int64_t removed = 0;
  for (const std::string& name : *names) {
    const absl::Status status = client()->Delete(absl::StrCat(path(), "/", name)).status();
    if (ErrorOf(status) == ErrorCode::kNoNode) continue;  // taken meanwhile
    if (!status.ok()) return status;
    ++removed;
  }
  return removed;
}

std::optional<ItemQueue::Rank> IdQueue::RankOf(std::string_view name) const {
  if (!name.starts_with(kPrefix) || name.rfind(kSeparator) <= kPrefix.size()) return std::nullopt;
  const std::optional<int32_t> number = SequenceNumberOf(name, kSeparator);
  if (!number.has_value()) return std::nullopt;
  return Rank{0, *number};
}

}  // namespace quorate
