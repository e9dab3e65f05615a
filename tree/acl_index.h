// A long access control list, made ready so that a permission check takes about as long for it as
// for a short one: it looks each identity of the caller up instead of comparing it with each entry.
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

  // The same as IsAllowed of the list. REQUIRES: no identity is of scheme "super".
  bool Allows(std::span<const Identity> identities, int32_t permissions) const;

 private:
  // Entries of one identity, together.
  struct Exact {
    std::string_view scheme;
    std::string_view id;
    int32_t permissions = 0;
  };
  // Entries of one range of addresses, together.
  struct Range {
    size_t bits = 0;
    IpAddress first;
    int32_t permissions = 0;
  };

  void AddRange(const IpRange& range, int32_t permissions);
  bool AllowsAddress(std::string_view address, int32_t permissions) const;

  int32_t anyone_ = 0;         // what world:anyone may
  int32_t sasl_super_ = 0;     // what sasl:super may, who matches each entry of scheme sasl
  std::vector<Exact> exact_;   // ordered by scheme and id
  std::vector<Range> ranges_;  // ordered by bits and address
};

}  // namespace quorate::tree
