// SPDX-License-Identifier: Apache-2.0

// Reads the paths of everything below a znode, breadth first, in pieces between which the tree is
// unlocked. Znodes that are created or deleted between two pieces may or may not be in the list;
// but the list is not older than the last event of which OnEvent was called.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "tree/tree.h"

namespace quorate::rpc {

class RecursiveListing {
 public:
  // The list gets at most `paths_max` paths. It may keep at most `bytes_max` bytes.
  RecursiveListing(std::string top, size_t paths_max, size_t bytes_max);
  RecursiveListing(const RecursiveListing&) = delete;
  RecursiveListing& operator=(const RecursiveListing&) = delete;

  // Reads the next piece, about kNodesPerHold znodes less `*spent`, to which the cost is added.
  // Returns an error if the top znode does not exist or may not be read; kTooLarge if the list
  // takes more than `bytes_max` bytes. A znode below the top that may not be read is listed without
  // what is below it. REQUIRES: the tree is locked for reading; !done().
  tree::ErrorCode ReadNext(const tree::Tree& tree, std::span<const tree::Identity> identities,
                           size_t* spent);
  // Called when the client is sent an event of this path between two pieces.
  void OnEvent(tree::EventType type, std::string_view path);
  bool done() const { return done_; }
  // Returns about how many bytes are kept.
  size_t bytes() const { return list_.paths.size() + changed_bytes_; }

  // The result, in the encoding of ZooKeeper's protocol: each path with its length before it.
  struct Result {
    size_t count = 0;
    std::string paths;
  };
  // Returns the result, in which a znode comes before what is below it. The tree need not be
  // locked. REQUIRES: done(); called once.
  Result Finish();

 private:
  // Adds a child. Beyond bytes_max_ it adds nothing: each child repeats the path of its parent, so
  // that the children that are read at once may have gigabytes of paths.
  void Add(std::string_view name);
  void BeginNext();

  const std::string top_;
  const size_t paths_max_;
  const size_t bytes_max_;
  std::string node_;  // the znode whose children are being listed
  bool is_top_ = true;
  tree::ChildrenPlace place_;
  // The list is also the queue: the znodes whose children are not listed yet begin at next_.
  Result list_;
  size_t next_ = 0;
  // The paths below the top that exist (true) or do not (false), according to the events that the
  // client was sent.
  std::map<std::string, bool, std::less<>> changed_;
  size_t changed_bytes_ = 0;
  bool done_ = false;
};

}  // namespace quorate::rpc
