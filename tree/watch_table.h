// SPDX-License-Identifier: Apache-2.0

// The watches that the clients of one server have set. Watches are not replicated.
//
// Thread-safety: none inside. rpc/zookeeper calls Add and Remove under its own lock, and Fire while
// it holds the write lock of the tree, so that no read can come between a change and its event.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "tree/types.h"

namespace quorate::tree {

// Identifies a connection. An id is never used again for another connection.
using WatcherId = uint64_t;

// The kind of a watch determines which events it gets, and how often.
enum class WatchKind : uint8_t {
  kData,                 // getData, exists: one event of the node
  kChild,                // getChildren: one event of the node's children, or its deletion
  kPersistent,           // addWatch: every event of the node and of its children
  kPersistentRecursive,  // addWatch: every event of the node and all nodes below it, except
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

  // Sets a watch. Setting it again has no effect. A connection may have watches of all kinds on one
  // path. O(1).
  void Add(WatcherId watcher, std::string_view path, WatchKind kind);
  // Removes a connection's watches of a type on a path. Returns false if it had none. A persistent
  // watch counts as two watches: one of the node and one of its children. kChildren and kData
  // remove the one-shot watch; if there is none, they remove that half of the persistent watch. If
  // there is neither, kData removes a recursive watch. O(1).
  bool Remove(WatcherId watcher, std::string_view path, WatcherType type);
  // Returns whether Remove would find a watch to remove. O(1).
  bool Contains(WatcherId watcher, std::string_view path, WatcherType type) const;
  // Removes at most `max` watches of a closed connection. Returns true if none is left. O(removed
  // watches).
  bool RemoveWatcher(WatcherId watcher, size_t max = SIZE_MAX);

  // Calls `tell` for each watcher of a change, in ZooKeeper's order:
  //   created       watchers of the node (kNodeCreated), then child watchers of the parent
  //                 (kNodeChildrenChanged)
  //   deleted       watchers and child watchers of the node (kNodeDeleted), then child watchers of
  //                 the parent (kNodeChildrenChanged)
  //   data changed  watchers of the node (kNodeDataChanged)
  // Recursive watchers of the node, or of any node above it, count as watchers of the node. Each
  // connection gets each of the events once, in ascending order of connections. One-shot watches
  // that fired are removed. O(notified watchers), plus O(depth of the path) if there is any
  // recursive watch.
  void Fire(EventType type, std::string_view path,
            const std::function<void(WatcherId, EventType, std::string_view path)>& tell);

  // Calls `watch` for each connection and path with a watch of the node, or twice if the connection
  // has both a recursive watch and one that is not, until `watch` returns false. Calls for the same
  // path come together; there is no other order. Returns whether all watches were visited.
  // O(visited paths and watches).
  bool ForEachNodeWatch(const std::function<bool(WatcherId, std::string_view path)>& watch) const;
  // Does the same for one of kParts parts, numbered from 0. A hash decides in which part a path is.
  // The table may change between two parts.
  static constexpr size_t kParts = 256;
  bool ForEachNodeWatch(size_t part,
                        const std::function<bool(WatcherId, std::string_view path)>& watch) const;

  // Calls `watch` for each watch on `path`, of the node or of its children, until `watch` returns false:
  // first those of the node, then those of its children, then recursive ones. A persistent watch that
  // is not recursive is two. Recursive watches on paths above are not visited. O(visited watches).
  enum class WatchOf : uint8_t { kNode, kChildren, kSubtree };
  void ForEachWatchAt(std::string_view path,
                      const std::function<bool(WatcherId, WatchOf)>& watch) const;

  bool empty() const;
  size_t watch_count() const;    // watches set; a persistent one counts as two
  size_t path_count() const;     // distinct paths watched
  size_t watcher_count() const;  // connections with at least one watch
  // Returns the number of watches of one connection. O(1).
  size_t CountOf(WatcherId watcher) const;
  // Return the approximate memory, in bytes, of the watches of one connection and of all watches.
  size_t BytesOf(WatcherId watcher) const;
  size_t bytes() const;
  // Return the same counts for watches of nodes alone, without child watches.
  size_t node_watch_count() const;
  size_t node_path_count() const;
  size_t node_watcher_count() const;
  // Returns the number of paths with at least kCrowdedWatchesMin watches. While it is 0, an event
  // notifies few watchers, unless many levels above the node have recursive watches.
  size_t crowded_path_count() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quorate::tree
