// The watches that clients of one server have set. Not replicated.
//
// Thread-safety: none inside. rpc/zk calls Add and Remove under its own lock, and Fire while it
// holds the write side of the tree, so that no read can slip between a change and its event.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "tree/types.h"

namespace quorate::tree {

// One connection, by a number of its own that is never used again.
using WatcherId = uint64_t;

// Which table a one-shot watch is in (ZooKeeper keeps two).
enum class WatchKind : uint8_t {
  kData = 1,   // getData, exists
  kChild = 2,  // getChildren
};

class WatchTable {
 public:
  WatchTable();
  ~WatchTable();
  WatchTable(const WatchTable&) = delete;
  WatchTable& operator=(const WatchTable&) = delete;

  // Sets a one-shot watch; setting it twice is the same as once.
  void Add(WatcherId watcher, std::string_view path, WatchKind kind);
  // Drops all watches of a connection that is gone. O(its watches).
  void RemoveWatcher(WatcherId watcher);

  // Tells the watchers of a change, in ZooKeeper's order: created -> data watchers of the path
  // (kNodeCreated), child watchers of the parent (kNodeChildrenChanged); deleted -> data and child
  // watchers of the path, each connection once (kNodeDeleted), child watchers of the parent; data
  // changed -> data watchers. What fired is removed. Watchers of one path are told in ascending
  // order. O(watchers that fire).
  void Fire(EventType type, std::string_view path,
            const std::function<void(WatcherId, EventType, std::string_view path)>& tell);

  bool empty() const;
  size_t watch_count() const;    // watches set
  size_t path_count() const;     // distinct paths watched
  size_t watcher_count() const;  // connections with at least one watch

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quorate::tree
