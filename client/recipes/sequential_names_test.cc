// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/sequential_names.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <set>

namespace quorate {

TEST_CASE("the sequence number consists of the digits after the prefix") {
  CHECK(SequenceNumberOf("lock-0000000001", "lock-") == 1);
  CHECK(SequenceNumberOf("_c_0f-lock-2147483647", "lock-") == 2147483647);
  CHECK(SequenceNumberOf("_c_0f-lock--2147483648", "lock-") == std::numeric_limits<int32_t>::min());
  CHECK(SequenceNumberOf("lock--000000005", "lock-") == -5);
  CHECK(SequenceNumberOf("lock-lock-0000000007", "lock-") == 7);
}

TEST_CASE("a name that no server can have made is not a sequential name") {
  for (const char* name :
       {"lock-", "lock-1", "lock-000000001", "lock-00000000001", "lock-000000000x",
        "lock-+000000001", "lock- 000000001", "lock-2147483648", "lock--0000000005",
        "lock--2147483649", "lock-0000000001-", "other-0000000001", "", "-0000000001"}) {
    CAPTURE(name);
    CHECK(!SequenceNumberOf(name, "lock-").has_value());
  }
}

TEST_CASE("names are sorted by creation across prefixes, and other names are dropped") {
  CHECK(SortSequentialNames({"b-__WRIT__0000000012", "a-__READ__0000000011", "other",
                             "c-__READ__0000000009", "a-__WRIT__0000000009"},
                            {"__READ__", "__WRIT__"}) ==
        std::vector<SequentialName>{{"a-__WRIT__0000000009", 9, 1},
                                    {"c-__READ__0000000009", 9, 0},
                                    {"a-__READ__0000000011", 11, 0},
                                    {"b-__WRIT__0000000012", 12, 1}});
  CHECK(SortSequentialNames({}, {"n-"}).empty());
  CHECK(SortSequentialNames({"other"}, {"n-"}).empty());
}

TEST_CASE("names are sorted by creation also where the counter wraps, in both places") {
  const std::vector<std::string> over_the_top{"n-2147483646", "n-2147483647", "n--2147483648",
                                              "n--2147483647"};
  const std::vector<std::string> over_zero{"n--000000002", "n--000000001", "n-0000000000",
                                           "n-0000000001"};
  for (std::vector<std::string> names : {over_the_top, over_zero}) {
    const std::vector<std::string> expected = names;
    // All permutations of the input give the same order.
    std::sort(names.begin(), names.end());
    do {
      std::vector<std::string> sorted;
      for (const SequentialName& each : SortSequentialNames(names, {"n-"})) {
        sorted.push_back(each.name);
      }
      REQUIRE(sorted == expected);
    } while (std::next_permutation(names.begin(), names.end()));
  }
}

TEST_CASE("protection prefixes are UUIDs like Curator's, and no two are equal") {
  std::set<std::string> prefixes;
  for (int i = 0; i < 100; ++i) prefixes.insert(NewProtectionPrefix());
  CHECK(prefixes.size() == 100);
  for (const std::string& prefix : prefixes) {
    CAPTURE(prefix);
    CHECK_THAT(
        prefix,
        Catch::Matches("_c_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-"));
  }
}

}  // namespace quorate
