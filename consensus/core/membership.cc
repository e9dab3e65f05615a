// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/membership.h"

#include <algorithm>

#include "base/bytes.h"
#include "consensus/core/describe.h"

namespace quorate::consensus {
namespace {

absl::Status CheckMembers(const std::vector<MemberId>& members, const std::string& field) {
  MemberId previous = kNoMember;
  for (MemberId member : members) {
    if (member <= previous || member.value() > kMemberIdMax) {
      return absl::InvalidArgumentError(field + " must be ascending and in 1 to 254; " +
                                        Describe(member) + " after " + Describe(previous));
    }
    previous = member;
  }
  return absl::OkStatus();
}

void WriteMembers(const std::vector<MemberId>& members, LittleEndianWriter* out) {
  out->Int(static_cast<uint8_t>(members.size()));
  for (MemberId member : members) out->Int(static_cast<uint8_t>(member.value()));
}

std::vector<MemberId> ReadMembers(LittleEndianReader* in) {
  std::vector<MemberId> members;
  for (uint8_t left = in->Int<uint8_t>(); left > 0 && in->ok(); --left) {
    members.emplace_back(in->Int<uint8_t>());
  }
  return members;
}

void KeepAddressesOfMembers(Membership* membership) {
  std::erase_if(membership->addresses,
                [&](const auto& address) { return !membership->Contains(address.first); });
}

}  // namespace

absl::Status ValidateMembership(const Membership& membership) {
  if (membership.voters.empty()) return absl::InvalidArgumentError("membership.voters is empty");
  const std::pair<const char*, const std::vector<MemberId>*> fields[] = {
      {"membership.voters", &membership.voters},
      {"membership.learners", &membership.learners},
      {"membership.outgoing", &membership.outgoing},
  };
  for (const auto& [field, members] : fields) {
    if (absl::Status status = CheckMembers(*members, field); !status.ok()) return status;
  }
  for (MemberId learner : membership.learners) {
    if (std::binary_search(membership.voters.begin(), membership.voters.end(), learner)) {
      return absl::InvalidArgumentError("membership.learners contains the voter " +
                                        Describe(learner));
    }
  }
  for (const auto& [member, address] : membership.addresses) {
    if (!membership.Contains(member)) {
      return absl::InvalidArgumentError("membership.addresses has " + Describe(member) +
                                        ", which is not a member");
    }
    if (address.size() > kAddressBytesMax) {
      return absl::InvalidArgumentError("the address of member " + Describe(member) + " has " +
                                        std::to_string(address.size()) + " bytes, more than " +
                                        std::to_string(kAddressBytesMax));
    }
  }
  return absl::OkStatus();
}

std::string EncodeMembership(const Membership& membership) {
  ASSERT(ValidateMembership(membership).ok());
  std::string bytes;
  LittleEndianWriter out(&bytes);
  WriteMembers(membership.voters, &out);
  WriteMembers(membership.learners, &out);
  WriteMembers(membership.outgoing, &out);
  out.Int(static_cast<uint8_t>(membership.addresses.size()));
  for (const auto& [member, address] : membership.addresses) {
    out.Int(static_cast<uint8_t>(member.value()));
    out.String(address);
  }
  return bytes;
}

absl::StatusOr<Membership> DecodeMembership(std::string_view bytes) {
  LittleEndianReader in(bytes);
  Membership membership;
  membership.voters = ReadMembers(&in);
  membership.learners = ReadMembers(&in);
  membership.outgoing = ReadMembers(&in);
  MemberId previous = kNoMember;
  for (uint8_t left = in.Int<uint8_t>(); left > 0 && in.ok(); --left) {
    const MemberId member(in.Int<uint8_t>());
    if (member <= previous) in.Fail();
    previous = member;
    membership.addresses[member] = in.String();
  }
  if (!in.ok() || !in.empty()) {
    return absl::InvalidArgumentError("a membership of " + std::to_string(bytes.size()) +
                                      " bytes is malformed");
  }
  if (absl::Status status = ValidateMembership(membership); !status.ok()) return status;
  return membership;
}

std::string EncodeVersion(uint32_t version) {
  ASSERT(version > 0);
  std::string bytes;
  LittleEndianWriter(&bytes).Int(version);
  return bytes;
}

absl::StatusOr<uint32_t> DecodeVersion(std::string_view bytes) {
  LittleEndianReader in(bytes);
  const auto version = in.Int<uint32_t>();
  if (!in.ok() || !in.empty() || version == 0) {
    return absl::InvalidArgumentError("a version of " + std::to_string(bytes.size()) +
                                      " bytes is malformed");
  }
  return version;
}

absl::Status ValidateControl(const Entry& entry) {
  switch (entry.kind) {
    case EntryKind::kMembership:
      return DecodeMembership(entry.payload.view()).status();
    case EntryKind::kVersion:
      return DecodeVersion(entry.payload.view()).status();
    case EntryKind::kNoOp:
    case EntryKind::kCommand:
      return absl::OkStatus();
  }
  return absl::InvalidArgumentError("an entry has an unknown kind");
}

std::string EncodeSnapshotMeta(const SnapshotMeta& meta) {
  std::string bytes;
  LittleEndianWriter out(&bytes);
  out.Int(meta.index.value());
  out.Int(meta.term.value());
  out.Int(meta.version);
  out.String(meta.cluster_id);
  out.Raw(EncodeMembership(meta.membership));
  return bytes;
}

absl::StatusOr<SnapshotMeta> DecodeSnapshotMeta(std::string_view bytes) {
  LittleEndianReader in(bytes);
  SnapshotMeta meta;
  meta.index = Index(in.Int<uint64_t>());
  meta.term = Term(in.Int<uint64_t>());
  meta.version = in.Int<uint32_t>();
  meta.cluster_id = in.String();
  if (!in.ok() || meta.index == Index{0} || meta.term == Term{0} || meta.version == 0) {
    return absl::InvalidArgumentError("the metadata of a snapshot is malformed");
  }
  absl::StatusOr<Membership> membership = DecodeMembership(in.rest());
  if (!membership.ok()) return membership.status();
  meta.membership = *std::move(membership);
  return meta;
}

void Follow(const Entry& entry, SnapshotMeta* meta) {
  ASSERT(entry.index == meta->index + 1, "entries are passed to Follow in order");
  ASSERT(entry.term >= meta->term);
  meta->index = entry.index;
  meta->term = entry.term;
  if (entry.index == Index{1}) {
    meta->cluster_id = entry.payload.view();
  } else if (entry.kind == EntryKind::kMembership) {
    absl::StatusOr<Membership> membership = DecodeMembership(entry.payload.view());
    ASSERT(membership.ok(), "validated when it entered the log");
    meta->membership = *std::move(membership);
  } else if (entry.kind == EntryKind::kVersion) {
    const absl::StatusOr<uint32_t> version = DecodeVersion(entry.payload.view());
    ASSERT(version.ok(), "validated when it entered the log");
    meta->version = std::max(meta->version, *version);
  }
}

Membership JoinMemberships(const Membership& from, const Membership& target) {
  ASSERT(!from.joint());
  ASSERT(!target.joint());
  Membership joint = target;
  joint.outgoing = from.voters;
  // Members that leave must still be reached. For the other members the new address is used.
  joint.addresses.insert(from.addresses.begin(), from.addresses.end());
  KeepAddressesOfMembers(&joint);
  return joint;
}

Membership LeaveJoint(const Membership& joint) {
  ASSERT(joint.joint());
  Membership final = joint;
  final.outgoing.clear();
  KeepAddressesOfMembers(&final);
  return final;
}

}  // namespace quorate::consensus
