// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/term_history.h"

#include <catch2/catch.hpp>
#include <vector>

#include "consensus/core/testing/test_member.h"

namespace quorate::consensus {
namespace {

TEST_CASE("a term history returns the same as a list of the terms of all entries") {
  TestRandom random(1);
  for (int run = 0; run < 100; ++run) {
    TermHistory history(Index{0}, Term{0}, {}, Index{0});
    std::vector<Term> terms;
    size_t base = 0;  // terms before it are no longer known
    for (int step = 0; step < 60; ++step) {
      if (random.OneIn(6)) {
        terms.resize(base + random.Below(terms.size() - base + 1));
        history.TruncateAfter(Index{terms.size()});
      } else if (random.OneIn(10)) {
        base += random.Below(terms.size() - base + 1);
        history.CompactTo(Index{base});
      } else {
        const Term last = terms.empty() ? Term{1} : terms.back();
        terms.push_back(last + (random.OneIn(3) ? random.Below(3) : 0));
        history.Append(terms.back());
      }
      REQUIRE(history.last_index() == Index{terms.size()});
      REQUIRE(history.last_term() == (terms.empty() ? Term{0} : terms.back()));
      REQUIRE(history.base_index() == Index{base});
      for (size_t i = base; i <= terms.size(); ++i) {
        REQUIRE(history.TermAt(Index{i}) == (i == 0 ? Term{0} : terms[i - 1]));
      }
      const Index index{random.Below(70)};
      const Term term{random.Below(20)};
      size_t expected = std::min<size_t>(index.value(), terms.size());
      // Below the base the terms are not known.
      while (expected > 0 && expected >= base && terms[expected - 1] > term) --expected;
      REQUIRE(history.LastWithTermUpTo(index, term) == Index{expected});
    }
  }
}

TEST_CASE("a term history is constructed from runs") {
  const TermHistory history(Index{0}, Term{0}, {{Index{1}, Term{2}}, {Index{4}, Term{5}}},
                            Index{6});
  CHECK(history.TermAt(Index{3}) == Term{2});
  CHECK(history.TermAt(Index{4}) == Term{5});
  CHECK(history.TermAt(Index{6}) == Term{5});
  CHECK(history.LastWithTermUpTo(Index{6}, Term{4}) == Index{3});
  CHECK(history.LastWithTermUpTo(Index{6}, Term{1}) == Index{0});
}

}  // namespace
}  // namespace quorate::consensus
