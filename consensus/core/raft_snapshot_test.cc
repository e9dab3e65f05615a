// SPDX-License-Identifier: Apache-2.0

// Tests snapshots in whole clusters under load: members need a snapshot while clients write. The
// leader gets entries at each tick. A message takes one tick. Disks take no time unless a test says
// otherwise.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "consensus/core/testing/test_member.h"

namespace quorate::consensus {
namespace {

constexpr int kElectionTicks = 20;
constexpr size_t kPayloadBytes = 100;
constexpr uint64_t kCheckpointEntries = 200;

RaftOptions SmallOptions(uint32_t members) {
  RaftOptions options;
  for (uint32_t id = 1; id <= members; ++id) options.membership.voters.emplace_back(id);
  options.election_ticks = kElectionTicks;
  options.heartbeat_ticks = 4;
  options.trailing_entries = 10;
  options.retained_entries_max = 1000;
  options.compaction_step_entries = 1;
  options.snapshot_chunk_bytes = 4u << 10;
  options.snapshot_bytes_per_tick = 8u << 10;
  return options;
}

class Cluster {
 public:
  Cluster(uint32_t members, RaftOptions options) {
    for (uint32_t id = 1; id <= members; ++id) {
      options.self = MemberId{id};
      randoms_.push_back(std::make_unique<FixedRandom>(7 * id));
      members_.push_back(
          std::make_unique<TestMember>(options, TestMember::Disk{}, randoms_.back().get()));
    }
  }

  TestMember& member(uint32_t id) { return *members_[id - 1]; }
  Raft& raft(uint32_t id) { return member(id).raft(); }
  uint32_t leader() {
    for (auto& member : members_) {
      if (member->running() && member->status.leader_established) return member->id.value();
    }
    return 0;
  }

  // Runs one tick, before which the leader gets `entries` entries.
  void Tick(uint64_t entries) {
    std::vector<Message> arriving = std::exchange(in_flight_, {});
    if (const uint32_t id = leader(); id != 0 && entries > 0) Propose(id, entries);
    for (auto& member : members_) {
      if (member->running()) member->raft().Tick();
    }
    for (Message& message : arriving) {
      TestMember& to = member(message.to.value());
      if (to.running() && !Loses(message)) to.raft().Step(std::move(message));
    }
    for (auto& member : members_) {
      if (member->running()) Work(member.get());
    }
    ++ticks;
  }
  // Runs ticks until `done`. Returns the number of ticks, at most `ticks_max`.
  int TickUntil(uint64_t entries, int ticks_max, const std::function<bool()>& done) {
    for (int i = 0; i < ticks_max; ++i) {
      if (done()) return i;
      Tick(entries);
    }
    return ticks_max;
  }
  // Runs until there is a leader with the newest cluster version and `entries` entries.
  void Grow(uint64_t entries) {
    REQUIRE(TickUntil(0, 200, [this] { return leader() != 0; }) < 200);
    for (uint64_t made = 0; made < entries; made += 50) Tick(50);
    for (int i = 0; i < 20; ++i) Tick(0);
    REQUIRE(raft(leader()).cluster_version() == kVersionNewest);
  }
  void LoseDisk(uint32_t id) {
    member(id).Crash({});
    member(id).RestartNew();
  }
  void Propose(uint32_t id, uint64_t count) {
    std::vector<Slice> payloads;
    for (uint64_t i = 0; i < count; ++i) payloads.emplace_back(std::string(kPayloadBytes, 'x'));
    (void)raft(id).Propose(std::move(payloads));
  }
  // Returns whether the member lags behind the leader by at most `lag` entries.
  bool IsCaughtUp(uint32_t id, uint64_t lag) {
    const uint32_t from = leader();
    if (from == 0 || !member(id).running()) return false;
    return raft(id).commit_index() + lag >= raft(from).commit_index() &&
           raft(from).match_index(MemberId{id}) + lag >= raft(from).last_index();
  }

  void Transfer(uint32_t from, uint32_t to) {
    REQUIRE(raft(from).TransferLeadership(MemberId{to}).ok());
    REQUIRE(TickUntil(0, 200, [&] { return leader() == to; }) < 200);
  }
  // Returns the offsets of the chunks that were sent since the last call.
  std::vector<uint64_t> TakeOffsets() {
    std::vector<uint64_t> offsets;
    for (const Message& message : std::exchange(sent, {})) {
      const auto* chunk = std::get_if<SnapshotChunk>(&message.body);
      if (chunk != nullptr) offsets.push_back(chunk->offset);
    }
    return offsets;
  }

