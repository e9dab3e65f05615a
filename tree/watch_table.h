// The watches that the clients of one server have set. Not replicated.
//
// Thread-safety: none inside. rpc/zookeeper calls Add and Remove under its own lock, and Fire while
// it holds the write side of the tree, so that no read can slip between a change and its event.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "tree/types.h"

namespace quorate::tree {

// Identifies a connection; never used again for another one.
using WatcherId = uint64_t;

// How a watch was set: determines which events it gets, and how often.
enum class WatchKind : uint8_t {
  kData,                 // getData, exists: one event of the node
  kChild,                // getChildren: one event of the node's children, or its deletion
  kPersistent,           // addWatch: every event of the node and of its children
  kPersistentRecursive,  // addWatch: every event of the node and of all below it, but none of
                         // kNodeChildrenChanged
};

// The type of watches in checkWatches and removeWatches; the numbers are those of the protocol.
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
  // Removes watches of a connection on a path; returns false if it had none of the type. A
  // persistent watch counts as two, of the node and of its children: kChildren and kData remove the
  // one-shot watch, or, if there is none, that half of the persistent watch. If there is neither,
  // kData removes a recursive watch. O(1).
  bool Remove(WatcherId watcher, std::string_view path, WatcherType type);
  // Returns whether Remove would find a watch. O(1).
  bool Contains(WatcherId watcher, std::string_view path, WatcherType type) const;
  // Removes the watches of a closed connection, at most `max` of them; returns true if none is
  // left. O(removed watches).
  bool RemoveWatcher(WatcherId watcher, size_t max = SIZE_MAX);

  // Calls `tell` for each watcher of a change, in ZooKeeper's order: created -> watchers of the
  // node (kNodeCreated), child watchers of the parent (kNodeChildrenChanged); deleted -> watchers
  // of the node and child watchers of it (kNodeDeleted), child watchers of the parent; data changed
  // -> watchers of the node. Recursive watchers of the node or of any node above it count as
  // watchers of the node. Each connection gets each of the two events once, in ascending order of
  // connections. One-shot watches that fired are removed. O(notified watchers), and O(depth of the
  // path) more if there is any recursive watch.
  void Fire(EventType type, std::string_view path,
            const std::function<void(WatcherId, EventType, std::string_view path)>& tell);

  // Calls `watch` for each connection and path with a watch of the node, or twice if the connection
  // has both a plain and a recursive one, until `watch` returns false. Calls for the same path come
  // together; there is no other order. Returns whether all were visited. O(visited paths and
  // watches).
  bool ForEachNodeWatch(const std::function<bool(WatcherId, std::string_view path)>& watch) const;
  // The same for one of kParts parts, from 0 on; a hash decides in which part a path is. The table
  // may change between two parts.
  static constexpr size_t kParts = 256;
  bool ForEachNodeWatch(size_t part,
                        const std::function<bool(WatcherId, std::string_view path)>& watch) const;

  bool empty() const;
  size_t watch_count() const;    // watches set; a persistent one is two
  size_t path_count() const;     // distinct paths watched
  size_t watcher_count() const;  // connections with at least one watch
  // Approximate memory of the watches of one connection, and of all watches.
  size_t BytesOf(WatcherId watcher) const;
  size_t bytes() const;
  // The same counts for watches of nodes alone, without child watches.
  size_t node_watch_count() const;
  size_t node_path_count() const;
  size_t node_watcher_count() const;
  // The number of paths with at least kCrowdedWatchesMin watches. While it is 0, an event notifies
  // few watchers, unless there are recursive watches at each of many levels.
  size_t crowded_path_count() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quorate::tree
