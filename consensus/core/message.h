// SPDX-License-Identifier: Apache-2.0

// The messages between members, as plain structs in one variant, and their encoding.
//
// Thread-safety: values; the functions keep no state.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

// Asks for a vote (paper 5.2). With `pre_vote`, asks whether the receiver would vote: then
// Message::term is the term in which the sender would campaign, and no member's state changes
// (thesis 9.6).
struct VoteRequest {
  bool pre_vote = false;
  bool leadership_transfer =
      false;  // granted even if the receiver hears from a leader (thesis 4.2.3)
  Index last_index;
  Term last_term;
  // True if all voters have reported that their logs are empty: then new members may vote too
  // (data_loss.cc).
  bool bootstrap = false;
  friend bool operator==(const VoteRequest&, const VoteRequest&) = default;
};

// A granted pre-vote carries the term of the request; every other message carries the sender's
// term.
struct VoteResponse {
  bool pre_vote = false;
  bool granted = false;
  // In a granted pre-vote, if neither log nor checkpoint of the sender has a membership: the
  // membership with which the sender was started, without addresses. It is sent to members that
  // understand kVersionMembershipInLog.
  std::optional<Membership> configured = std::nullopt;
  friend bool operator==(const VoteResponse&, const VoteResponse&) = default;
};

// Entries after (prev_index, prev_term). May have none, as a probe or as a commit-only append.
struct AppendRequest {
  Index prev_index;
  Term prev_term;
  Index commit;
  std::vector<Entry> entries;  // contiguous from prev_index + 1
  // True if the request has no entries and only brings the commit index to a follower in the state
  // replicate. If the logs match, the follower does not answer it.
  bool commit_only = false;
  friend bool operator==(const AppendRequest&, const AppendRequest&) = default;
};

// Says that the sender's log is durable and equal to the leader's up to `match_index`, and equal,
// durable or not, up to `received_index` (not below match_index): entries up to there need not be
// sent again. If received_index is below an earlier match_index, the sender was restarted in
// between.
struct AppendAccepted {
  Index match_index;
  Index received_index;
  friend bool operator==(const AppendAccepted&, const AppendAccepted&) = default;
};

// Says that the sender's log has no entry at `prev_index` of the request, or an entry of another
// term. The entry (candidate_index, candidate_term) is the last one in the sender's log that may
// equal the leader's entry at that index. If all fields are 0, the request was of an old term.
struct AppendRejected {
  Index prev_index;
  Index candidate_index;
  Term candidate_term;
  friend bool operator==(const AppendRejected&, const AppendRejected&) = default;
};

// Keeps leadership and confirms reads. It does not wait for a disk, so that it works while a disk
// stalls.
struct Heartbeat {
  Index commit;  // never above the entries that the receiver is known to have
  ReadRound read_round;
  // The observers that the receiver has to feed from now on (raft_feeding.cc), ascending.
  std::vector<MemberId> observers = {};
  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};

// What a follower knows of an observer that it feeds.
struct FedObserver {
  MemberId member;
  Index match;  // the observer's durable log equals the leader's up to here
  uint64_t directory_epoch = kNoDirectoryEpoch;  // of the observer
  friend bool operator==(const FedObserver&, const FedObserver&) = default;
};

struct HeartbeatResponse {
  ReadRound read_round;
  // From a member that is ready to feed observers, now and then: those that it feeds and has heard
  // from lately. nullopt says nothing.
  std::optional<std::vector<FedObserver>> fed = std::nullopt;
  friend bool operator==(const HeartbeatResponse&, const HeartbeatResponse&) = default;
};

// Sent by a member that does not lead, to ask for an index at which a read is safe.
struct ReadIndexRequest {
  uint64_t request_id = 0;
  bool recovering = false;  // the index must also cover the newest membership (data_loss.cc)
  friend bool operator==(const ReadIndexRequest&, const ReadIndexRequest&) = default;
};

struct ReadIndexResponse {
  uint64_t request_id = 0;
  Index index;
  friend bool operator==(const ReadIndexResponse&, const ReadIndexResponse&) = default;
};

