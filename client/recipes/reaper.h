// SPDX-License-Identifier: Apache-2.0

// Removes the children of a znode that have been empty for some time, such as the directories of locks
// that nobody uses any more, where these are not containers.
//
//   quorate::Reaper reaper(client.get(), "/locks", {.empty_for_ms = 600'000});
//   absl::StatusOr<int> removed = reaper.Reap();  // every minute, for example
//
// The equivalent of Curator's ChildReaper. Containers (CreateMode::kContainer) need no reaper: the
// servers remove them.
//
// A child is removed if two calls of Reap that are at least `empty_for_ms` apart, and all between them,
// have seen the same znode without children, and if no child of it was created or deleted and its data
// was not set since the first of them. The servers check this in the transaction that removes it
// (creation, versions and number of children of its Stat): a znode that got a child, was used, or was
// deleted and created again meanwhile is never removed. Ephemeral children are never removed, and
// those with data only if the options say so.
//
// A program that creates children below such a parent must be ready for NO_NODE, and create the parent
// again, as CreateOptions::create_parents and the locks of this client do.
//
// Several programs can reap the same znode: one of them removes a child, and the others find it
// removed. A reaper has no znodes, and is in no session: if the session is lost, a call in flight returns
// UNAUTHENTICATED, and the next call goes on; what was seen before stays valid.
//
// Thread-safety: all functions may be called from any thread except the callback thread; one call runs
// at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace quorate {

// What a reaper removes.
struct ReaperOptions {
  // How long a child must have been empty. 0: the second call that sees it empty removes it.
  int64_t empty_for_ms = 600'000;
  // Whether children with data are removed, too.
  bool removes_data = false;
  // How many empty children are remembered; further ones are considered once these are removed or
  // used. Positive.
  size_t remembered_max = 100'000;
  // Returns the time in milliseconds, which must not go backwards; empty: the steady clock.
  std::function<int64_t()> now_ms{};
};

// Removes empty children of one znode.
class Reaper {
 public:
  // REQUIRES: `client` outlives this object.
  Reaper(Client* client, std::string path, ReaperOptions options = {});

  // Looks at all children, and removes those that have been empty for long enough. Returns how many.
  // Children that may not be removed (NO_AUTH) stay, without an error. Otherwise errors are those of
  // Client::List and Commit; UNIMPLEMENTED: the cluster has servers of a version without
  // Transaction::CheckStat. The children that were removed before the error stay removed.
  absl::StatusOr<int> Reap();

 private:
  // An empty child, as it was when it was first seen so.
  struct Empty {
    int64_t created_zxid = 0, modified_zxid = 0;
    int32_t children_version = 0;
    int64_t since_ms = 0;
    bool is_seen_again = false;  // a later call has seen it, unchanged
  };
  // Returns whether the child was removed; false if it is not the same, or is not empty, any more.
  absl::StatusOr<bool> Remove(const std::string& name, const Empty& empty);

  Client* const client_;
  const std::string path_;
  const ReaperOptions options_;

  std::mutex mutex_;
  std::map<std::string, Empty> empty_;  // by the name of the child
};

}  // namespace quorate
