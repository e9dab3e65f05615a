// The names of sequential znodes: what a prefix is followed by, and in which order znodes were
// created.
//
// A server appends the counter of the parent to a sequential znode's name, as ten digits. The
// counter is a signed number of 32 bits which goes on at -2147483648 after 2147483647; a negative
// one is a sign with nine digits, or with ten from -1000000000 on.
//
// Order: a number is compared by its distance from another one, with wrapping, so that names stay
// in the order of their creation for ever, as long as the oldest one that is still there is less
// than 2^31 creations older than the newest. Curator and ZooKeeper's own recipes compare the digits
// as text; that is the same before the counter is negative, and wrong afterwards (a negative name
// comes before all others, and negative ones among themselves in reverse): do not share a parent
// with them for more than 2^31 creations.
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

// The number at the end of `name`, right behind the last place where `prefix` is found in it; what
// is before that is ignored ("_c_<uuid>-" in Curator's names). Nothing, if it is no such name.
// REQUIRES: `prefix` is not empty.
std::optional<int32_t> SequenceNumberOf(std::string_view name, std::string_view prefix);

struct SequentialName {
  std::string name;
  int32_t number = 0;
  // Which of the prefixes it has, from 0.
  size_t prefix = 0;

  bool operator==(const SequentialName&) const = default;
};

// Those of `names` that have one of `prefixes` and a number, in the order of their creation; equal
// numbers in the order of their names. The counter is the parent's, so that znodes with different
// prefixes are in order among each other, too. REQUIRES: no prefix is empty.
std::vector<SequentialName> SortSequentialNames(std::vector<std::string> names,
                                                const std::vector<std::string>& prefixes);

// "_c_<uuid>-", new each time: what Curator's protected creation puts before a name, by which a
// znode is recognized by whoever made it.
std::string NewProtectionPrefix();

}  // namespace quorate
