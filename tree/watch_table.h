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

// How a watch was set, which decides what it is told and how often.
enum class WatchKind : uint8_t {
  kData,                 // getData, exists: one event of the node
  kChild,                // getChildren: one event of the node's children, or its deletion
  kPersistent,           // addWatch: every event of the node and of its children
  kPersistentRecursive,  // addWatch: every event of the node and of all below it, but none of
                         // kNodeChildrenChanged
};

// Which watches checkWatches and removeWatches mean; the numbers are those of the protocol.
enum class WatcherType : int32_t {
  kChildren = 1,
  kData = 2,
  kAny = 3,
  kPersistent = 4,
  kPersistentRecursive = 5,
};

class WatchTable {
 public:
  static constexpr size_t kCrowdedWatchesMin = 100;

  WatchTable();
  ~WatchTable();
  WatchTable(const WatchTable&) = delete;
  WatchTable& operator=(const WatchTable&) = delete;

  // Sets a watch; setting it twice is the same as once. A connection may have watches of all kinds
  // on one path. O(1).
  void Add(WatcherId watcher, std::string_view path, WatchKind kind);
  // Drops watches of a connection on a path; false if it had none of the type. A persistent watch
  // is two, of the node and of its children: kChildren and kData mean those of one shot, and where
  // there is none that half of the persistent one. kData means a recursive one in the last place.
  // O(1).
  bool Remove(WatcherId watcher, std::string_view path, WatcherType type);
  // Whether Remove would find any. O(1).
  bool Contains(WatcherId watcher, std::string_view path, WatcherType type) const;
  // Drops the watches of a connection that is gone, `max` of them at most; true if there are no
  // more. O(that many).
  bool RemoveWatcher(WatcherId watcher, size_t max = SIZE_MAX);

  // Tells the watchers of a change, in ZooKeeper's order: created -> watchers of the node
  // (kNodeCreated), child watchers of the parent (kNodeChildrenChanged); deleted -> watchers of the
  // node and child watchers of it (kNodeDeleted), child watchers of the parent; data changed ->
  // watchers of the node. Recursive watchers of the node or of any node above it count as watchers
  // of the node. Each connection is told of each of the two once, in ascending order. Watches of
  // one shot that fired are removed. O(watchers that are told); where anyone watches recursively,
  // and only then, O(depth of the path) more.
  void Fire(EventType type, std::string_view path,
            const std::function<void(WatcherId, EventType, std::string_view path)>& tell);

  // Calls `watch` for each connection and path with a watch of the node, once or twice (if it
  // watches recursively too), path by path, in no other order, until it returns false. Returns
  // whether all were shown. O(paths that are passed and watches that are shown).
  bool ForEachNodeWatch(const std::function<bool(WatcherId, std::string_view path)>& watch) const;
  // The same in kParts parts, from 0 on, in which paths are by lot: the table may change between
  // two of them.
  static constexpr size_t kParts = 256;
  bool ForEachNodeWatch(size_t part,
                        const std::function<bool(WatcherId, std::string_view path)>& watch) const;

  bool empty() const;
  size_t watch_count() const;    // watches set; a persistent one is two
  size_t path_count() const;     // distinct paths watched
  size_t watcher_count() const;  // connections with at least one watch
  // Bytes that the watches of one connection take, about, and those of all.
  size_t BytesOf(WatcherId watcher) const;
  size_t bytes() const;
  // The same of watches of nodes alone.
  size_t node_watch_count() const;
  size_t node_path_count() const;
  size_t node_watcher_count() const;
  // Paths with at least kCrowdedWatchesMin watches. While there are none, few are told of an event,
  // unless there are recursive watches at each of many levels.
  size_t crowded_path_count() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quorate::tree
