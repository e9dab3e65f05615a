// The words of consensus: indexes, terms, members, entries.
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

// Position in the log. The first entry has index 1; 0 stands before it.
using Index = StrongInt<struct IndexTag, uint64_t>;
// Raft term. 0 is before the first election.
using Term = StrongInt<struct TermTag, uint64_t>;
// A server, by the number of its `server.N` line (1 to 254). 0 is "none".
using MemberId = StrongInt<struct MemberIdTag, uint32_t>;
// Counts the rounds of leadership confirmation within a leader's term; never reused (thesis 6.4).
using ReadRound = StrongInt<struct ReadRoundTag, uint64_t>;
// Names one batch of what must become durable; grows by one with each such Output.
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

// Those that consensus itself reads: a log tells them to Raft when it is opened.
constexpr bool IsControl(EntryKind kind) { return kind > EntryKind::kCommand; }

// What the entries of a log, and messages, may hold. Every member of a cluster understands the
// cluster version; a leader raises it once all members understand the next.
inline constexpr uint32_t kVersionBase = 1;        // commands and no-ops
inline constexpr uint32_t kVersionMembership = 2;  // membership entries, snapshot transfer
inline constexpr uint32_t kVersionLossNotice = 3;
// What is built on consensus, the state machine's commands and other messages between members,
// shares the numbering: 4, 5 and 7 are of the tree's alone.
// The log holds the membership: a membership entry comes before the entry that raises the version
// to this one or a newer one.
inline constexpr uint32_t kVersionMembershipInLog = 6;
inline constexpr uint32_t kVersionSnapshotWindow = 6;  // several chunks at a time, SnapshotRejected
inline constexpr uint32_t kVersionNewest = 7;

struct Entry {
  Index index;
  Term term;
  EntryKind kind = EntryKind::kCommand;
  Slice payload;

  // Bytes this entry counts for in every bound: payload plus a fixed overhead.
  size_t ByteSize() const { return payload.size() + 40; }

  friend bool operator==(const Entry&, const Entry&) = default;
};

// Tells a member's data directory from those that it had before and will have: greater for a later
// one. A directory that is not in the state kNormal has none yet, and its messages carry
// kNoDirectoryEpoch.
inline constexpr uint64_t kNoDirectoryEpoch = 0;
// Of a directory with which its cluster was bootstrapped.
inline constexpr uint64_t kFirstDirectoryEpoch = 1;

// Whether a member's vote and its acknowledgements can be relied on (data_loss.cc).
enum class MemberState : uint8_t {
  kNew = 0,         // a new directory, which has seen nothing: it may take part in a bootstrap
  kRecovering = 1,  // a new directory in a cluster that exists: perhaps a lost disk
  kNormal = 2,
};

// What must not be forgotten, besides the log (Raft paper, figure 2).
struct HardState {
  Term term;
  MemberId vote;  // whom this member voted for in `term`
  Index commit;   // a hint: some commit index that was reached; need not be the newest
  MemberState member_state = MemberState::kNormal;

  friend bool operator==(const HardState&, const HardState&) = default;
};

// Who takes part. During a change of voters (joint consensus, thesis 4.3) `outgoing` is not empty,
// and a majority of `voters` AND one of `outgoing` decide. Algebra and bytes: membership.h.
struct Membership {
  std::vector<MemberId> voters;    // ascending, not empty; the new set during a change
  std::vector<MemberId> learners;  // ascending: receive the log, do not vote. None is in `voters`
  std::vector<MemberId> outgoing;  // ascending; the old voters, only during a change
  std::map<MemberId, std::string> addresses;  // for the transport; consensus does not look at them

  bool joint() const { return !outgoing.empty(); }
  // In voters or in outgoing.
  bool IsVoter(MemberId member) const;
  // In any of the three.
  bool Contains(MemberId member) const;
  // Whether voters and learners are the same, whatever the addresses. REQUIRES: neither is joint.
  bool HasSameMembers(const Membership& other) const;
  // All of them, ascending, each once.
  std::vector<MemberId> Members() const;
  friend bool operator==(const Membership&, const Membership&) = default;
};

// What a checkpoint of the state machine stands for: all that a log cut after `index` must
// remember.
struct SnapshotMeta {
  Index index;  // applied up to here
  Term term;    // of the entry at `index`
  Membership membership;
  uint32_t version = kVersionBase;
  std::string cluster_id = {};  // the payload of the entry at index 1
  friend bool operator==(const SnapshotMeta&, const SnapshotMeta&) = default;
};

enum class Role : uint8_t { kFollower, kPreCandidate, kCandidate, kLeader };

// One line each, the same for equal values.
std::string ToString(Role role);
std::string ToString(const Entry& entry);
std::string ToString(const HardState& state);
std::string ToString(MemberState member_state);
std::string ToString(const Membership& membership);
std::string ToString(const SnapshotMeta& meta);

}  // namespace quorate::consensus
