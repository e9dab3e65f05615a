// Pieces that the one-line descriptions of consensus types share: deterministic text for logs and
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

// "index@term", the identity of an entry.
std::string DescribePosition(Index index, Term term);

// In double quotes, with escapes; long byte strings are cut, with their size.
std::string DescribeBytes(std::string_view bytes);

// The content of a membership or version entry. REQUIRES: IsControl(entry.kind).
std::string DescribeControl(const Entry& entry);

// "[entry, entry, ...]".
std::string DescribeEntries(std::span<const Entry> entries);

}  // namespace quorate::consensus
