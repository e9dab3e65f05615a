// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/leader_selector.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"

namespace quorate {

using internal::CallbackThread;
using internal::Deadline;
using internal::DeadlineIn;

absl::Status Leadership::Guard(Transaction* transaction) const {
  return election_->GuardTerm(fencing_token_, transaction);
}

LeaderSelector::LeaderSelector(Client* client, std::string path,
                               std::function<void(const Leadership&)> lead,
                               LeaderSelectorOptions options)
    : path_(path),
      lead_(std::move(lead)),
      requeues_(options.requeues),
      listener_(std::move(options.listener)),
      election_(client, std::move(path),
                {std::move(options.id), [this](const ElectionEvent& event) { OnEvent(event); }}) {}

LeaderSelector::~LeaderSelector() {
  RequestClose();
  if (thread_.joinable()) thread_.join();
}

absl::Status LeaderSelector::Start() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_started_ || is_closed_) {
      return absl::FailedPreconditionError(
          absl::StrCat("the leader selector at ", path_,
                       " was started or closed before; Requeue makes it a candidate again unless "
                       "it was closed"));
    }
    is_started_ = true;
    thread_ = std::thread([this] { Run(); });
  }
  return StartElection();
}

absl::Status LeaderSelector::StartElection() {
  const absl::Status status = election_.Start();
  bool is_closed = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_closed = is_closed_;
  }
  // Close may have stopped the election before it was started.
  if (status.ok() && is_closed) election_.Stop(1).IgnoreError();
  return status;
}

absl::Status LeaderSelector::Requeue() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!is_started_ || is_closed_) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the leader selector at ", path_,
          " was not started, or was closed: call Start first, or make another selector"));
    }
    if (is_running_ || next_.has_value()) {
      requeue_wanted_ = true;
      return absl::OkStatus();
    }
  }
  return StartElection();
}

bool LeaderSelector::Interrupt() {
  std::optional<Term> running;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_running_) running = current_;
  }
  if (running.has_value()) running->stop.request_stop();
  return running.has_value();
}

void LeaderSelector::OnEvent(const ElectionEvent& event) {
  std::optional<Term> ended;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (event.state == ElectionState::kElected) {
      held_token_ = event.fencing_token;
      next_ = Term{event.fencing_token};
      changed_.notify_all();
    } else {
      if (event.state != ElectionState::kSuspended) held_token_ = 0;
      next_.reset();
      if (is_running_) ended = current_;
    }
  }
  if (ended.has_value()) ended->stop.request_stop();
  if (listener_ != nullptr) listener_(event);
}

void LeaderSelector::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_closed_ || next_.has_value(); });
    if (is_closed_) break;
    current_ = std::exchange(next_, std::nullopt);
    is_running_ = true;
    const Leadership leadership(&election_, current_->fencing_token, current_->stop.get_token());
    lock.unlock();
    lead_(leadership);
    lock.lock();
    const bool is_candidate_again = std::exchange(requeue_wanted_, false) || requeues_;
    // A leadership that was suspended, and goes on, is not led a second time.
    if (next_.has_value() && next_->fencing_token == leadership.fencing_token()) next_.reset();
    if (is_closed_) break;
    lock.unlock();
    EndTerm(leadership.fencing_token(), is_candidate_again);
    lock.lock();
    is_running_ = false;
    // Requeue may have been called since the function returned.
    const bool is_wanted = std::exchange(requeue_wanted_, false);
    if (is_candidate_again || !is_wanted) continue;
    lock.unlock();
    StartElection().IgnoreError();  // fails only if this is a candidate already
    lock.lock();
  }
  lock.unlock();
  // Others can be elected from now on, also if Close has not waited for the function.
  election_.Stop(1).IgnoreError();
  lock.lock();
  is_over_ = true;
  changed_.notify_all();
}

void LeaderSelector::EndTerm(int64_t fencing_token, bool is_candidate_again) {
  bool is_held = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_held = held_token_ == fencing_token;
  }
  // Both fail only if this is not a candidate any more.
  if (!is_candidate_again) {
    // The znode is deleted as soon as a member serves; nobody waits for that here.
    election_.Stop(1).IgnoreError();
  } else if (is_held) {
    election_.Resign().IgnoreError();
  }
}

void LeaderSelector::RequestClose() {
  std::optional<Term> running;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_closed_ = true;
    if (is_running_) running = current_;
    if (!is_started_) is_over_ = true;
    changed_.notify_all();
  }
  if (running.has_value()) running->stop.request_stop();
}

absl::Status LeaderSelector::Close(int deadline_ms) {
  if (absl::Status s = CallbackThread::CheckMayBlock(); !s.ok()) return s;
  bool is_own_thread = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_own_thread = std::this_thread::get_id() == thread_.get_id();
  }
  if (is_own_thread) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the function that leads at ", path_,
        " cannot close its selector; return from it, and call Close on another thread"));
  }
  const Deadline deadline = DeadlineIn(deadline_ms);
  RequestClose();
  {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto is_over = [this] { return is_over_; };
    if (deadline == Deadline::max()) {
      changed_.wait(lock, is_over);
    } else if (!changed_.wait_until(lock, deadline, is_over)) {
      return absl::DeadlineExceededError(
          absl::StrCat("the function that leads at ", path_,
                       " has not returned; it leads until then, and Close can be called again"));
    }
  }
  const auto left = deadline == Deadline::max() ? std::chrono::milliseconds(0)
                                                : std::chrono::ceil<std::chrono::milliseconds>(
                                                      deadline - std::chrono::steady_clock::now());
  const int left_ms = static_cast<int>(left.count());
  return election_.Stop(deadline_ms <= 0 ? 0 : std::max(left_ms, 1));
}

}  // namespace quorate
