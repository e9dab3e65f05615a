// SPDX-License-Identifier: Apache-2.0

// A server for tests. The test decides its messages, ticks and disk, and plays the other members.
//
// Thread-safety: none.
#pragma once

#include <catch2/catch.hpp>
#include <initializer_list>
#include <utility>
#include <variant>
#include <vector>

#include "consensus/core/membership.h"
#include "consensus/core/testing/test_member.h"

namespace quorate::consensus {

inline constexpr int kElectionTicks = 10;
inline constexpr int kHeartbeatTicks = 3;

inline std::vector<MemberId> Ids(std::initializer_list<uint32_t> ids) {
  std::vector<MemberId> members;
  for (uint32_t id : ids) members.emplace_back(id);
  return members;
}

inline RaftOptions Options(Membership membership) {
  RaftOptions options;
  options.self = MemberId{1};
  options.membership = std::move(membership);
  options.election_ticks = kElectionTicks;
  options.heartbeat_ticks = kHeartbeatTicks;
  options.trailing_entries = 0;
  options.retained_entries_max = 5;
  options.retained_ticks_max = kElectionTicks;
  options.compaction_step_entries = 1;
  return options;
}

inline TestMember::Disk DiskOf(MemberState member_state) {
  TestMember::Disk disk;
  disk.hard_state.member_state = member_state;
  return disk;
}

// Member 1. All its writes become durable and applied at once.
class Server {
 public:
  explicit Server(Membership membership = {Ids({1, 2, 3}), {}, {}, {}},
                  MemberState member_state = MemberState::kNormal)
      : Server(Options(std::move(membership)), DiskOf(member_state)) {}
  Server(RaftOptions options, TestMember::Disk disk)
      : member_(std::move(options), std::move(disk), &random_) {
    Take();
  }

  Raft& raft() { return member_.raft(); }
  TestMember& member() { return member_; }

  void Receive(Message message) {
    raft().Step(std::move(message));
    raft().CheckInvariants();
  }
  template <typename Body>
  void Receive(uint32_t from, uint64_t term, Body body, bool voting = true,
               uint64_t directory_epoch = 1) {
    Receive({MemberId{from}, MemberId{1}, Term{term}, std::move(body), directory_epoch,
             kVersionNewest, voting});
  }
  void Tick(int ticks) {
    for (; ticks > 0; --ticks) raft().Tick();
    raft().CheckInvariants();
  }
  std::vector<Message> Take() {
    std::vector<Message> all;
    do {
      if (member_.unpersisted() > 0) member_.Persist(member_.unpersisted());
      member_.Collect();
      while (member_.can_apply()) member_.ApplyOne();
      for (Message& message : std::exchange(member_.outbox, {})) all.push_back(std::move(message));
    } while (member_.unpersisted() > 0 || raft().HasOutput());
    return all;
  }
  template <typename Body>
  std::vector<std::pair<MemberId, Body>> TakeBodies() {
    std::vector<std::pair<MemberId, Body>> bodies;
    for (const Message& message : Take()) {
      if (const auto* body = std::get_if<Body>(&message.body))
        bodies.emplace_back(message.to, *body);
    }
    return bodies;
  }
  void Acknowledge(uint32_t from, uint64_t match, bool voting = true,
                   uint64_t directory_epoch = 1) {
    Receive(from, raft().term().value(), AppendAccepted{Index{match}, Index{match}}, voting,
            directory_epoch);
  }
  // Makes the member leader, with the newest cluster version. All members have all entries.
  void Lead() {
    while (raft().role() == Role::kFollower) raft().Tick();
    for (uint32_t id = 2; raft().role() == Role::kPreCandidate; ++id) {
      Receive(id, raft().term().value() + 1, VoteResponse{true, true});
    }
    Take();
    for (uint32_t id = 2; raft().role() == Role::kCandidate; ++id) {
      Receive(id, raft().term().value(), VoteResponse{false, true});
    }
    REQUIRE(raft().role() == Role::kLeader);
    Take();
    AcknowledgeAll();
    AcknowledgeAll();
    REQUIRE(raft().cluster_version() == kVersionNewest);
  }
  void AcknowledgeAll() {
    Take();
    for (MemberId member : raft().membership().Members()) {
      if (member != MemberId{1}) Acknowledge(member.value(), raft().last_index().value());
    }
    Take();
  }
  absl::Status Change(std::vector<MemberId> voters, std::vector<MemberId> learners = {}) {
    const absl::Status status =
        raft().ChangeMembership({std::move(voters), std::move(learners), {}, {}});
    raft().CheckInvariants();
    return status;
  }
  void Propose(int count) {
    for (; count > 0; --count) REQUIRE(raft().Propose({Slice("x")}).ok());
    Take();
  }

 private:
  FixedRandom random_{0};
  TestMember member_;
};

inline Entry Control(uint64_t index, uint64_t term, const Membership& membership) {
  return {Index{index}, Term{term}, EntryKind::kMembership, Slice(EncodeMembership(membership))};
}

}  // namespace quorate::consensus
