// SPDX-License-Identifier: Apache-2.0

// The sessions whose reads an administrator has made linearizable. Each is named by a znode
// /zookeeper/linearizable/0xID, with the id of the session as logs and `cons` show it: as quotas,
// these settings are znodes in /zookeeper, so that every member has them, and any client with the
// right to create them can.
//
// Thread-safety: OnNodeEvent and Reset are called while the tree is locked for writing; Has from any
// thread.
#pragma once

#include <atomic>
#include <optional>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"
#include "tree/tree.h"
#include "tree/types.h"

namespace quorate::rpc::zk {

class LinearizableSessions {
 public:
  static constexpr std::string_view kParent = "/zookeeper/linearizable";

  struct Change {
    tree::SessionId session;
    bool is_linearizable = false;
  };
  // Returns the session that the event adds or removes; no value if it does neither.
  std::optional<Change> OnNodeEvent(tree::EventType type, std::string_view path);
  // Takes the sessions from a tree that has replaced the one before.
  void Reset(const tree::Tree& tree);

  bool Has(tree::SessionId session) const;

 private:
  void Set(tree::SessionId session, bool is_linearizable);

  std::atomic<bool> any_ = false;
  mutable Mutex mutex_;
  absl::flat_hash_set<tree::SessionId> sessions_ ABSL_GUARDED_BY(mutex_);  // only for lookups
};

}  // namespace quorate::rpc::zk
