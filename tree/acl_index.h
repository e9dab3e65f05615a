// SPDX-License-Identifier: Apache-2.0

// An index of an access control list. A permission check looks up each identity of the caller in
// the index instead of comparing it with each entry, so that the time of the check hardly depends
// on the length of the list.
//
// Thread-safety: const functions may be called together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tree/ip_range.h"
#include "tree/types.h"

namespace quorate::tree {

class AclIndex {
 public:
  // `acl` must outlive the index.
  explicit AclIndex(std::span<const Acl> acl);

  // Returns what IsAllowed would return for the list. REQUIRES: no identity is of scheme "super".
  bool Allows(std::span<const Identity> identities, int32_t permissions) const;

 private:
  // The permissions of all entries with this scheme and id.
  struct Exact {
    std::string_view scheme;
    std::string_view id;
    int32_t permissions = 0;
  };
  // The permissions of all "ip" entries with this range of addresses.
  struct Range {
    size_t bits = 0;
    IpAddress first;
    int32_t permissions = 0;
  };

  void AddRange(const IpRange& range, int32_t permissions);
  bool AllowsAddress(std::string_view address, int32_t permissions) const;

  int32_t anyone_ = 0;         // permissions of world:anyone
  int32_t sasl_super_ = 0;     // of all sasl entries: a caller sasl:super has them
  std::vector<Exact> exact_;   // ordered by scheme and id
  std::vector<Range> ranges_;  // ordered by bits and address
};

}  // namespace quorate::tree
