// SPDX-License-Identifier: Apache-2.0

// The names of sequential znodes: parses their numbers, and sorts them in the order of creation.
//
// A server appends the counter of the parent to a sequential znode's name, as ten digits. The
// counter is a signed number of 32 bits, which continues with -2147483648 after 2147483647; a
// negative number has a sign and nine digits, or a sign and ten digits below -999999999.
//
// Order: numbers are compared by their distance from a common number, with wrap-around. So names
// sort in the order of their creation as long as the oldest existing znode is less than 2^31
// creations older than the newest. Curator and ZooKeeper's own recipes compare the digits as text;
// that is the same while the counter is not negative, and wrong afterwards (negative names come
// before all others, and in reverse order among themselves): do not share a parent with them for
// more than 2^31 creations.
//
// Thread-safety: functions and values without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quorate {

// Returns the number at the end of `name`, right after the last occurrence of `prefix`; the text
// before that is ignored ("_c_<uuid>-" in Curator's names). Returns nothing if `name` does not have
// this form. REQUIRES: `prefix` is not empty.
std::optional<int32_t> SequenceNumberOf(std::string_view name, std::string_view prefix);

// A name that ends with a number.
struct SequentialName {
  std::string name;
  int32_t number = 0;
  // The index of the name's prefix in `prefixes`.
  size_t prefix = 0;

  bool operator==(const SequentialName&) const = default;
};

// Sorts names in the order of their creation; equal numbers in the order of the names.
void SortByNumber(std::vector<SequentialName>* names);

// Returns those of `names` that have one of `prefixes` and a number, in the order of their
// creation; equal numbers in the order of their names. All prefixes share the counter of the
// parent, so that this is also the order among znodes with different prefixes. REQUIRES: no prefix
// is empty.
std::vector<SequentialName> SortSequentialNames(std::vector<std::string> names,
                                                const std::vector<std::string>& prefixes);

// Returns "_c_<uuid>-", with a new UUID: the prefix of Curator's protected creation, by which a
// client recognizes the znode that it created.
std::string NewProtectionPrefix();

}  // namespace quorate
