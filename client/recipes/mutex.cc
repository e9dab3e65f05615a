// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/mutex.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/recipes/async_lock.h"
#include "client/recipes/lock_listener.h"
#include "client/recipes/sequential_names.h"
#include "client/recipes/this_thread.h"
#include "client/session_loss.h"

namespace quorate {

using internal::CallbackThread;
using internal::Deadline;
using internal::DeadlineIn;
using internal::Listener;
using internal::LockNode;

namespace {

constexpr char kPrefix[] = "lock-";

// Throws an error of a function that has the form of std::mutex.
[[noreturn]] void Throw(const absl::Status& status) {
  throw std::system_error(std::make_error_code(absl::IsFailedPrecondition(status)
                                                   ? std::errc::resource_deadlock_would_occur
                                                   : std::errc::no_lock_available),
                          std::string(status.message()));
}

}  // namespace

InterProcessMutex::InterProcessMutex(Client* client, std::string path, LockOptions options)
    : InterProcessMutex(client, std::move(path), std::move(options),
                        Kind{kPrefix, {kPrefix}, &LockNode::WaitForPrevious}) {}

InterProcessMutex::InterProcessMutex(Client* client, std::string path, LockOptions options,
                                     Kind kind)
    : client_(client),
      path_(std::move(path)),
      data_(std::move(options.data)),
      kind_(std::move(kind)),
      listener_(std::make_shared<Listener<LockEvent>>(std::move(options.listener))) {}

InterProcessMutex::~InterProcessMutex() {
  listener_->End();
  for (auto& [thread, hold] : holds_) hold.node->Release();
}

absl::Status InterProcessMutex::Acquire(int deadline_ms) {
  return Acquire(std::stop_token(), deadline_ms);
}

absl::Status InterProcessMutex::Acquire(const std::stop_token& stop, int deadline_ms) {
  if (absl::Status s = CallbackThread::CheckMayBlock(); !s.ok()) return s;
  const Deadline deadline = DeadlineIn(deadline_ms);
  absl::StatusOr<bool> again = AcquireAgain();
  if (!again.ok() || *again) return again.status();
  absl::StatusOr<std::shared_ptr<LockNode>> node = StandInLine();
  if (!node.ok()) return node.status();
  if (absl::Status s = (*node)->WaitForTurn(deadline, stop); !s.ok()) {
    (*node)->Release();
    return s;
  }
  Keep(*std::move(node));
  return absl::OkStatus();
}

Call<HeldLock> InterProcessMutex::AsyncAcquire(const std::stop_token& stop, int deadline_ms) {
  return internal::StartAsyncLock(client_, NodeOptions(), stop, deadline_ms);
}

void InterProcessMutex::lock() { try_lock_until(std::chrono::steady_clock::time_point::max()); }

bool InterProcessMutex::try_lock() {
  for (;;) {
    const absl::StatusOr<bool> is_acquired = TryAcquire();
    if (is_acquired.ok()) return *is_acquired;
    if (!internal::IsSessionReplaced(*client_, is_acquired.status())) Throw(is_acquired.status());
  }
}

bool InterProcessMutex::try_lock_until(std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    int left_ms = 0;
    if (deadline != std::chrono::steady_clock::time_point::max()) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      left_ms = static_cast<int>(std::clamp<int64_t>(left.count(), 1, 1'000'000'000));
    }
    const absl::Status status = Acquire(left_ms);
    if (status.ok()) return true;
    if (absl::IsDeadlineExceeded(status)) return false;
    if (!internal::IsSessionReplaced(*client_, status)) Throw(status);
  }
}

void InterProcessMutex::unlock() { Release().IgnoreError(); }

absl::StatusOr<bool> InterProcessMutex::TryAcquire(int deadline_ms) {
  if (absl::Status s = CallbackThread::CheckMayBlock(); !s.ok()) return s;
  const Deadline deadline = DeadlineIn(deadline_ms);
  absl::StatusOr<bool> again = AcquireAgain();
  if (!again.ok() || *again) return again;
  absl::StatusOr<std::shared_ptr<LockNode>> node = StandInLine();
  if (!node.ok()) return node.status();
  absl::StatusOr<bool> is_first = (*node)->WaitForFirstDecision(deadline);
  if (is_first.ok() && *is_first) {
    Keep(*std::move(node));
  } else {
    (*node)->Release();
  }
  return is_first;
}

absl::Status InterProcessMutex::Release(int deadline_ms) {
  if (absl::Status s = CallbackThread::CheckMayBlock(); !s.ok()) return s;
  const Deadline deadline = DeadlineIn(deadline_ms);
  std::shared_ptr<LockNode> node;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto hold = holds_.find(internal::ThisThreadNumber());
    if (hold == holds_.end()) {
      return absl::FailedPreconditionError(absl::StrCat("this thread does not hold ", path_));
    }
    node = hold->second.node;
    if (--hold->second.count > 0) return node->has_ended() ? LostError(*node) : absl::OkStatus();
    holds_.erase(hold);
  }
  if (!node->Release()) return LostError(*node);
  return node->WaitUntilGone(deadline);
}

