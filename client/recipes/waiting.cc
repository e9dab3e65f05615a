// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/waiting.h"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace quorate::internal {
namespace {

constexpr int kAttemptsWithoutPause = 2;
constexpr int kPauseMaxExponent = 6;

// Counts changes, and lets a thread wait for the next one.
class ChangeCount {
 public:
  void Add() {
    std::lock_guard<std::mutex> lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  uint64_t count() {
    std::lock_guard<std::mutex> lock(mutex_);
    return count_;
  }
  // Blocks until the count exceeds `seen`. Returns false if the deadline passes first.
  bool WaitForMoreThan(uint64_t seen, const WaitDeadline& deadline) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto is_more = [&] { return count_ > seen; };
    if (deadline.end().has_value()) return changed_.wait_until(lock, *deadline.end(), is_more);
    changed_.wait(lock, is_more);
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t count_ = 0;
};

}  // namespace

WaitDeadline::WaitDeadline(int deadline_ms) : deadline_ms_(deadline_ms) {
  if (deadline_ms > 0) end_ = Clock::now() + std::chrono::milliseconds(deadline_ms);
}

WaitDeadline WaitDeadline::OrEarlier(Clock::time_point other) const {
  WaitDeadline result = *this;
  if (!end_.has_value() || other < *end_) result.end_ = other;
  return result;
}

int WaitDeadline::ReadDeadlineMs() const {
  if (!end_.has_value()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*end_ - Clock::now());
  return std::max(static_cast<int>(left.count()), 1);
}

absl::Status WaitUntil(Client* client, std::string_view path, WatchScope scope,
                       const WaitDeadline& deadline, std::string_view what,
                       const Condition& condition) {
  absl::StatusOr<bool> is_there = condition();
  if (!is_there.ok()) return is_there.status();
  if (*is_there) return absl::OkStatus();
  const auto too_late = [&] {
    return absl::DeadlineExceededError(
        absl::StrCat("waited ", deadline.deadline_ms(), " ms for ", std::string(what)));
  };
  if (deadline.is_over()) return too_late();
  auto changes = std::make_shared<ChangeCount>();
  // The end of the session counts as a change: the condition then fails with the reason.
  auto session = client->ListenToSession([changes](const SessionEvent& event) {
    if (event.type == SessionEvent::Type::kLost) changes->Add();
  });
  absl::StatusOr<WatchHandle> watch =
      client->Watch(path, scope, [changes](const WatchNotification&) { changes->Add(); },
                    {.deadline_ms = deadline.ReadDeadlineMs()});
  if (!watch.ok()) return watch.status();
  for (;;) {
    const uint64_t seen = changes->count();
    is_there = condition();
    if (!is_there.ok()) return is_there.status();
    if (*is_there) return absl::OkStatus();
    if (!changes->WaitForMoreThan(seen, deadline)) return too_late();
  }
}

void PauseAfterConflict(int attempts) {
  if (attempts <= kAttemptsWithoutPause) return;
  thread_local std::minstd_rand random{std::random_device{}()};
  const int longest_us = 1000 << std::min(attempts - kAttemptsWithoutPause, kPauseMaxExponent);
  const int pause_us = std::uniform_int_distribution<int>(0, longest_us)(random);
  std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
}

std::optional<std::string> ParentOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == 0 || slash == std::string_view::npos) return std::nullopt;
  return std::string(path.substr(0, slash));
}

std::optional<int64_t> ParseNumber(std::string_view digits, int base) {
  int64_t number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, number, base);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return number;
}

absl::Status EnsureZnode(Client* client, std::string_view path) {
  absl::Status status = client->Create(path, "", {.create_parents = true}).status();
  return ErrorOf(status) == ErrorCode::kNodeExists ? absl::OkStatus() : status;
}

}  // namespace quorate::internal
