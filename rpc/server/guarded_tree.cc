#include "rpc/server/guarded_tree.h"

namespace quorate::rpc {

// The tree is looked at behind the lock, in each of them: before it, it may be another one.

GuardedTree::ReadGuard GuardedTree::Read() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
  mutex_.ReaderLock();
  return {&mutex_, tree_.get()};
}

GuardedTree::WriteGuard GuardedTree::Write() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  mutex_.Lock();
  return {&mutex_, &tree_};
}

GuardedTree::PictureGuard GuardedTree::ReadPicture() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  mutex_.ReaderLock();
  return {&mutex_, tree_.get()};
}

std::optional<GuardedTree::WriteGuard> GuardedTree::TryWrite() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (!mutex_.TryLock()) return std::nullopt;
  return WriteGuard(&mutex_, &tree_);
}

}  // namespace quorate::rpc
