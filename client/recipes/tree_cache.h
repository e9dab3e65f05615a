// A copy of a part of the tree in memory, which follows its changes.
//
//   auto cache = quorate::TreeCache::Start(client.get(), "/config");
//   if (absl::Status s = (*cache)->WaitUntilLoaded(); !s.ok()) return s;
//   std::optional<quorate::TreeCache::Znode> limit = (*cache)->Find("/config/limit");
//
// Plays the part of Curator's CuratorCache, TreeCache, PathChildrenCache (kChildren) and NodeCache
// (kNode). The znode at `path` need not be there.
//
// Consistency: a znode's data and metadata belong together, and never go back to an older state. A
// znode appears after its parent did, and is removed before it. Once loaded, the copy is exactly
// what the tree was at the time of zxid() whenever is_settled(): each change is told before any
// answer that shows it, and is then read. Of the metadata that is not true of what changes without
// an event of the znode itself: its ACL, and what its Stat says about children.
// A znode that this client may not read is left out.
//
// Changes of servers lose nothing. If this client was away for longer than servers keep events, all
// is read again, and the differences are told. While no member serves the copy stays as it is; it
// does so, too, when the session is over: status() says so.
//
// Thread-safety: all functions from any thread, but the destructor and those that wait not from
// that of callbacks. The listener is called on the thread of callbacks, must not block, and may
// call all functions that do not wait.
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

class TreeCache {
 public:
  struct Znode {
    std::string path;
    std::string data;
    Stat stat;

    bool operator==(const Znode&) const = default;
  };
  struct Change {
    enum class Type {
      kAdded,
      kChanged,
      kRemoved,  // `znode` is as it was last
      kLoaded,   // all that was there at the start has been added; told once
      kLost,     // it follows no more, status() says why; told last
    };
    Type type{};
    Znode znode{};  // empty for kLoaded and kLost
  };
  // Told of each change when it is in the copy.
  using Listener = std::function<void(const Change&)>;

  // Begins to load, and to follow. Errors: those of Client::Watch. REQUIRES: `client` lives longer.
  static absl::StatusOr<std::unique_ptr<TreeCache>> Start(Client* client, std::string path,
                                                          Listener listener = nullptr,
                                                          WatchScope scope = WatchScope::kSubtree);
  // No listener is called any more when it returns.
  ~TreeCache();
  TreeCache(const TreeCache&) = delete;
  TreeCache& operator=(const TreeCache&) = delete;

  // Waits until all that was there at the start is in the copy. DEADLINE_EXCEEDED after
  // `deadline_ms`; 0: without a deadline.
  absl::Status WaitUntilLoaded(int deadline_ms = 0);
  // Waits until it is loaded and every change that was acknowledged to anybody before this call is
  // in the copy. Deadline as above.
  absl::Status WaitUntilCurrent(int deadline_ms = 0);

  // Nothing, if it is not in the copy.
  std::optional<Znode> Find(std::string_view path) const;
  // By name.
  std::map<std::string, Znode> Children(std::string_view path) const;
  // All of it, parents before their children.
  std::vector<Znode> All() const;

  // Whether it is loaded, and no change is known that is not in the copy.
  bool is_settled() const;
  // Of the newest state that it has read or was told of.
  int64_t zxid() const;
  // OK while it follows; otherwise why it does not any more, mostly that the session is over.
  absl::Status status() const;

 private:
  class State;
  explicit TreeCache(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;
};

}  // namespace quorate
