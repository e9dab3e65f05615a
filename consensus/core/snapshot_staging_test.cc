// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/snapshot_staging.h"

#include <catch2/catch.hpp>
#include <string>

namespace quorate::consensus {
namespace {

using Written = SnapshotStaging::Written;

constexpr size_t kWindowBytes = 10;

SnapshotMeta MetaOf(uint64_t index) {
  SnapshotMeta meta;
  meta.index = Index{index};
  meta.term = Term{1};
  return meta;
}

SnapshotChunk Chunk(uint64_t index, uint64_t offset, const std::string& bytes, bool last = false) {
  return {MetaOf(index), offset, last, Slice(bytes)};
}

// Takes the writes as the driver does, and returns their number.
size_t Begin(SnapshotStaging* staging) { return staging->TakeWrites().size(); }

TEST_CASE("chunks are written in their order until all are staged") {
  SnapshotStaging staging(kWindowBytes);
  CHECK_FALSE(staging.Receive(Chunk(5, 0, "abc"), Term{2}).has_value());
  CHECK_FALSE(staging.Receive(Chunk(5, 3, "de", /*last=*/true), Term{2}).has_value());
  CHECK(staging.has_output());
  const auto writes = staging.TakeWrites();
  CHECK_FALSE(staging.has_output());
  REQUIRE(writes.size() == 2);
  CHECK(writes[1].offset == 3);
  CHECK(writes[1].last);
  CHECK(staging.ChunkWritten(Index{5}, 3) == Written::kPart);
  CHECK(staging.staged() == 3);
  CHECK(staging.ChunkWritten(Index{5}, 5) == Written::kAll);
  staging.Complete();
  CHECK_FALSE(staging.is_active());
  CHECK_FALSE(staging.TakeDiscard());
}

TEST_CASE("an unexpected chunk is answered with the staged offset, unless a write is in progress") {
  SnapshotStaging staging(kWindowBytes);
  staging.Receive(Chunk(5, 0, "abc"), Term{2});
  CHECK_FALSE(staging.Receive(Chunk(5, 6, "x"), Term{2}).has_value());
  Begin(&staging);
  CHECK_FALSE(staging.Receive(Chunk(5, 6, "x"), Term{2}).has_value());
  staging.ChunkWritten(Index{5}, 3);
  CHECK(staging.Receive(Chunk(5, 6, "x"), Term{2}) == SnapshotAck{Index{5}, 3, false});
  CHECK(Begin(&staging) == 0);
}

TEST_CASE("a snapshot that does not begin at its first byte is requested from its first byte") {
  SnapshotStaging staging(kWindowBytes);
  CHECK(staging.Receive(Chunk(5, 3, "de"), Term{2}) == SnapshotAck{Index{5}, 0, false});
  CHECK_FALSE(staging.is_active());
}

TEST_CASE("a chunk for which the window has no space is dropped") {
  SnapshotStaging staging(kWindowBytes);
  staging.Receive(Chunk(5, 0, std::string(8, 'a')), Term{2});
  CHECK_FALSE(staging.Receive(Chunk(5, 8, "bcd"), Term{2}).has_value());
  CHECK(Begin(&staging) == 1);
  staging.ChunkWritten(Index{5}, 8);
  staging.Receive(Chunk(5, 8, "bcd"), Term{2});
  CHECK(Begin(&staging) == 1);
}

TEST_CASE("no chunk is accepted after the last one") {
  SnapshotStaging staging(kWindowBytes);
  staging.Receive(Chunk(5, 0, "abc", /*last=*/true), Term{2});
  staging.Receive(Chunk(5, 3, "de"), Term{2});
  CHECK(Begin(&staging) == 1);
  CHECK(staging.ChunkWritten(Index{5}, 3) == Written::kAll);
}

TEST_CASE("a chunk larger than the window is accepted if no write is in progress") {
  SnapshotStaging staging(kWindowBytes);
  staging.Receive(Chunk(5, 0, std::string(kWindowBytes + 1, 'a')), Term{2});
  CHECK(Begin(&staging) == 1);
}

TEST_CASE("a leader that begins another snapshot is asked once to continue with the staged part") {
  SnapshotStaging staging(kWindowBytes);
  staging.Receive(Chunk(5, 0, "abc"), Term{2});
  Begin(&staging);
  staging.ChunkWritten(Index{5}, 3);
  CHECK(staging.Receive(Chunk(7, 0, "x"), Term{3}) == SnapshotAck{Index{5}, 3, false});
  CHECK(staging.meta().index == Index{5});
  CHECK_FALSE(staging.Receive(Chunk(7, 0, "x"), Term{3}).has_value());
  CHECK(staging.meta().index == Index{7});
  CHECK(staging.TakeDiscard());
  CHECK_FALSE(staging.TakeDiscard());
}

TEST_CASE("answers to writes of an abandoned snapshot do not count for the next snapshot") {
  SnapshotStaging staging(kWindowBytes);
  staging.Receive(Chunk(5, 0, "abc"), Term{2});
  staging.Receive(Chunk(5, 3, "de"), Term{2});
  Begin(&staging);
  staging.Abandon();
  CHECK(staging.TakeDiscard());
  staging.Receive(Chunk(7, 0, "xy"), Term{2});
  Begin(&staging);
  CHECK(staging.ChunkWritten(Index{5}, 3) == Written::kAbandoned);
  CHECK_FALSE(staging.WriteFailed(Index{5}));
  CHECK(staging.is_active());
  CHECK(staging.staged() == 0);
  CHECK(staging.ChunkWritten(Index{7}, 2) == Written::kPart);
  CHECK(staging.staged() == 2);
}

TEST_CASE("a failed write abandons its snapshot and the other writes in progress") {
  SnapshotStaging staging(kWindowBytes);
  staging.Receive(Chunk(5, 0, "abc"), Term{2});
  staging.Receive(Chunk(5, 3, "de"), Term{2});
  Begin(&staging);
  CHECK(staging.WriteFailed(Index{5}));
  CHECK_FALSE(staging.is_active());
  CHECK(staging.TakeDiscard());
  CHECK(staging.ChunkWritten(Index{5}, 5) == Written::kAbandoned);
}

TEST_CASE("a staging stalls when no chunk has arrived for some ticks") {
  SnapshotStaging staging(kWindowBytes);
  CHECK_FALSE(staging.Tick(1));  // no staging is active
  staging.Receive(Chunk(5, 0, "abc"), Term{2});
  CHECK_FALSE(staging.Tick(2));
  staging.Receive(Chunk(5, 3, "de"), Term{2});
  CHECK_FALSE(staging.Tick(2));
  CHECK(staging.Tick(2));
}

}  // namespace
}  // namespace quorate::consensus
