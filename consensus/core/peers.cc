// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/peers.h"

#include <algorithm>
#include <variant>

#include "base/seeded_bug.h"

namespace quorate::consensus {

uint64_t FirstDirectoryEpochOf(Term term) {
  constexpr int kBits = 16;
  constexpr uint64_t kTermMax = (uint64_t{1} << (63 - kBits)) - 2;
  return uint64_t{1} << 63 | std::min(term.value(), kTermMax) << kBits;
}

const Peers::Peer* Peers::Find(MemberId member) const {
  const auto found = peers_.find(member);
  return found == peers_.end() ? nullptr : &found->second;
}

uint32_t Peers::VersionOf(MemberId member) const {
  const Peer* peer = Find(member);
  return peer == nullptr ? 0 : peer->version;
}

bool Peers::IsAlive(const Peer& peer, uint64_t now_ticks) const {
  return peer.directory_epoch != kNoDirectoryEpoch && now_ticks - peer.heard_ticks < alive_ticks_;
}

Peers::Received Peers::Receive(const Message& message, Term own_term, uint64_t now_ticks) {
  Received received;
  Peer& peer = peers_[message.from];
  peer.voting = message.voting;
  const bool is_later = message.directory_epoch > peer.directory_epoch;
  const bool is_earlier = message.directory_epoch < peer.directory_epoch;
  const bool had_epoch = peer.directory_epoch != kNoDirectoryEpoch;
  // Acknowledgements without a directory epoch are not from this directory: a member that chooses
  // an epoch has sent only messages with `voting` false before.
  const bool is_another = is_later && peer.heard_ticks > 0 && message.voting;
  if (is_earlier || (is_later && had_epoch) || is_another) {
    if (had_epoch && !Admit(message, peer, own_term, now_ticks, &received.answer)) {
      received.sender = Sender::kDropped;
      return received;
    }
    // A directory without an epoch may send messages, but does not replace the directory before it.
    if (is_earlier) {
      received.sender = Sender::kUnrecorded;
      return received;
    }
    received.sender = Sender::kNewDirectory;
  }
  peer = {message.directory_epoch, message.version, now_ticks, message.voting};
  return received;
}

bool Peers::Admit(const Message& message, const Peer& peer, Term own_term, uint64_t now_ticks,
                  std::optional<DirectoryEpochResponse>* answer) const {
  if (message.directory_epoch != kNoDirectoryEpoch &&
      message.directory_epoch < peer.directory_epoch) {
    // The sender is a lost directory, or a second process that must not run. The answer says so.
    *answer = DirectoryEpochResponse{message.directory_epoch, peer.directory_epoch};
    return false;
  }
  if (IsAlive(peer, now_ticks) && !SeededBug("a stray message displaces a member")) {
    // Either of the two directories may get the answer. An older program would misunderstand it.
    if (std::min(message.version, peer.version) >= kVersionMembershipInLog) {
      *answer = DirectoryEpochResponse{message.directory_epoch, kDirectoryEpochInUse};
    }
    return false;
  }
  // Ignores an epoch of a term that has not begun: it is not valid.
  const Term term = std::max(own_term, message.term);
  if (message.directory_epoch > peer.directory_epoch) {
    return message.directory_epoch < FirstDirectoryEpochOf(term + 1);
  }
  if (std::holds_alternative<DirectoryEpochRequest>(message.body)) {
    *answer = DirectoryEpochResponse{kNoDirectoryEpoch, peer.directory_epoch};
    return false;
  }
  // A new directory may take part in the bootstrap of a cluster. Its other messages have no use
  // before it has chosen a directory epoch.
  return std::holds_alternative<VoteRequest>(message.body) ||
         std::holds_alternative<VoteResponse>(message.body);
}

}  // namespace quorate::consensus
