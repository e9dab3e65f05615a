// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/held_lock.h"

#include <utility>

#include "client/call.h"
#include "client/recipes/lock_node.h"

namespace quorate {

using internal::CallbackThread;
using internal::LockNode;

HeldLock::HeldLock(std::shared_ptr<LockNode> node) : node_(std::move(node)) {}

HeldLock::~HeldLock() {
  if (node_ != nullptr) node_->Release();
}

HeldLock& HeldLock::operator=(HeldLock&& other) noexcept {
  const std::shared_ptr<LockNode> old = std::exchange(node_, std::exchange(other.node_, nullptr));
  if (old != nullptr && old != node_) old->Release();
  return *this;
}

bool HeldLock::is_held() const { return node_ != nullptr && node_->has_turn(); }
int64_t HeldLock::fencing_token() const { return node_ == nullptr ? 0 : node_->fencing_token(); }
std::string HeldLock::node() const { return node_ == nullptr ? "" : node_->path(); }

absl::Status HeldLock::Guard(Transaction* transaction) const {
  if (node_ == nullptr) return absl::FailedPreconditionError("the lock was released or moved");
  return node_->Guard(transaction);
}

absl::Status HeldLock::Release(int deadline_ms) {
  if (absl::Status s = CallbackThread::CheckMayBlock(); !s.ok()) return s;
  const internal::Deadline deadline = internal::DeadlineIn(deadline_ms);
  const std::shared_ptr<LockNode> node = std::exchange(node_, nullptr);
  if (node == nullptr) return absl::FailedPreconditionError("the lock was released or moved");
  if (!node->Release()) return node->LostError();
  return node->WaitUntilGone(deadline);
}

}  // namespace quorate
