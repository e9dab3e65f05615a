// SPDX-License-Identifier: Apache-2.0

// A copy of a part of the tree in memory, which follows all changes.
//
//   auto cache = quorate::TreeCache::Start(client.get(), "/config");
//   if (absl::Status s = (*cache)->WaitUntilLoaded(); !s.ok()) return s;
//   std::optional<quorate::TreeCache::Znode> limit = (*cache)->Find("/config/limit");
//
// Corresponds to Curator's CuratorCache, TreeCache, PathChildrenCache (kChildren) and NodeCache
// (kNode). The znode at `path` need not exist.
//
// Consistency: a znode's data and metadata belong to the same state of the znode, and never go back
// to an older one. A znode appears after its parent, and is removed before it. Whenever
// is_settled(), the copy is exactly the state of the tree at zxid(): the client reports each change
// before any answer that shows it, and the cache then reads the changed znode. Exceptions are the
// metadata that change without an event of the znode itself: its ACL, and the fields of its Stat
// about children. A znode that this client may not read is left out.
//
// No change is lost when the client changes the member. If the client was disconnected for longer
// than the servers keep events, or its session was replaced, the cache reads everything again and
// reports the differences. While no member serves or there is no session, the copy stays as it is;
// also after the client's last session has ended, which status() reports.
//
// Thread-safety: all functions may be called from any thread; the destructor and functions that
// block must not be called on the callback thread. The listener is called on the callback thread,
// must not block, and may call all functions that do not block.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace quorate {

// A copy of a subtree in memory, which follows all changes.
class TreeCache {
 public:
  // A znode of the copy.
  struct Znode {
    std::string path;
    std::string data;
    Stat stat;

    bool operator==(const Znode&) const = default;
  };
  // A change of the copy.
  struct Change {
    // What has changed.
    enum class Type {
      kAdded,
      kChanged,
      kRemoved,  // `znode` is the last known state
      kLoaded,   // all znodes that existed at the start were added; reported once
      kLost,     // the cache stops following, status() returns why; the last change
    };
    Type type{};
    Znode znode{};  // empty for kLoaded and kLost
  };
  // Called for each change after it is made in the copy.
  using Listener = std::function<void(const Change&)>;

  // Begins to load the copy, and to follow changes. Errors are those of Client::Watch. REQUIRES:
  // `client` outlives the returned object.
  static absl::StatusOr<std::unique_ptr<TreeCache>> Start(Client* client, std::string path,
                                                          Listener listener = nullptr,
                                                          WatchScope scope = WatchScope::kSubtree);
  // The listener is not called any more after the destructor has returned.
  ~TreeCache();
  TreeCache(const TreeCache&) = delete;
  TreeCache& operator=(const TreeCache&) = delete;

  // Blocks until all znodes that existed at the start are in the copy. DEADLINE_EXCEEDED after
  // `deadline_ms`; 0: without a deadline. Otherwise status().
  absl::Status WaitUntilLoaded(int deadline_ms = 0);
  // Blocks until the copy is loaded and has every change that was acknowledged to any client before
  // this call. Deadline and errors as above; UNAUTHENTICATED: the session was lost meanwhile, and
  // the cache follows on in the next one.
  absl::Status WaitUntilCurrent(int deadline_ms = 0);

  // Returns the znode at `path`; nothing if it is not in the copy.
  std::optional<Znode> Find(std::string_view path) const;
  // Returns the children of `path`, by name.
  std::map<std::string, Znode> Children(std::string_view path) const;
  // Returns all znodes of the copy, parents before their children.
  std::vector<Znode> All() const;

  // Returns whether the copy is loaded and has all changes that are known.
  bool is_settled() const;
  // Returns the zxid of the newest state that the cache has read or received an event of.
  int64_t zxid() const;
  // Returns OK while the cache follows changes, also between two sessions; otherwise the reason why
  // it no longer does, in most cases the end of the client's last session.
  absl::Status status() const;

 private:
  class State;
  explicit TreeCache(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;
};

}  // namespace quorate
