// The words of consensus: indexes, terms, members, entries.
//
// Thread-safety: values; no shared state.
#pragma once

#include <cstdint>
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
  kCommand = 1,  // opaque bytes of the state machine
};

struct Entry {
  Index index;
  Term term;
  EntryKind kind = EntryKind::kCommand;
  Slice payload;

  // Bytes this entry counts for in every bound: payload plus a fixed overhead.
  size_t ByteSize() const { return payload.size() + 40; }

  friend bool operator==(const Entry&, const Entry&) = default;
};

// What must not be forgotten, besides the log (Raft paper, figure 2).
struct HardState {
  Term term;
  MemberId vote;  // whom this member voted for in `term`
  Index commit;   // a hint: some commit index that was reached; need not be the newest

  friend bool operator==(const HardState&, const HardState&) = default;
};

// The voting members. Fixed for the life of a Raft object; the change of membership is an entry of
// its own kind in a later format.
struct Membership {
  std::vector<MemberId> voters;    // ascending, not empty
  std::vector<MemberId> learners;  // ascending: receive the log, do not vote

  bool IsVoter(MemberId member) const;
  bool Contains(MemberId member) const;
};

enum class Role : uint8_t { kFollower, kPreCandidate, kCandidate, kLeader };

// One line each, the same for equal values.
std::string ToString(Role role);
std::string ToString(const Entry& entry);
std::string ToString(const HardState& state);
std::string ToString(const Membership& membership);

}  // namespace quorate::consensus
