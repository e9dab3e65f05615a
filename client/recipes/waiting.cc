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
#include "client/session_loss.h"

namespace quorate::internal {
namespace {

constexpr int kAttemptsWithoutPause = 2;
constexpr int kPauseMaxExponent = 6;

// Counts changes, and lets a thread wait for the next one or for the loss of the session.
class ChangeCount {
 public:
  // `session_id` is the session whose loss counts; 0: the first one that is created.
  explicit ChangeCount(int64_t session_id) : session_id_(session_id) {}

  void Add() {
    std::lock_guard<std::mutex> lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  void OnSessionEvent(const SessionEvent& event) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (session_id_ == 0) session_id_ = event.session_id;
    if (event.type == SessionEvent::Type::kLost) {
      loss_.Update(event.reason);
    } else if (event.session_id != 0 && event.session_id != session_id_) {
      // kLost was merged into this event.
      loss_.Update(SessionLostError("the session was replaced"));
    } else {
      return;
    }
    ++count_;
    changed_.notify_all();
  }
  // Returns why the session was lost; OK if it was not.
  absl::Status loss() {
    std::lock_guard<std::mutex> lock(mutex_);
    return loss_;
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
  int64_t session_id_;
  uint64_t count_ = 0;
  absl::Status loss_;
};

absl::Status LostWhileWaiting(std::string_view what) {
  return SessionLostError(
      absl::StrCat("the session has ended during the wait for ", std::string(what)));
}

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
                       const Condition& condition, int64_t session_id) {
  const bool must_be_in_session = session_id != 0;
  if (!must_be_in_session) session_id = client->session_id();
  // If the client's session is this one after a call, the call was made in it: ids do not come back.
  const auto is_in_session = [&] { return client->session_id() == session_id; };
  const auto evaluate = [&]() -> absl::StatusOr<bool> {
    const absl::StatusOr<bool> result = condition();
    if (result.ok() && must_be_in_session && !is_in_session()) return LostWhileWaiting(what);
    return result;
  };
  absl::StatusOr<bool> is_there = evaluate();
  if (!is_there.ok()) return is_there.status();
  if (*is_there) return absl::OkStatus();
  const auto too_late = [&] {
    return absl::DeadlineExceededError(
        absl::StrCat("waited ", deadline.deadline_ms(), " ms for ", std::string(what)));
  };
  if (deadline.is_over()) return too_late();
  auto changes = std::make_shared<ChangeCount>(session_id);
  auto session = client->ListenToSession(
      [changes](const SessionEvent& event) { changes->OnSessionEvent(event); });
  absl::StatusOr<WatchHandle> watch =
      client->Watch(path, scope, [changes](const WatchNotification&) { changes->Add(); },
                    {.deadline_ms = deadline.ReadDeadlineMs()});
  if (!watch.ok()) return watch.status();
  // From here on the listener reports a loss. Without a session at the beginning, the one in which
  // the watch is set is the first one.
  if (session_id != 0 && !is_in_session()) return LostWhileWaiting(what);
  for (;;) {
    const uint64_t seen = changes->count();
    if (absl::Status loss = changes->loss(); !loss.ok()) return loss;
    is_there = evaluate();
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
