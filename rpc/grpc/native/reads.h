// SPDX-License-Identifier: Apache-2.0

// Reads of the tree that return results of the published interface.
//
// Thread-safety: functions without state. REQUIRES, for all functions: the tree is locked for
// reading.
#pragma once

#include <memory>
#include <string>

#include "rpc/frontend/client_identities.h"
#include "rpc/frontend/counted_bytes.h"
#include "rpc/frontend/listing.h"
#include "rpc/frontend/memory_budget.h"
#include "rpc/grpc/native/translation.h"
#include "rpc/proto/quorate/v1/types.pb.h"
#include "tree/tree.h"

namespace quorate::rpc::native {

// Each of these returns OK, or the error of the read. `members_text` is the content of
// /zookeeper/config.
v1::ErrorCode Read(const tree::Tree& tree, const std::string& path,
                   const ClientIdentities& identities, const std::string& members_text,
                   v1::GetResult* result);
v1::ErrorCode Read(const tree::Tree& tree, const std::string& path,
                   const ClientIdentities& identities, const std::string& members_text,
                   v1::ExistsResult* result);
v1::ErrorCode Read(const tree::Tree& tree, const std::string& path,
                   const ClientIdentities& identities, const std::string& members_text,
                   v1::GetAclResult* result);

// Reads a list of children in pieces (rpc/frontend/listing.h). Belongs to one thread.
class ListReader {
 public:
  // `listings` and `memory` must outlive the reader. A list whose names take more than `bytes_max`
  // fails with TOO_LARGE. A long list fails with UNAVAILABLE while replies take more memory than
  // they may.
  ListReader(Listings* listings, MemoryBudget* memory, std::string path, size_t bytes_max);

  // Reads the next piece. Returns OK, or the error of the read. REQUIRES: the tree is locked for
  // reading; !done().
  v1::ErrorCode Read(const tree::Tree& tree, const ClientIdentities& identities,
                     const std::string& members_text);
  bool done() const { return done_; }
  // Returns whether the list took more than one piece. Then Finish may take long, and the tree
  // should be unlocked first.
  bool is_long() const { return listing_ != nullptr; }
  // Returns the bytes that the reader keeps.
  size_t bytes() const { return counted_.bytes(); }
  // Returns the cost of the last piece, in znodes.
  size_t spent() const { return spent_; }
  // Sets `*result` to the list, in its state at the last piece. Call it once; the tree need not be
  // locked. REQUIRES: done().
  void Finish(v1::ListResult* result);

 private:
  Listings* const listings_;
  MemoryBudget* const memory_;
  const std::string path_;
  const size_t bytes_max_;
  Listing::Names names_;              // names in the first piece
  std::unique_ptr<Listing> listing_;  // for the further pieces
  tree::Stat stat_;
  CountedBytes counted_;
  size_t spent_ = 0;
  bool done_ = false;
};

}  // namespace quorate::rpc::native
