// SPDX-License-Identifier: Apache-2.0

// Reads the list of a znode's children with what they contain, in pieces: filtered by their kind,
// with their stats and data. As with Listing, the children are those at one moment, at which the
// last piece is read; the stat and the data of a child may be a little older, but not older than
// the last event of that child of which OnEvent was called.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/btree_map.h"
#include "rpc/frontend/listing.h"
#include "rpc/zookeeper/protocol.h"
#include "tree/tree.h"

namespace quorate::rpc::zk {

class DetailedListing {
 public:
  // `listings` must outlive the object. The reply may have at most `bytes_max` bytes.
  // `members_text` is the content of /zookeeper/config (config_node.h); it must outlive the object.
  // REQUIRES: details.reads_children().
  DetailedListing(Listings* listings, std::string_view members_text, std::string path,
                  const ListDetails& details, size_t bytes_max);
  ~DetailedListing();
  DetailedListing(const DetailedListing&) = delete;
  DetailedListing& operator=(const DetailedListing&) = delete;

  // Reads the next piece, about kNodesPerHold znodes less `*spent`, to which the cost is added.
  // Returns kNoAuth also if a child may not be read; kTooLarge if the reply would be too large, or
  // the children change faster than they are read. REQUIRES: the tree is locked for reading;
  // !done().
  tree::ErrorCode ReadNext(const tree::Tree& tree, std::span<const tree::Identity> identities,
                           size_t* spent);
  // Called when the client is sent an event of this path between two pieces.
  void OnEvent(std::string_view path);
  bool done() const { return done_; }
  const std::string& path() const { return path_; }
  // Returns about how many bytes are kept.
  size_t bytes() const { return kept_bytes_ + names_.bytes.size(); }

  // The result, in the encoding of ZooKeeper's protocol.
  struct Result {
    size_t count = 0;
    std::string names;  // each with its length
    std::string stats;  // empty if not asked for
    std::string data;   // each with its length, -1 for null data; empty if not asked for
  };
  // Returns the result. The tree need not be locked. REQUIRES: done(); called once.
  Result Finish();
  // Returns the stat of the znode at the last piece. REQUIRES: done().
  const tree::Stat& stat() const { return stat_; }

 private:
  // A child that belongs to the list, encoded.
  struct Child {
    std::string stat;
    std::string data;
  };

  void BeginRecording();
  // Adds to again_ the names of the children that were created or deleted since the last call.
  // Returns false if there are too many.
  bool TakeChanges();
  // Reads a child. `*child` gets no value if there is none of that name and kind.
  tree::ErrorCode ReadChild(const tree::Tree& tree, std::string_view name,
                            std::span<const tree::Identity> identities, size_t* spent,
                            std::optional<Child>* child) const;

  // Counts the bytes of a child that was read. Returns false if the reply is too large.
  bool Count(const std::optional<Child>& child);

  Listings* const listings_;
  const std::string_view members_text_;
  const std::string path_;
  const ListDetails details_;
  const size_t bytes_max_;
  tree::Stat stat_;
  // The names of all children, and what was read of them so far: children_[i] belongs to the ith.
  Listing::Names names_;
  size_t names_read_bytes_ = 0;
  std::vector<std::optional<Child>> children_;
  size_t kept_bytes_ = 0;
  size_t reply_bytes_ = 0;  // of stats and data
  // The changes since the first piece, if there are more.
  std::shared_ptr<Listings::Log> log_;
  size_t next_change_ = 0;
  std::set<std::string, std::less<>> again_;  // children that have to be read again
  // Children that were read again; they replace those of children_.
  absl::btree_map<std::string, std::optional<Child>> corrections_;
  size_t read_again_ = 0;
  bool done_ = false;
};

}  // namespace quorate::rpc::zk
