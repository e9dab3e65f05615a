// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/pending_reads.h"

#include <catch2/catch.hpp>
#include <string>

namespace quorate::consensus {
namespace {

constexpr MemberId kLeader{1};

// Returns the request ids and indexes of the reads that are answered when `confirmed` is confirmed.
std::string Answered(ReadRounds* rounds, ReadRound confirmed) {
  std::string text;
  rounds->Confirm(confirmed, [&text](const PendingRead& read, Index index) {
    text += std::to_string(read.request_id) + "@" + std::to_string(index.value()) + " ";
  });
  return text;
}

TEST_CASE("reads that arrive together are confirmed by one round, with its commit index") {
  ReadRounds rounds;
  CHECK_FALSE(rounds.has_waiting());
  rounds.Add({1, kLeader});
  rounds.Add({2, MemberId{2}});
  CHECK(rounds.has_waiting());
  rounds.Start(Index{5});
  CHECK(rounds.round() == ReadRound{1});
  CHECK_FALSE(rounds.has_waiting());
  CHECK(Answered(&rounds, ReadRound{0}).empty());
  CHECK(Answered(&rounds, ReadRound{1}) == "1@5 2@5 ");
  CHECK(Answered(&rounds, ReadRound{1}).empty());
}

TEST_CASE("a read that arrives during a round is not confirmed by that round") {
  ReadRounds rounds;
  rounds.Add({1, kLeader});
  rounds.Start(Index{5});
  rounds.Add({2, kLeader});
  CHECK(rounds.is_confirming());
  CHECK(Answered(&rounds, ReadRound{1}) == "1@5 ");
  CHECK_FALSE(rounds.is_confirming());
  rounds.Start(Index{7});
  CHECK(Answered(&rounds, ReadRound{1}).empty());
  CHECK(Answered(&rounds, ReadRound{2}) == "2@7 ");
}

TEST_CASE("ForEach visits all reads of a leader, first those of rounds") {
  ReadRounds rounds;
  rounds.Add({1, kLeader});
  rounds.Start(Index{5});
  rounds.Add({2, kLeader});
  std::string visited;
  rounds.ForEach([&](const PendingRead& read) { visited += std::to_string(read.request_id); });
  CHECK(visited == "12");
}

TEST_CASE("the number of reads that wait for a round is bounded") {
  ReadRounds rounds;
  for (uint64_t i = 0; i < kPendingReadsMax; ++i) {
    REQUIRE_FALSE(rounds.is_full());
    rounds.Add({i, kLeader});
  }
  CHECK(rounds.is_full());
  rounds.Start(Index{5});
  CHECK_FALSE(rounds.is_full());
}

TEST_CASE("a forwarded read expires once, and not if it was answered") {
  ForwardedReads reads;
  REQUIRE(reads.Add(7, 10));
  REQUIRE(reads.Add(3, 10));
  REQUIRE(reads.Add(5, 12));
  CHECK(reads.Remove(3));
  CHECK_FALSE(reads.Remove(3));
  CHECK(reads.RemoveExpired(13, 4).empty());
  CHECK(reads.RemoveExpired(14, 4) == std::vector<uint64_t>{7});
  CHECK(reads.RemoveExpired(16, 4) == std::vector<uint64_t>{5});
  CHECK(reads.empty());
  CHECK_FALSE(reads.needs_ticks());
}

TEST_CASE("ticks are needed for a while after a forwarded read was answered") {
  ForwardedReads reads;
  REQUIRE(reads.Add(7, 10));
  reads.Remove(7);
  CHECK(reads.empty());
  CHECK(reads.needs_ticks());
}

TEST_CASE("all forwarded reads are removed in the order of their ids") {
  ForwardedReads reads;
  REQUIRE(reads.Add(7, 10));
  REQUIRE(reads.Add(3, 11));
  CHECK(reads.RemoveAll() == std::vector<uint64_t>{3, 7});
  CHECK(reads.empty());
  CHECK_FALSE(reads.needs_ticks());
}

TEST_CASE("the number of forwarded reads is bounded") {
  ForwardedReads reads;
  for (uint64_t i = 0; i < kPendingReadsMax; ++i) REQUIRE(reads.Add(i, 1));
  CHECK_FALSE(reads.Add(kPendingReadsMax, 1));
  reads.Remove(0);
  CHECK(reads.Add(kPendingReadsMax, 1));
}

}  // namespace
}  // namespace quorate::consensus
