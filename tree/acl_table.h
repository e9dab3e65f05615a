// SPDX-License-Identifier: Apache-2.0

// The ACL lists of the nodes: each distinct list is stored once, with a reference count.
//
// Thread-safety: none inside; const functions may be called together.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "tree/acl_index.h"
#include "tree/types.h"

namespace quorate::tree {

// The id of {ALL, world, anyone}, which has no reference count.
inline constexpr uint32_t kOpenAclId = 0;

class AclTable {
 public:
  AclTable();
  AclTable(const AclTable&) = delete;
  AclTable& operator=(const AclTable&) = delete;

  // Returns the id of `acl`, which it adds to the table if it is new, and adds a reference to it.
  uint32_t Ref(const std::vector<Acl>& acl);
  // Adds a reference to the list with that id. REQUIRES: the id is referenced.
  void Ref(uint32_t id);
  // Drops a reference. When the last one is dropped, the list is removed and its id may be used
  // again. REQUIRES: the id is referenced.
  void Unref(uint32_t id);

  // Returns the list with that id. REQUIRES: the id is referenced.
  const std::vector<Acl>& Get(uint32_t id) const;
  // Returns what IsAllowed would return for the list. A long list takes hardly more time than a
  // short one.
  bool Allows(uint32_t id, std::span<const Identity> identities, int32_t permissions) const;
  // Returns a hash of the list. Unlike the id, the hash is the same on every member.
  uint64_t Hash(uint32_t id) const;

  // The number of distinct lists, the open one included.
  size_t size() const { return ids_.size(); }

 private:
  struct Entry {
    const std::vector<Acl>* acl = nullptr;  // a key of ids_; nullptr if the id is free
    uint64_t hash = 0;
    uint64_t references = 0;
    std::unique_ptr<const AclIndex> index;  // of a long list; nullptr for a short one
  };

  uint32_t Add(const std::vector<Acl>& acl);

  std::map<std::vector<Acl>, uint32_t> ids_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
};

// Returns whether `acl` is {ALL, world, anyone}.
bool IsOpenAcl(std::span<const Acl> acl);

}  // namespace quorate::tree