// Tells the receiver, which is up to date, to campaign at once (thesis 3.10).
struct TimeoutNow {
  friend bool operator==(const TimeoutNow&, const TimeoutNow&) = default;
};

// A part of a checkpoint, for a follower that needs entries that the leader's log no longer has
// (paper 7).
struct SnapshotChunk {
  SnapshotMeta meta;
  uint64_t offset = 0;  // place of `bytes` in the whole checkpoint
  bool last = false;
  Slice bytes;
  friend bool operator==(const SnapshotChunk&, const SnapshotChunk&) = default;
};

// Says that everything before `next_offset` of the snapshot of `index` is staged. If `done`, the
// follower has everything up to `index`, durable or not (AppendAccepted acknowledges what is
// durable). If the leader begins with another snapshot than the one that is partly staged, this
// message is the first answer: it asks the leader to continue with the snapshot of `index`, if
// possible.
struct SnapshotAck {
  Index index;
  uint64_t next_offset = 0;
  bool done = false;
  friend bool operator==(const SnapshotAck&, const SnapshotAck&) = default;
};

// Says that the sender could not store the snapshot of `index` and has discarded the chunks that it
// had.
struct SnapshotRejected {
  Index index;
  std::string reason;  // at most kReasonBytesMax
  friend bool operator==(const SnapshotRejected&, const SnapshotRejected&) = default;
};

// Announces the epoch of the sender's data directory. From then on the receiver drops messages of
// an older epoch. A sender without an epoch (kNoDirectoryEpoch) asks which epoch the receiver
// knows.
struct DirectoryEpochRequest {
  friend bool operator==(const DirectoryEpochRequest&, const DirectoryEpochRequest&) = default;
};

inline constexpr uint64_t kDirectoryEpochInUse = ~uint64_t{0};

// Answers a DirectoryEpochRequest. It is also sent to a member whose message was dropped because of
// its directory epoch.
struct DirectoryEpochResponse {
  uint64_t directory_epoch = 0;  // the epoch in the answered message
  // The greatest epoch that the sender knows of the receiver. kDirectoryEpochInUse if the sender
  // recently heard from another directory of the receiver, which is not displaced.
  uint64_t known_directory_epoch = 0;
  friend bool operator==(const DirectoryEpochResponse&, const DirectoryEpochResponse&) = default;
};

// Sent to a follower that lacks entries that it had acknowledged. It had acknowledged everything up
// to the entry (`index`, `term`).
struct LossNotice {
  Index index;
  Term term;
  friend bool operator==(const LossNotice&, const LossNotice&) = default;
};

struct Message {
  MemberId from;
  MemberId to;
  Term term;
  std::variant<VoteRequest, VoteResponse, AppendRequest, AppendAccepted, Heartbeat,
               HeartbeatResponse, ReadIndexRequest, ReadIndexResponse, TimeoutNow, SnapshotChunk,
               SnapshotAck, DirectoryEpochRequest, DirectoryEpochResponse, LossNotice,
               SnapshotRejected, AppendRejected>
      body;
  uint64_t directory_epoch = kFirstDirectoryEpoch;  // epoch of the sender's data directory
  uint32_t version = kVersionNewest;                // the newest that the sender understands
  bool voting = true;                               // the sender's state is normal, durably
  // In an AppendRequest, Heartbeat or SnapshotChunk of a follower that feeds the receiver: the leader
  // of `term`. kNoMember: the sender sends for itself.
  MemberId on_behalf_of = kNoMember;
  friend bool operator==(const Message&, const Message&) = default;
};

// Returns one line. The text is deterministic, for test scripts and logs.
std::string ToString(const Message& message);

// Appends the encoding of `message` to `*out`: little-endian, in the version that the handshake of
// the transport checks.
void EncodeMessage(const Message& message, std::string* out);

// Decodes one message that takes up all of `bytes`. Entry payloads become slices of `buffer`, which
// contains `bytes`. Returns InvalidArgument for bytes that EncodeMessage cannot have written,
// including entries that do not follow prev_index without a gap, and malformed control entries.
absl::StatusOr<Message> DecodeMessage(const Slice::Buffer& buffer, std::string_view bytes);

}  // namespace quorate::consensus
