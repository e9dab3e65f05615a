// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/types.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "consensus/core/describe.h"

namespace quorate::consensus {

namespace {

bool Has(const std::vector<MemberId>& members, MemberId member) {
  return std::binary_search(members.begin(), members.end(), member);
}

}  // namespace

bool Membership::IsVoter(MemberId member) const {
  return Has(voters, member) || Has(outgoing, member);
}

bool Membership::Contains(MemberId member) const {
  return IsVoter(member) || Has(learners, member);
}

bool Membership::HasSameMembers(const Membership& other) const {
  ASSERT(!joint() && !other.joint());
  return voters == other.voters && learners == other.learners;
}

std::vector<MemberId> Membership::Members() const {
  std::vector<MemberId> members = voters;
  members.insert(members.end(), learners.begin(), learners.end());
  members.insert(members.end(), outgoing.begin(), outgoing.end());
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  return members;
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
  if (IsControl(entry.kind)) return out + " " + DescribeControl(entry);
  if (entry.kind == EntryKind::kCommand || !entry.payload.empty()) {
    out += ' ';
    out += DescribeBytes(entry.payload.view());
  }
  return out;
}

std::string ToString(const HardState& state) {
  return "term=" + Describe(state.term) + " vote=" + Describe(state.vote) +
         " commit=" + Describe(state.commit) +
         (state.member_state == MemberState::kNormal ? "" : " " + ToString(state.member_state));
}

std::string ToString(MemberState member_state) {
  switch (member_state) {
    case MemberState::kNew:
      return "new";
    case MemberState::kRecovering:
      return "recovering";
    case MemberState::kNormal:
      return "normal";
  }
  ASSERT(false, "a member state has one of the three values");
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
  if (membership.joint()) out += " outgoing=" + list(membership.outgoing);
  if (membership.addresses.empty()) return out;
  out += " addresses=[";
  bool first = true;
  for (const auto& [member, address] : membership.addresses) {
    out += std::exchange(first, false) ? "" : " ";
    out += Describe(member) + ":" + DescribeBytes(address);
  }
  return out + "]";
}

std::string ToString(const SnapshotMeta& meta) {
  return DescribePosition(meta.index, meta.term) + " version=" + std::to_string(meta.version) +
         " " + ToString(meta.membership);
}

}  // namespace quorate::consensus
