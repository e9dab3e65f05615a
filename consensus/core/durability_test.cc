// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/durability.h"

#include <catch2/catch.hpp>

namespace quorate::consensus {
namespace {

constexpr uint64_t kHintEntries = 100;

Durability After(uint64_t last) { return Durability(Index{last}, Index{0}, kHintEntries); }

TEST_CASE("the log is durable up to its last durable batch") {
  Durability durability = After(3);
  CHECK_FALSE(durability.IsDue(Index{3}));
  const Durability::Batch one = durability.Take(Index{5}, Index{0}, 10);
  CHECK(one.first == Index{4});
  CHECK(one.last == Index{5});
  CHECK_FALSE(one.commit_hint);
  CHECK_FALSE(one.truncate_after);
  const Durability::Batch two = durability.Take(Index{6}, Index{0}, 12);
  CHECK(two.first == Index{6});
  CHECK_FALSE(durability.IsDue(Index{6}));
  CHECK(durability.durable() == Index{3});
  CHECK(durability.WaitedTicks(15) == 5);
  CHECK(durability.Persisted(one.id));
  CHECK(durability.durable() == Index{5});
  CHECK(durability.WaitedTicks(15) == 3);
  CHECK_FALSE(durability.Persisted(one.id));
  CHECK(durability.Persisted(two.id));
  CHECK(durability.durable() == Index{6});
  CHECK(durability.WaitedTicks(15) == 0);
  durability.CheckInvariants(Index{6});
}

TEST_CASE("a durable batch implies that all earlier batches are durable") {
  Durability durability = After(0);
  durability.Take(Index{1}, Index{0}, 0);
  const Durability::Batch two = durability.Take(Index{2}, Index{0}, 0);
  CHECK(durability.Persisted(two.id));
  CHECK(durability.durable() == Index{2});
  durability.CheckInvariants(Index{2});
}

TEST_CASE("a replacement is not durable by the batch with the replaced entry") {
  Durability durability = After(1);
  const Durability::Batch old = durability.Take(Index{4}, Index{0}, 0);
  durability.Truncated(Index{2});
  REQUIRE(durability.truncate_due() == Index{2});
  // The log has another entry with index 3 now.
  const Durability::Batch replaced = durability.Take(Index{3}, Index{0}, 0);
  CHECK(replaced.truncate_after == Index{2});
  CHECK(replaced.first == Index{3});
  durability.Persisted(old.id);
  CHECK(durability.durable() == Index{2});
  durability.CheckInvariants(Index{3});
  durability.Persisted(replaced.id);
  CHECK(durability.durable() == Index{3});
}

TEST_CASE("entries that were in no batch are not dropped from the disk") {
  Durability durability = After(1);
  durability.Truncated(Index{1});  // entries 2 and 3 were in memory only
  CHECK_FALSE(durability.truncate_due());
  CHECK_FALSE(durability.IsDue(Index{1}));
  // The log is truncated twice before the next batch: the lower index counts.
  durability.Take(Index{4}, Index{0}, 0);
  durability.Truncated(Index{2});
  durability.Truncated(Index{3});
  CHECK(durability.truncate_due() == Index{2});
}

TEST_CASE("term, vote and member state are durable with the batch of their last change") {
  Durability durability = After(0);
  CHECK(durability.IsHardStateDurable());
  durability.HardStateChanged();
  CHECK(durability.IsDue(Index{0}));
  CHECK_FALSE(durability.IsHardStateDurable());
  const Durability::Batch vote = durability.Take(Index{0}, Index{0}, 0);
  CHECK(vote.hard_state_changed);
  CHECK_FALSE(vote.member_state_changed);
  CHECK(vote.last < vote.first);
  CHECK_FALSE(durability.IsHardStateDurable());
  durability.MemberStateChanged();
  durability.Persisted(vote.id);
  // The hard state has changed again since.
  CHECK_FALSE(durability.IsHardStateDurable());
  CHECK_FALSE(durability.IsMemberStateDurable());
  const Durability::Batch member_state = durability.Take(Index{1}, Index{0}, 0);
  CHECK(member_state.member_state_changed);
  durability.Persisted(member_state.id);
  CHECK(durability.IsHardStateDurable());
  CHECK(durability.IsMemberStateDurable());
}

TEST_CASE("the commit hint covers only durable entries, and is written only sometimes") {
  Durability durability = After(0);
  Durability::Batch batch = durability.Take(Index{150}, Index{150}, 0);
  CHECK_FALSE(batch.commit_hint);  // no entry is durable yet
  durability.Persisted(batch.id);
  batch = durability.Take(Index{151}, Index{99}, 0);
  CHECK_FALSE(batch.commit_hint);  // too few entries have been committed
  batch = durability.Take(Index{152}, Index{151}, 0);
  CHECK(batch.commit_hint == Index{150});
  // Another change of the hard state includes the hint, which never decreases.
  durability.HardStateChanged();
  batch = durability.Take(Index{152}, Index{3}, 0);
  CHECK(batch.commit_hint == Index{150});
}

TEST_CASE("an installed snapshot is durable, whatever batches are being written") {
  Durability durability = After(0);
  const Durability::Batch batch = durability.Take(Index{90}, Index{0}, 0);
  durability.Reset(Index{50});
  CHECK(durability.durable() == Index{50});
  durability.Persisted(batch.id);
  CHECK(durability.durable() == Index{50});
  durability.CheckInvariants(Index{50});
}

}  // namespace
}  // namespace quorate::consensus
