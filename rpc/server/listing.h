// Lists of a znode's children that are read in pieces, and yet are what the children are at one
// moment, the end. Between two pieces the tree is unlocked, so that what is applied never waits for
// a list of millions.
//
// Children are read in an order that no change of the set moves (tree::ChildrenPlace). What comes
// and goes meanwhile is written down, once for all who list the same znode, and corrects the list
// when its last piece was read.
//
// Thread-safety: Listings as said there; a Listing belongs to one thread.
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

// How much of the tree is looked at before it is unlocked for a moment: znodes, or what costs as
// much. Apply waits for that, some hundred microseconds.
inline constexpr size_t kNodesPerHold = 4096;
// The number of bytes whose copy into a reply takes about as long as a look at one znode. The
// memory of the reply is new to the process, so that the copy pays for page faults too.
inline constexpr size_t kBytesPerNode = 256;
// The number of identities whose look-up in an access control list takes about as long.
inline constexpr size_t kIdentitiesPerNode = 4;

// What changed at paths that are being listed.
class Listings {
 public:
  Listings() = default;
  Listings(const Listings&) = delete;
  Listings& operator=(const Listings&) = delete;

  // As tree::ApplyListener's. REQUIRES: the tree is locked for writing.
  void OnNodeEvent(tree::EventType type, std::string_view path) {
    if (listed_.load(std::memory_order_relaxed) > 0) Record(type, path);
  }

  struct Change {
    std::string name;
    bool exists = false;
  };
  // Changes are kept in chunks, which do not move when more are added: what was taken is read
  // without a lock, while the last chunk grows behind it.
  using Chunk = std::array<Change, 256>;
  // Changes [first, end) of a path.
  struct Changes {
    std::vector<std::shared_ptr<const Chunk>> chunks;  // from the first change of all on
    size_t first = 0;
    size_t end = 0;

    const Change& operator[](size_t i) const {
      return (*chunks[i / std::tuple_size_v<Chunk>])[i % std::tuple_size_v<Chunk>];
    }
  };
  // The changes of one path, of which each listing has those from its begin on.
  struct Log {
    std::vector<std::shared_ptr<Chunk>> chunks;
    size_t count = 0;
    size_t bytes = 0;
    size_t listings = 0;
    bool overflowed = false;  // it gets no more
  };
  // Changes of `path` are written down from now until End. From any thread. REQUIRES, of all: the
  // tree is locked for reading, or `log` is not read any more.
  std::shared_ptr<Log> Begin(std::string_view path, size_t* first);
  // The changes from `first` on; false if they overflowed. Copies none of them: O(chunks).
  bool Take(const Log& log, size_t first, Changes* changes);
  // `log` may be destroyed afterwards, which takes as long as there are changes: better when the
  // tree is not locked.
  void End(std::string_view path, const std::shared_ptr<Log>& log);

 private:
  void Record(tree::EventType type, std::string_view path);

  std::atomic<size_t> listed_{0};
  Mutex mutex_;
  StringMap<std::vector<std::shared_ptr<Log>>> logs_ ABSL_GUARDED_BY(mutex_);
};

class Listing {
 public:
  // What a piece finds, as one step: a list that one piece holds needs nothing else.
  struct Names {
    std::string bytes;  // each name with its length before it, as ZooKeeper's protocol has them
    size_t count = 0;
    tree::ChildrenPlace place;
  };
  // Reads the next piece of a list. kTooLarge if its bytes are more than `bytes_max`.
  static tree::ErrorCode Read(const tree::Tree& tree, std::string_view path,
                              std::span<const tree::Identity> identities, size_t bytes_max,
                              Names* names, tree::Stat* stat);

  // Goes on behind a first piece, which was read under the lock that is still held. `listings` must
  // outlive it.
  Listing(Listings* listings, std::string path, size_t bytes_max, Names names);
  ~Listing();
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;

  // Reads the next piece. kTooLarge also if the children change so much that the list cannot be
  // kept up, several times. REQUIRES: the tree is locked for reading; !done().
  tree::ErrorCode ReadNext(const tree::Tree& tree, std::span<const tree::Identity> identities,
                           tree::Stat* stat);
  bool done() const { return done_; }
  const std::string& path() const { return path_; }
  // Of the names so far.
  size_t bytes() const { return names_.bytes.size(); }
  // The list as it was at the last piece. O(names); the tree need not be locked. Once. REQUIRES:
  // done().
  Names Finish();

 private:
  void Begin();

  Listings* const listings_;
  const std::string path_;
  const size_t bytes_max_;
  Names names_;
  std::shared_ptr<Listings::Log> log_;
  // Logs that have ended. They are destroyed with the object, when the tree is not locked.
  std::vector<std::shared_ptr<Listings::Log>> ended_logs_;
  size_t first_change_ = 0;
  Listings::Changes changes_;  // once done
  int restarts_ = 0;
  bool done_ = false;
};

// Calls `name` for each of them.
void ForEachName(const Listing::Names& names, const std::function<void(std::string_view)>& name);

}  // namespace quorate::rpc
