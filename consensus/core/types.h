// SPDX-License-Identifier: Apache-2.0

// The basic types of consensus: indexes, terms, members, entries.
//
// Thread-safety: values; no shared state.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/slice.h"
#include "base/strong_int.h"

namespace quorate::consensus {

// The position of an entry in the log. The first entry has index 1; 0 is the position before it.
using Index = StrongInt<struct IndexTag, uint64_t>;
// A term of Raft. 0 is before the first election.
using Term = StrongInt<struct TermTag, uint64_t>;
// The number of a server, as in its `server.N` line (1 to 254). 0 is no server.
using MemberId = StrongInt<struct MemberIdTag, uint32_t>;
// The number of a round of leadership confirmation within a leader's term; never used again (thesis
// 6.4).
using ReadRound = StrongInt<struct ReadRoundTag, uint64_t>;
// Identifies a batch of data that must become durable. It grows by one with each Output that has a
// batch.
using PersistId = StrongInt<struct PersistIdTag, uint64_t>;

inline constexpr MemberId kNoMember{0};

enum class EntryKind : uint8_t {
  kNoOp = 0,  // appended by a new leader (thesis 6.4); the payload of the entry at index 1 is the
              // cluster id, any other has none
  kCommand = 1,     // opaque bytes of the state machine
  kMembership = 2,  // a Membership (membership.h); effective as soon as it is in the log
  kVersion = 3,     // a version (uint32); it is the cluster version once it is committed
};
inline constexpr EntryKind kEntryKindLast = EntryKind::kVersion;

// Returns whether consensus itself reads entries of this kind. A log passes them to Raft when it is
// opened.
constexpr bool IsControl(EntryKind kind) { return kind > EntryKind::kCommand; }

// Versions of the content of log entries and messages. Every member of a cluster understands the
// cluster version; a leader raises it once all members understand the next.
inline constexpr uint32_t kVersionBase = 1;        // commands and no-ops
inline constexpr uint32_t kVersionMembership = 2;  // membership entries, snapshot transfer
inline constexpr uint32_t kVersionLossNotice = 3;
// The state machine's commands and the other messages between members share this numbering:
// versions 4, 5, 7, 8, 10 and 12 concern the tree alone. From version 6 on, the log has the membership: a
// membership entry precedes the entry that raises the version to 6 or above.
inline constexpr uint32_t kVersionMembershipInLog = 6;
inline constexpr uint32_t kVersionSnapshotWindow = 6;  // several chunks at a time, SnapshotRejected
// From version 9 on, a membership entry may have addresses. The links between members use them, and
// the state machine shows them to clients.
inline constexpr uint32_t kVersionAddresses = 9;
// From version 11 on, followers may feed observers (raft_feeding.cc).
inline constexpr uint32_t kVersionFeeding = 11;
inline constexpr uint32_t kVersionNewest = 12;

struct Entry {
  Index index;
  Term term;
  EntryKind kind = EntryKind::kCommand;
  Slice payload;

  // Returns the bytes for which this entry counts in every bound: payload plus a fixed overhead.
  size_t ByteSize() const { return payload.size() + 40; }

  friend bool operator==(const Entry&, const Entry&) = default;
};

// The directory epoch distinguishes a member's data directory from earlier and later ones: a later
// directory has a greater epoch. A new directory has no epoch until its member becomes kNormal, or
// chooses an epoch while it recovers. Until then its messages carry kNoDirectoryEpoch.
inline constexpr uint64_t kNoDirectoryEpoch = 0;
// The epoch of a directory with which its cluster was bootstrapped.
inline constexpr uint64_t kFirstDirectoryEpoch = 1;

// Whether a member's votes and acknowledgements can be relied on (data_loss.cc).
enum class MemberState : uint8_t {
  kNew = 0,         // a new directory without any data: it may take part in a bootstrap
  kRecovering = 1,  // a new directory in an existing cluster: perhaps the disk was lost
  kNormal = 2,
};

// The state that a member must not forget, besides the log (Raft paper, figure 2).
struct HardState {
  Term term;
  MemberId vote;  // the member for which this member voted in `term`
  Index commit;   // a hint: a commit index that was reached, perhaps not the newest
  MemberState member_state = MemberState::kNormal;

  friend bool operator==(const HardState&, const HardState&) = default;
};

// The voters and learners of a cluster. During a change of voters (joint consensus, thesis 4.3)
// `outgoing` is not empty, and a decision needs a majority of `voters` AND one of `outgoing`.
// Operations and encoding: membership.h.
struct Membership {
  std::vector<MemberId> voters;    // ascending, not empty; the new set during a change
  std::vector<MemberId> learners;  // ascending: receive the log, do not vote. None is in `voters`
  std::vector<MemberId> outgoing;  // ascending; the old voters, only during a change
  // For the transport and the state machine; consensus does not read them. Empty until the first
  // change that gives addresses.
  std::map<MemberId, std::string> addresses;

  bool joint() const { return !outgoing.empty(); }
  // Returns whether `member` is in `voters` or in `outgoing`.
  bool IsVoter(MemberId member) const;
  // Returns whether `member` is in any of the three lists.
  bool Contains(MemberId member) const;
  // Returns whether voters and learners are the same; addresses may differ. REQUIRES: neither is
  // joint.
  bool HasSameMembers(const Membership& other) const;
  // Returns the members of all three lists, ascending, each once.
  std::vector<MemberId> Members() const;
  friend bool operator==(const Membership&, const Membership&) = default;
};

// Describes a checkpoint of the state machine: all that must be known of the entries up to `index`
// once the log has dropped them.
struct SnapshotMeta {
  Index index;  // entries up to this index are applied
  Term term;    // term of the entry at `index`
  Membership membership;
  uint32_t version = kVersionBase;
  std::string cluster_id = {};  // the payload of the entry at index 1
  friend bool operator==(const SnapshotMeta&, const SnapshotMeta&) = default;
};

enum class Role : uint8_t { kFollower, kPreCandidate, kCandidate, kLeader };

// Each of these functions returns one line. Equal values give equal lines.
std::string ToString(Role role);
std::string ToString(const Entry& entry);
std::string ToString(const HardState& state);
std::string ToString(MemberState member_state);
std::string ToString(const Membership& membership);
std::string ToString(const SnapshotMeta& meta);

}  // namespace quorate::consensus
