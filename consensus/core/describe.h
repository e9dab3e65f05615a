// SPDX-License-Identifier: Apache-2.0

// Parts of the one-line descriptions of consensus types. The text is deterministic, for logs and
// test scripts.
//
// Thread-safety: free functions without state.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "consensus/core/types.h"

namespace quorate::consensus {

template <class Tag, class Rep>
std::string Describe(StrongInt<Tag, Rep> value) {
  return std::to_string(value.value());
}

// Returns "index@term", which identifies an entry.
std::string DescribePosition(Index index, Term term);

// Returns the bytes in double quotes, with escapes. A long string is shortened, and its size is
// added.
std::string DescribeBytes(std::string_view bytes);

// Describes the content of a membership or version entry. REQUIRES: IsControl(entry.kind).
std::string DescribeControl(const Entry& entry);

// Returns "[entry, entry, ...]".
std::string DescribeEntries(std::span<const Entry> entries);

}  // namespace quorate::consensus
