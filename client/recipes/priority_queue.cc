// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/priority_queue.h"

#include "absl/strings/str_format.h"
#include "client/recipes/sequential_names.h"
#include "client/recipes/waiting.h"

namespace quorate {
namespace {

constexpr std::string_view kPrefix = "queue-";
constexpr size_t kDigits = 8;

}  // namespace

absl::Status PriorityQueue::Offer(std::string_view data, int32_t priority) {
  return Add(absl::StrFormat("%s%c%08X", kPrefix, priority >= 0 ? '1' : '0',
                             static_cast<uint32_t>(priority)),
             data);
}

std::optional<ItemQueue::Rank> PriorityQueue::RankOf(std::string_view name) const {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const size_t sign = kPrefix.size();
  const size_t end = sign + 1 + kDigits;
  if (name.size() < end) return std::nullopt;
  const std::optional<int64_t> bits = internal::ParseNumber(name.substr(sign + 1, kDigits), 16);
  const std::optional<int32_t> number = SequenceNumberOf(name, name.substr(0, end));
  if (!bits.has_value() || !number.has_value()) return std::nullopt;
  return Rank{static_cast<int32_t>(*bits), *number};
}

}  // namespace quorate
