// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/delayed_queue.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_format.h"
#include "client/recipes/sequential_names.h"
#include "client/recipes/waiting.h"

namespace quorate {
namespace {

constexpr std::string_view kPrefix = "queue-|";

int64_t SystemNowMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

}  // namespace

DelayedQueue::DelayedQueue(Client* client, std::string path, std::function<int64_t()> now_ms)
    : ItemQueue(client, std::move(path), Format::kFramed),
      now_ms_(now_ms != nullptr ? std::move(now_ms) : SystemNowMs) {}

absl::Status DelayedQueue::Offer(std::string_view data, int64_t due_ms) {
  if (due_ms <= 0) return absl::InvalidArgumentError("due_ms must be positive");
  return Add(absl::StrFormat("%s%08X|", kPrefix, due_ms), data);
}

std::optional<ItemQueue::Rank> DelayedQueue::RankOf(std::string_view name) const {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const size_t end = name.find('|', kPrefix.size());
  if (end == std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> due_ms =
      internal::ParseNumber(name.substr(kPrefix.size(), end - kPrefix.size()), 16);
  const std::optional<int32_t> number = SequenceNumberOf(name, name.substr(0, end + 1));
  if (!due_ms.has_value() || !number.has_value()) return std::nullopt;
  return Rank{*due_ms, *number};
}

}  // namespace quorate
