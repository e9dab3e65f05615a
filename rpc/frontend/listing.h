// SPDX-License-Identifier: Apache-2.0

// Reads the list of a znode's children in pieces. The result is nevertheless the set of children at
// one moment, at which the last piece is read. Between two pieces the tree is unlocked, so that
// apply never waits for a list of millions.
//
// Children are read in an order that changes of the set do not affect (tree::ChildrenPlace).
// Children that are created or deleted meanwhile are recorded in a log, which listings of the same
// znode share. The list is corrected by that log when its last piece has been read.
//
// Thread-safety: for Listings, see its functions; a Listing is used by one thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "base/strings.h"
#include "tree/tree.h"

namespace quorate::rpc {

// The number of znodes that are read (or work of the same cost) before the tree is unlocked for a
// moment. Apply waits for that long, some hundred microseconds.
inline constexpr size_t kNodesPerHold = 4096;
// The number of bytes whose copy into a reply takes about as long as a look at one znode. The
// memory of the reply is new to the process, so the time includes page faults.
inline constexpr size_t kBytesPerNode = 256;
// The number of identities whose look-up in an access control list takes about as long as a look at
// one znode.
inline constexpr size_t kIdentitiesPerNode = 4;

// Records the changes of the children of paths that are being listed.
class Listings {
 public:
  Listings() = default;
  Listings(const Listings&) = delete;
  Listings& operator=(const Listings&) = delete;

  // As tree::ApplyListener::OnNodeEvent. REQUIRES: the tree is locked for writing.
  void OnNodeEvent(tree::EventType type, std::string_view path) {
    if (listed_.load(std::memory_order_relaxed) > 0) Record(type, path);
  }

  struct Change {
    std::string name;
    bool exists = false;
  };
  // Changes are kept in chunks, which do not move when more are added: the changes that Take
  // returned are read without a lock while later ones are added to the last chunk.
  using Chunk = std::array<Change, 256>;
  // Changes [first, end) of a path.
  struct Changes {
    std::vector<std::shared_ptr<const Chunk>> chunks;  // from the first change of the log on
    size_t first = 0;
    size_t end = 0;

    const Change& operator[](size_t i) const {
      return (*chunks[i / std::tuple_size_v<Chunk>])[i % std::tuple_size_v<Chunk>];
    }
  };
  // The changes of one path. Each listing uses those from its Begin on.
  struct Log {
    std::vector<std::shared_ptr<Chunk>> chunks;
    size_t count = 0;
    size_t bytes = 0;
    size_t listings = 0;
    bool overflowed = false;  // no more are recorded
  };
  // Records the changes of `path` from now until End. `*first` becomes the index of the first
  // change that follows. Begin, Take and End may be called from any thread. REQUIRES, for all
  // three: the tree is locked for reading, or `log` is not read any more.
  std::shared_ptr<Log> Begin(std::string_view path, size_t* first);
  // Sets `*changes` to the changes from `first` on. Returns false if the log overflowed. Copies no
  // changes: O(chunks).
  bool Take(const Log& log, size_t first, Changes* changes);
  // Ends one listing. The caller may destroy `log` afterwards. That takes time proportional to its
  // changes, so the tree should not be locked then.
  void End(std::string_view path, const std::shared_ptr<Log>& log);

 private:
  void Record(tree::EventType type, std::string_view path);

  std::atomic<size_t> listed_{0};
  Mutex mutex_;
  StringMap<std::vector<std::shared_ptr<Log>>> logs_ ABSL_GUARDED_BY(mutex_);
};

class Listing {
 public:
  // The names that were read so far. A list that fits into one piece needs nothing else.
  struct Names {
    std::string bytes;  // each name with its length before it, as ZooKeeper's protocol has them
    size_t count = 0;
    tree::ChildrenPlace place;
  };
  // Reads the next piece of a list and adds it to `*names`. Returns kTooLarge if the list has more
  // than `bytes_max` bytes.
  static tree::ErrorCode Read(const tree::Tree& tree, std::string_view path,
                              std::span<const tree::Identity> identities, size_t bytes_max,
                              Names* names, tree::Stat* stat);

  // Continues after a first piece, `names`. REQUIRES: the lock under which that piece was read is
  // still held. `listings` must outlive the object.
  Listing(Listings* listings, std::string path, size_t bytes_max, Names names);
  ~Listing();
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;

  // Reads the next piece. Returns kTooLarge also if the list had to be begun again several times
  // because the log of changes overflowed. REQUIRES: the tree is locked for reading; !done().
  tree::ErrorCode ReadNext(const tree::Tree& tree, std::span<const tree::Identity> identities,
                           tree::Stat* stat);
  bool done() const { return done_; }
  const std::string& path() const { return path_; }
  // Returns the size of the names read so far.
  size_t bytes() const { return names_.bytes.size(); }
  // Returns the list as it was at the last piece. O(names); the tree need not be locked. REQUIRES:
  // done(); called once.
  Names Finish();

 private:
  void Begin();

  Listings* const listings_;
  const std::string path_;
  const size_t bytes_max_;
  Names names_;
  std::shared_ptr<Listings::Log> log_;
  // Logs on which End was called. They are destroyed with the object, when the tree is not locked.
  std::vector<std::shared_ptr<Listings::Log>> ended_logs_;
  size_t first_change_ = 0;
  Listings::Changes changes_;  // set once done_
  int restarts_ = 0;
  bool done_ = false;
};

// Calls `name` for each of `names`.
void ForEachName(const Listing::Names& names, const std::function<void(std::string_view)>& name);

}  // namespace quorate::rpc