absl::StatusOr<bool> InterProcessMutex::AcquireAgain() {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto hold = holds_.find(internal::ThisThreadNumber());
  if (hold == holds_.end()) return false;
  if (hold->second.node->has_ended()) return LostError(*hold->second.node);
  ++hold->second.count;
  return true;
}

LockNode::Options InterProcessMutex::NodeOptions() const {
  LockNode::Options options;
  options.directory = path_;
  options.prefix = kind_.prefix;
  options.prefixes = kind_.prefixes;
  options.data = data_;
  options.decide = kind_.decide;
  options.handler = internal::HandlerFor(listener_);
  return options;
}

absl::StatusOr<std::shared_ptr<LockNode>> InterProcessMutex::StandInLine() {
  LockNode::Options options = NodeOptions();
  if (absl::Status s = Prepare(&options); !s.ok()) return s;
  return LockNode::Start(client_, std::move(options));
}

void InterProcessMutex::Keep(std::shared_ptr<LockNode> node) {
  std::lock_guard<std::mutex> lock(mutex_);
  holds_[internal::ThisThreadNumber()] = {std::move(node), 1};
}

absl::Status InterProcessMutex::LostError(const LockNode& node) const {
  return absl::AbortedError(
      absl::StrCat(path_, " was lost while it was held: ", node.status().message()));
}

bool InterProcessMutex::IsAcquiredInThisProcess() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(holds_.begin(), holds_.end(),
                     [](const auto& hold) { return hold.second.node->has_turn(); });
}

bool InterProcessMutex::IsOwnedByThisThread() const {
  const std::shared_ptr<LockNode> node = NodeOfThisThread();
  return node != nullptr && node->has_turn();
}

std::shared_ptr<LockNode> InterProcessMutex::NodeOfThisThread() const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto hold = holds_.find(internal::ThisThreadNumber());
  return hold == holds_.end() ? nullptr : hold->second.node;
}

absl::StatusOr<int64_t> InterProcessMutex::FencingToken() const {
  const std::shared_ptr<LockNode> node = NodeOfThisThread();
  if (node == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("this thread does not hold ", path_));
  }
  if (node->has_ended()) return LostError(*node);
  return node->fencing_token();
}

absl::Status InterProcessMutex::Guard(Transaction* transaction) const {
  const std::shared_ptr<LockNode> node = NodeOfThisThread();
  if (node == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("this thread does not hold ", path_));
  }
  return node->Guard(transaction);
}

absl::StatusOr<std::vector<std::string>> InterProcessMutex::ParticipantNodes(ReadOptions options) {
  absl::StatusOr<ListResult> listed = client_->List(path_, options);
  if (ErrorOf(listed.status()) == ErrorCode::kNoNode) return std::vector<std::string>();
  if (!listed.ok()) return listed.status();
  std::vector<std::string> nodes;
  for (const SequentialName& each :
       SortSequentialNames(std::move(listed->children), kind_.prefixes)) {
    nodes.push_back(path_ + "/" + each.name);
  }
  return nodes;
}

}  // namespace quorate