  // If set, called instead of staging the oldest chunk.
  std::function<bool(TestMember*)> stages;
  // Returns whether a message is lost.
  std::function<bool(const Message&)> loses;
  // Returns whether a member's disk takes checkpoints.
  std::function<bool(uint32_t)> takes_checkpoints = [](uint32_t) { return true; };
  int ticks = 0;
  std::vector<Message> sent;  // all chunks, and the answers to them; the test takes them

 private:
  bool Loses(const Message& message) const { return loses && loses(message); }

  void Work(TestMember* member) {
    do {
      member->Collect();
      if (member->unpersisted() > 0) member->Persist(member->unpersisted());
      while (member->can_apply()) member->ApplyOne();
      while (member->can_read_log()) member->AnswerLogRead();
      while (member->can_read_snapshot()) member->AnswerSnapshotRead();
      while (member->can_stage()) {
        if (!stages || !stages(member)) member->StageOne();
      }
      if (member->can_install()) member->Install();
      const auto checkpoint = member->disk().checkpoint;
      const uint64_t behind = checkpoint ? checkpoint->index.value() : 0;
      if (takes_checkpoints(member->id.value()) &&
          member->applied().size() >= behind + kCheckpointEntries) {
        member->Checkpoint();
      }
    } while (member->raft().HasOutput() || member->unpersisted() > 0);
    member->raft().CheckInvariants();
    for (Message& message : std::exchange(member->outbox, {})) {
      const bool is_chunk = std::holds_alternative<SnapshotChunk>(message.body);
      const bool is_answer = std::holds_alternative<SnapshotAck>(message.body) ||
                             std::holds_alternative<SnapshotRejected>(message.body);
      if (is_chunk || is_answer) sent.push_back(message);
      in_flight_.push_back(std::move(message));
    }
  }

