// SPDX-License-Identifier: Apache-2.0

// What a client wants to see of the children of a znode.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>

namespace quorate::rpc {

// Selects the children that a list has. Whatever is not ephemeral is persistent.
enum class ChildKind : uint8_t { kAll = 0, kPersistent = 1, kEphemeral = 2 };

// What a list shows of the children, besides their names.
struct ListDetails {
  ChildKind kind = ChildKind::kAll;
  bool has_stats = false;
  bool has_data = false;

  // Returns whether the children themselves have to be read, for which each has to be readable.
  bool reads_children() const { return kind != ChildKind::kAll || has_stats || has_data; }
};

}  // namespace quorate::rpc
