// What is read from the tree for a client, in the words of the published interface.
//
// Thread-safety: functions without state. REQUIRES, of all functions: the tree is locked for
// reading.
#pragma once

#include <memory>
#include <string>

#include "rpc/grpc/native/translation.h"
#include "rpc/proto/quorate/v1/types.pb.h"
#include "rpc/server/client_identities.h"
#include "rpc/server/counted_bytes.h"
#include "rpc/server/listing.h"
#include "rpc/server/memory_budget.h"
#include "tree/tree.h"

namespace quorate::rpc::native {

// Each returns OK, or why nothing was read. `members_text` is what /zookeeper/config shows.
v1::ErrorCode Read(const tree::Tree& tree, const std::string& path,
                   const ClientIdentities& identities, const std::string& members_text,
                   v1::GetResult* result);
v1::ErrorCode Read(const tree::Tree& tree, const std::string& path,
                   const ClientIdentities& identities, const std::string& members_text,
                   v1::ExistsResult* result);
v1::ErrorCode Read(const tree::Tree& tree, const std::string& path,
                   const ClientIdentities& identities, const std::string& members_text,
                   v1::GetAclResult* result);

// Reads a list of children in pieces (rpc/server/listing.h). Belongs to one thread.
class ListReader {
 public:
  // `listings` and `memory` must outlive it. A list whose names take more than `bytes_max` is
  // TOO_LARGE; a long one is UNAVAILABLE when replies take more memory than they may.
  ListReader(Listings* listings, MemoryBudget* memory, std::string path, size_t bytes_max);

  // Reads the next piece. Returns OK, or why there is no list. REQUIRES: the tree is locked for
  // reading; !done().
  v1::ErrorCode Read(const tree::Tree& tree, const ClientIdentities& identities,
                     const std::string& members_text);
  bool done() const { return done_; }
  // Whether it took more pieces than one: then Finish may take long, and the tree should be
  // unlocked.
  bool is_long() const { return listing_ != nullptr; }
  // Bytes that it keeps.
  size_t bytes() const { return counted_.bytes(); }
  // What the last piece cost, in znodes.
  size_t spent() const { return spent_; }
  // The list as it was at the last piece. Once; the tree need not be locked. REQUIRES: done().
  void Finish(v1::ListResult* result);

 private:
  Listings* const listings_;
  MemoryBudget* const memory_;
  const std::string path_;
  const size_t bytes_max_;
  Listing::Names names_;              // of the first piece
  std::unique_ptr<Listing> listing_;  // of more
  tree::Stat stat_;
  CountedBytes counted_;
  size_t spent_ = 0;
  bool done_ = false;
};

}  // namespace quorate::rpc::native