  std::vector<std::unique_ptr<FixedRandom>> randoms_;
  std::vector<std::unique_ptr<TestMember>> members_;
  std::vector<Message> in_flight_;
};

TEST_CASE("a member that lost its disk catches up while clients write") {
  Cluster cluster(3, SmallOptions(3));
  cluster.Grow(3000);
  const uint32_t lost = cluster.leader() == 3 ? 2 : 3;
  cluster.LoseDisk(lost);
  const int ticks = cluster.TickUntil(20, 3000, [&] { return cluster.IsCaughtUp(lost, 5 * 20); });
  INFO(ticks << " ticks");
  CHECK(ticks < 600);
  CHECK(cluster.member(lost).installs == 1);
}

TEST_CASE("any number of members catch up at the same time, each with its share") {
  constexpr uint32_t kMembers = 9;
  Cluster cluster(kMembers, SmallOptions(kMembers));
  cluster.Grow(3000);
  std::vector<uint32_t> lost;
  for (uint32_t id = 1; lost.size() < 4; ++id) {
    if (id != cluster.leader()) lost.push_back(id);
  }
  for (const uint32_t id : lost) cluster.LoseDisk(id);
  size_t least = 0;
  size_t most = 0;
  const auto are_all_there = [&] {
    return std::all_of(lost.begin(), lost.end(),
                       [&](uint32_t id) { return cluster.IsCaughtUp(id, 5 * 20); });
  };
  const int ticks = cluster.TickUntil(20, 3000, [&] {
    if (most == 0 && cluster.ticks % 40 == 39) {
      least = ~size_t{0};
      for (const uint32_t id : lost) {
        least = std::min(least, cluster.member(id).staged_bytes());
        most = std::max(most, cluster.member(id).staged_bytes());
      }
    }
    return are_all_there();
  });
  CHECK(ticks < 1500);
  CHECK(most > 0);
  CHECK(least * 2 >= most);
  for (const uint32_t id : lost) CHECK(cluster.member(id).installs == 1);
}

TEST_CASE("the log is kept for a transfer only while it makes progress") {
  RaftOptions options = SmallOptions(3);
  options.retained_entries_max = 20;
  options.retained_ticks_max = kElectionTicks;
  options.snapshot_stall_ticks = 60;
  Cluster cluster(3, options);
  cluster.Grow(3000);
  const uint32_t leader = cluster.leader();
  const uint32_t lost = leader == 3 ? 2 : 3;
  cluster.LoseDisk(lost);
  REQUIRE(cluster.TickUntil(20, 100, [&] { return cluster.member(lost).staged_bytes() > 0; }) <
          100);
  // The follower gets a part, and then loses all messages except those that show that it is alive.
  const Index from = cluster.raft(leader).base_index();
  cluster.loses = [&](const Message& message) {
    return message.to == MemberId{lost} && std::holds_alternative<SnapshotChunk>(message.body);
  };
  for (int i = 0; i < 50; ++i) cluster.Tick(20);
  CHECK(cluster.raft(leader).base_index() <= from + 200);  // 1,000 entries and 5 checkpoints later
  for (int i = 0; i < 30; ++i) cluster.Tick(20);
  CHECK(cluster.raft(leader).base_index() > from + 1000);
  // The transfer begins with a newer checkpoint when it can.
  cluster.loses = nullptr;
  CHECK(cluster.TickUntil(20, 600, [&] { return cluster.IsCaughtUp(lost, 5 * 20); }) < 600);
}

TEST_CASE("the log that is kept for a transfer is bounded in bytes") {
  RaftOptions options = SmallOptions(3);
  options.retained_bytes_max = 5'000;
  options.transfer_bytes_max = 50'000;
  // The rate is much too low for the entries that are written in the meantime.
  options.snapshot_bytes_per_tick = 100;
  options.snapshot_chunk_bytes = 100;
  Cluster cluster(3, options);
  cluster.Grow(2000);
  const uint32_t leader = cluster.leader();
  cluster.LoseDisk(leader == 3 ? 2 : 3);
  size_t kept_max = 0;
  for (int i = 0; i < 300; ++i) {
    cluster.Tick(20);
    const auto& raft = cluster.raft(leader);
    kept_max = std::max<size_t>(kept_max, raft.last_index() - raft.base_index());
  }
  CHECK(kept_max > 50'000 / 200);
  CHECK(kept_max < 50'000 / 100 + 2 * kCheckpointEntries);
}

TEST_CASE("a staged snapshot is continued when its sender leads again") {
  Cluster cluster(3, SmallOptions(3));
  cluster.Grow(6000);
  const uint32_t leader = cluster.leader();
  const uint32_t lost = leader == 3 ? 2 : 3;
  const uint32_t other = 6 - leader - lost;
  cluster.LoseDisk(lost);
  // Until the lost directory has been silent for long enough, the new directory is refused.
  REQUIRE(cluster.TickUntil(20, 200,
                            [&] { return cluster.member(lost).staged_bytes() > 100'000; }) < 200);
  // The leader in between sends no chunk of its own.
  cluster.loses = [&](const Message& message) {
    return message.from == MemberId{other} && std::holds_alternative<SnapshotChunk>(message.body);
  };
  cluster.Transfer(leader, other);
  cluster.Transfer(other, leader);
  const size_t staged = cluster.member(lost).staged_bytes();
  CHECK(staged > 100'000);
  cluster.TakeOffsets();
  CHECK(cluster.TickUntil(20, 600, [&] { return cluster.IsCaughtUp(lost, 5 * 20); }) < 600);
  CHECK(cluster.member(lost).installs == 1);
  CHECK(cluster.member(lost).discards == 0);
  // No offset is sent again, except the beginning of a newer checkpoint, which was offered first.
  const std::vector<uint64_t> offsets = cluster.TakeOffsets();
  const auto again = std::count_if(offsets.begin(), offsets.end(),
                                   [&](uint64_t offset) { return offset < staged; });
  CHECK(again <= 3);
}

TEST_CASE("after a lost connection only the chunks in flight are sent again") {
  Cluster cluster(3, SmallOptions(3));
  cluster.Grow(6000);
  const uint32_t leader = cluster.leader();
  const uint32_t lost = leader == 3 ? 2 : 3;
  cluster.LoseDisk(lost);
  // Until the lost directory has been silent for long enough, the new directory is refused.
  REQUIRE(cluster.TickUntil(20, 200,
                            [&] { return cluster.member(lost).staged_bytes() > 100'000; }) < 200);
  cluster.loses = [&](const Message& message) {
    return message.to == MemberId{lost} || message.from == MemberId{lost};
  };
  cluster.raft(leader).PeerUnreachable(MemberId{lost});
  cluster.raft(lost).PeerUnreachable(MemberId{leader});
  for (int i = 0; i < 3 * kElectionTicks; ++i) cluster.Tick(20);
  const size_t staged = cluster.member(lost).staged_bytes();
  CHECK(staged > 100'000);
  cluster.loses = nullptr;
  cluster.TakeOffsets();
  CHECK(cluster.TickUntil(20, 600, [&] { return cluster.IsCaughtUp(lost, 5 * 20); }) < 600);
  const std::vector<uint64_t> offsets = cluster.TakeOffsets();
  CHECK(std::count_if(offsets.begin(), offsets.end(),
                      [&](uint64_t offset) { return offset < staged; }) <= 3);
}

TEST_CASE("a leader with the same checkpoint continues where another leader stopped") {
  Cluster cluster(3, SmallOptions(3));
  cluster.Grow(6000);
  const uint32_t leader = cluster.leader();
  const uint32_t lost = leader == 3 ? 2 : 3;
  const uint32_t other = 6 - leader - lost;
  cluster.takes_checkpoints = [](uint32_t) { return false; };
  for (const uint32_t id : {leader, other}) cluster.member(id).Checkpoint();
  cluster.LoseDisk(lost);
  REQUIRE(cluster.TickUntil(0, 100, [&] { return cluster.member(lost).staged_bytes() > 100'000; }) <
          100);
  cluster.Transfer(leader, other);
  const size_t staged = cluster.member(lost).staged_bytes();
  cluster.TakeOffsets();
  CHECK(cluster.TickUntil(0, 600, [&] { return cluster.IsCaughtUp(lost, 0); }) < 600);
  const std::vector<uint64_t> offsets = cluster.TakeOffsets();
  CHECK(std::count_if(offsets.begin(), offsets.end(),
                      [&](uint64_t offset) { return offset < staged; }) <= 3);
}

TEST_CASE("a staging is discarded when no more chunks arrive for it") {
  RaftOptions options = SmallOptions(3);
  options.snapshot_stall_ticks = 60;
  Cluster cluster(3, options);
  cluster.Grow(6000);
  const uint32_t leader = cluster.leader();
  const uint32_t lost = leader == 3 ? 2 : 3;
  cluster.LoseDisk(lost);
  REQUIRE(cluster.TickUntil(20, 100, [&] { return cluster.member(lost).staged_bytes() > 0; }) <
          100);
  cluster.loses = [](const Message& message) {
    return std::holds_alternative<SnapshotChunk>(message.body);
  };
  for (int i = 0; i < 55; ++i) cluster.Tick(0);
  CHECK(cluster.member(lost).discards == 0);
  for (int i = 0; i < 10; ++i) cluster.Tick(0);
  CHECK(cluster.member(lost).discards == 1);
  CHECK(cluster.member(lost).staged_bytes() == 0);
  cluster.loses = nullptr;
  CHECK(cluster.TickUntil(20, 600, [&] { return cluster.IsCaughtUp(lost, 5 * 20); }) < 600);
}

TEST_CASE("a leader learns why a snapshot was not stored, and tries again ever less often") {
  Cluster cluster(3, SmallOptions(3));
  cluster.Grow(500);
  const uint32_t leader = cluster.leader();
  const uint32_t lost = leader == 3 ? 2 : 3;
  int failures = 0;
  const auto fail = [&](TestMember* member) {
    if (member->id != MemberId{lost} || member->staged_bytes() == 0) return false;
    member->FailToStage("the digest is wrong");
    ++failures;
    return true;
  };
  cluster.stages = fail;
  cluster.LoseDisk(lost);
  for (int i = 0; i < 1000; ++i) cluster.Tick(1);
  // The failures are at about 0, 40, 120, 280 and 600 ticks. An older version sent the chunk in
  // each round trip.
  CHECK(failures >= 4);
  CHECK(failures <= 6);
  const auto& rejections = cluster.member(leader).snapshot_rejections;
  REQUIRE(rejections.size() == static_cast<size_t>(failures));
  for (const SnapshotRejection& rejection : rejections) {
    CHECK(rejection.follower == MemberId{lost});
    CHECK(rejection.reason == "the digest is wrong");
    CHECK(cluster.member(leader).checkpoint_wanted > rejection.index);
  }
  cluster.stages = nullptr;
  CHECK(cluster.TickUntil(1, 1500, [&] { return cluster.IsCaughtUp(lost, 5); }) < 1500);
}

TEST_CASE("a follower with an older leader is sent one chunk at a time, and starts again") {
  RaftOptions options = SmallOptions(3);
  options.version = kVersionSnapshotWindow - 1;
  Cluster cluster(3, options);
  REQUIRE(cluster.TickUntil(0, 200, [&] { return cluster.leader() != 0; }) < 200);
  for (int i = 0; i < 20; ++i) cluster.Tick(50);
  const uint32_t leader = cluster.leader();
  const uint32_t lost = leader == 3 ? 2 : 3;
  cluster.member(lost).Crash({});
  cluster.member(lost).SetVersion(kVersionNewest);
  cluster.member(lost).RestartNew();
  int failures = 0;
  cluster.stages = [&](TestMember* member) {
    if (failures > 0 || member->id != MemberId{lost} || member->staged_bytes() == 0) return false;
    member->FailToStage("the digest is wrong");
    ++failures;
    return true;
  };
  CHECK(cluster.TickUntil(1, 600, [&] { return cluster.IsCaughtUp(lost, 5); }) < 600);
  CHECK(failures == 1);
  for (const Message& message : cluster.sent) {
    CHECK_FALSE(std::holds_alternative<SnapshotRejected>(message.body));
  }
  CHECK(cluster.member(leader).snapshot_rejections.empty());
}

TEST_CASE("a checkpoint taken while a member is away does not force a snapshot on it") {
  Cluster cluster(3, SmallOptions(3));
  cluster.Grow(1000);
  const uint32_t leader = cluster.leader();
  const uint32_t away = leader == 3 ? 2 : 3;
  const uint32_t other = 6 - leader - away;
  SECTION("a checkpoint of the leader") {
    cluster.member(away).Crash({});
    for (int i = 0; i < 3 * kElectionTicks; ++i) cluster.Tick(4);
    REQUIRE(cluster.member(leader).disk().checkpoint->index > Index{1100});
    cluster.member(away).Restart(Index{0});
  }
  SECTION("a checkpoint of a member that leads when the absent one returns") {
    cluster.member(away).Crash({});
    for (int i = 0; i < 3 * kElectionTicks; ++i) cluster.Tick(4);
    REQUIRE(cluster.member(other).disk().checkpoint->index > Index{1100});
    cluster.Transfer(leader, other);
    cluster.member(away).Restart(Index{0});
  }
  CHECK(cluster.TickUntil(20, 300, [&] { return cluster.IsCaughtUp(away, 5 * 20); }) < 300);
  CHECK(cluster.member(away).installs == 0);
}

TEST_CASE("a member whose disk is almost full keeps as little of the log as it can") {
  Cluster cluster(3, SmallOptions(3));
  cluster.Grow(1000);
  const uint32_t leader = cluster.leader();
  cluster.member(leader == 3 ? 2 : 3).Crash({});
  for (int i = 0; i < 50; ++i) cluster.Tick(20);
  Raft& raft = cluster.raft(leader);
  REQUIRE(raft.last_index() - raft.base_index() > 500);
  raft.SetSpaceIsShort(true);
  cluster.Tick(0);
  CHECK(raft.last_index() - raft.base_index() <= 10 + kCheckpointEntries + 20);
}

TEST_CASE("snapshots are sent slower while commits are slow, and use the bandwidth that is free") {
  RaftOptions options = SmallOptions(3);
  options.snapshot_window_bytes_max = 1u << 20;
  Cluster cluster(3, options);
  cluster.Grow(10000);
  const uint32_t leader = cluster.leader();
  const uint32_t lost = leader == 3 ? 2 : 3;
  cluster.LoseDisk(lost);
  const auto bytes_in = [&](int ticks) {
    cluster.sent.clear();
    for (int i = 0; i < ticks; ++i) cluster.Tick(5);
    size_t bytes = 0;
    for (const Message& message : cluster.sent) {
      const auto* chunk = std::get_if<SnapshotChunk>(&message.body);
      if (chunk != nullptr) bytes += chunk->bytes.size();
    }
    return bytes;
  };
  REQUIRE(cluster.TickUntil(5, 100, [&] { return cluster.member(lost).staged_bytes() > 0; }) < 100);
  const size_t at_first = bytes_in(10);
  const size_t later = bytes_in(10);
  CHECK(later > at_first);
  // Acknowledgements are late, because four in five are lost.
  cluster.loses = [&](const Message& message) {
    return std::holds_alternative<AppendAccepted>(message.body) && cluster.ticks % 5 != 0;
  };
  (void)bytes_in(10);
  CHECK(bytes_in(10) < later / 2);
}

}  // namespace
}  // namespace quorate::consensus
