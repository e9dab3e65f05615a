#include "consensus/core/types.h"

#include <algorithm>

#include "base/assert.h"
#include "consensus/core/describe.h"

namespace quorate::consensus {

bool Membership::IsVoter(MemberId member) const {
  return std::binary_search(voters.begin(), voters.end(), member);
}

bool Membership::Contains(MemberId member) const {
  return IsVoter(member) || std::binary_search(learners.begin(), learners.end(), member);
}

std::string ToString(Role role) {
  switch (role) {
    case Role::kFollower:
      return "follower";
    case Role::kPreCandidate:
      return "pre-candidate";
    case Role::kCandidate:
      return "candidate";
    case Role::kLeader:
      return "leader";
  }
  ASSERT(false, "a role has one of the four values");
}

std::string ToString(const Entry& entry) {
  std::string out = DescribePosition(entry.index, entry.term);
  if (entry.kind == EntryKind::kNoOp) out += " no-op";
  if (entry.kind == EntryKind::kCommand || !entry.payload.empty()) {
    out += ' ';
    out += DescribeBytes(entry.payload.view());
  }
  return out;
}

std::string ToString(const HardState& state) {
  return "term=" + Describe(state.term) + " vote=" + Describe(state.vote) +
         " commit=" + Describe(state.commit);
}

std::string ToString(const Membership& membership) {
  auto list = [](const std::vector<MemberId>& members) {
    std::string out = "[";
    for (MemberId member : members) {
      if (out.size() > 1) out += ' ';
      out += Describe(member);
    }
    return out + "]";
  };
  std::string out = "voters=" + list(membership.voters);
  if (!membership.learners.empty()) out += " learners=" + list(membership.learners);
  return out;
}

}  // namespace quorate::consensus
