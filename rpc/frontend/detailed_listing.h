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
#include "rpc/frontend/list_details.h"
#include "rpc/frontend/listing.h"
#include "tree/tree.h"

namespace quorate::rpc {

// What was read of a child that belongs to a list.
struct ListedChild {
  std::unique_ptr<const tree::Stat> stat;  // null if it was not asked for
  std::string data;                        // empty if it was not asked for
  bool has_data = false;                   // false for null data, too
};

class DetailedListing {
 public:
  // `listings` must outlive the object. The reply may have at most `bytes_max` bytes, of which a
  // stat takes `stat_bytes`. `members_text` is the content of /zookeeper/config (config_node.h); it
  // must outlive the object. REQUIRES: details.reads_children().
  DetailedListing(Listings* listings, std::string_view members_text, std::string path,
                  const ListDetails& details, size_t stat_bytes, size_t bytes_max);
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

  // A child of the result. Both are valid as long as the listing.
  struct Entry {
    std::string_view name;
    const ListedChild* child;
  };
  // Returns the result, in no order. The tree need not be locked. REQUIRES: done().
  std::vector<Entry> Finish() const;
  // Returns the stat of the znode at the last piece. REQUIRES: done().
  const tree::Stat& stat() const { return stat_; }

 private:
  void BeginRecording();
  // Adds to again_ the names of the children that were created or deleted since the last call.
  // Returns false if there are too many.
  bool TakeChanges();
  // Reads a child. `*child` gets no value if there is none of that name and kind.
  tree::ErrorCode ReadChild(const tree::Tree& tree, std::string_view name,
                            std::span<const tree::Identity> identities, size_t* spent,
                            std::optional<ListedChild>* child) const;

  // Counts the bytes of a child that was read. Returns false if the reply is too large.
  bool Count(const std::optional<ListedChild>& child);

  Listings* const listings_;
  const std::string_view members_text_;
  const std::string path_;
  const ListDetails details_;
  const size_t stat_bytes_;
  const size_t bytes_max_;
  tree::Stat stat_;
  // The names of all children, and what was read of them so far: children_[i] belongs to the ith.
  Listing::Names names_;
  size_t names_read_bytes_ = 0;
  std::vector<std::optional<ListedChild>> children_;
  size_t kept_bytes_ = 0;
  size_t reply_bytes_ = 0;  // of stats and data
  // The changes since the first piece, if there are more.
  std::shared_ptr<Listings::Log> log_;
  size_t next_change_ = 0;
  std::set<std::string, std::less<>> again_;  // children that have to be read again
  // Children that were read again; they replace those of children_.
  absl::btree_map<std::string, std::optional<ListedChild>> corrections_;
  size_t read_again_ = 0;
  bool done_ = false;
};

}  // namespace quorate::rpc
