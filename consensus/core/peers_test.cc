// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/peers.h"

#include <catch2/catch.hpp>

namespace quorate::consensus {
namespace {

using Sender = Peers::Sender;

constexpr MemberId kSelf{1};
constexpr MemberId kPeer{2};
constexpr Term kTerm{3};
constexpr uint64_t kAliveTicks = 40;

template <class Body>
Message From(uint64_t directory_epoch, Body body, bool voting = true) {
  return {kPeer, kSelf, kTerm, std::move(body), directory_epoch, kVersionNewest, voting};
}

// Peers that have heard from a directory with `epoch` of kPeer, at tick 1.
Peers Known(uint64_t epoch) {
  Peers peers(kAliveTicks);
  peers.Receive(From(epoch, Heartbeat{}), kTerm, 1);
  return peers;
}

TEST_CASE("the last message of a member tells its directory, version and whether it votes") {
  Peers peers(kAliveTicks);
  CHECK(peers.Find(kPeer) == nullptr);
  CHECK(peers.VersionOf(kPeer) == 0);
  CHECK(peers.Receive(From(kFirstDirectoryEpoch, Heartbeat{}), kTerm, 1).sender == Sender::kKnown);
  REQUIRE(peers.Find(kPeer) != nullptr);
  CHECK(peers.Find(kPeer)->directory_epoch == kFirstDirectoryEpoch);
  CHECK(peers.Find(kPeer)->voting);
  CHECK(peers.VersionOf(kPeer) == kVersionNewest);
  peers.Receive(From(kFirstDirectoryEpoch, Heartbeat{}, /*voting=*/false), kTerm, 2);
  CHECK_FALSE(peers.Find(kPeer)->voting);
}

TEST_CASE("a message of an older directory is dropped, and the answer says which one is known") {
  Peers peers = Known(5);
  const auto received = peers.Receive(From(4, Heartbeat{}), kTerm, 2);
  CHECK(received.sender == Sender::kDropped);
  CHECK(received.answer == DirectoryEpochResponse{4, 5});
  CHECK(peers.Find(kPeer)->directory_epoch == 5);
}

TEST_CASE("a directory does not displace one that is in use") {
  Peers peers = Known(5);
  auto received = peers.Receive(From(6, Heartbeat{}), kTerm, kAliveTicks);
  CHECK(received.sender == Sender::kDropped);
  CHECK(received.answer == DirectoryEpochResponse{6, kDirectoryEpochInUse});
  received = peers.Receive(From(6, Heartbeat{}), kTerm, 1 + kAliveTicks);
  CHECK(received.sender == Sender::kNewDirectory);
  CHECK_FALSE(received.answer);
  CHECK(peers.Find(kPeer)->directory_epoch == 6);
}

TEST_CASE("an epoch of a term that has not begun is not valid") {
  constexpr uint64_t kLater = 1 + kAliveTicks;
  Peers peers = Known(5);
  const uint64_t next = FirstDirectoryEpochOf(kTerm + 1);
  CHECK(peers.Receive(From(next, Heartbeat{}), kTerm, kLater).sender == Sender::kDropped);
  CHECK(peers.Receive(From(next - 1, Heartbeat{}), kTerm, kLater).sender == Sender::kNewDirectory);
}

TEST_CASE("a directory without an epoch may ask and vote, and replaces none") {
  constexpr uint64_t kLater = 1 + kAliveTicks;
  Peers peers = Known(5);
  auto received =
      peers.Receive(From(kNoDirectoryEpoch, DirectoryEpochRequest{}, false), kTerm, kLater);
  CHECK(received.sender == Sender::kDropped);
  CHECK(received.answer == DirectoryEpochResponse{kNoDirectoryEpoch, 5});
  received = peers.Receive(From(kNoDirectoryEpoch, VoteResponse{true, true}, false), kTerm, kLater);
  CHECK(received.sender == Sender::kUnrecorded);
  CHECK(peers.Find(kPeer)->directory_epoch == 5);
  CHECK_FALSE(peers.Find(kPeer)->voting);
  received = peers.Receive(From(kNoDirectoryEpoch, Heartbeat{}, false), kTerm, kLater);
  CHECK(received.sender == Sender::kDropped);
  CHECK_FALSE(received.answer);
}

TEST_CASE("an epoch chosen during recovery does not make a known directory a new one") {
  Peers peers(kAliveTicks);
  peers.Receive(From(kNoDirectoryEpoch, VoteResponse{true, true}, false), kTerm, 1);
  // While it recovers it has only sent messages that do not count.
  CHECK(peers.Receive(From(7, Heartbeat{}, false), kTerm, 2).sender == Sender::kKnown);
  Peers others(kAliveTicks);
  others.Receive(From(kNoDirectoryEpoch, VoteResponse{true, true}), kTerm, 1);
  CHECK(others.Receive(From(7, Heartbeat{}), kTerm, 2).sender == Sender::kNewDirectory);
}

}  // namespace
}  // namespace quorate::consensus
