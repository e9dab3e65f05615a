// SPDX-License-Identifier: Apache-2.0

#include "rpc/membership/members.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/strings.h"
#include "consensus/core/membership.h"

namespace quorate::rpc {
namespace {

using consensus::MemberId;
using consensus::Membership;

std::string PeerAddressOf(const ServerLine& line) {
  return absl::StrCat(InBrackets(line.host), ":", line.peer_port);
}

absl::Status CheckLines(const ServerLines& members) {
  std::map<std::string, uint32_t> by_address;
  for (const auto& [id, line] : members) {
    if (line.peer_port == 0 || line.election_port == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("server.", id, "=", FormatServerLine(line),
                       ": a member needs two ports for the other members, host:port:port"));
    }
    if (line.peer_port == line.election_port) {
      return absl::InvalidArgumentError(absl::StrCat("server.", id, "=", FormatServerLine(line),
                                                     ": its two ports must not be the same"));
    }
    const auto [other, is_new] = by_address.emplace(PeerAddressOf(line), id);
    if (!is_new) {
      return absl::InvalidArgumentError(absl::StrCat("the members ", other->second, " and ", id,
                                                     " have the same address, ", other->first));
    }
  }
  return absl::OkStatus();
}

}  // namespace

ServerLines MembersOf(const Membership& membership, const ServerLines& configured) {
  ServerLines members;
  for (const MemberId id : membership.Members()) {
    const auto address = membership.addresses.find(id);
    std::optional<ServerLine> line;
    if (address != membership.addresses.end()) {
      const auto parsed = ParseServerLine(address->second);
      if (parsed.ok()) line = *parsed;
    } else if (const auto own = configured.find(id.value()); own != configured.end()) {
      line = own->second;
    }
    if (!line.has_value()) continue;
    line->observer = !membership.IsVoter(id);
    members[id.value()] = *std::move(line);
  }
  return members;
}

absl::StatusOr<Membership> MembershipOf(const ServerLines& members) {
  if (absl::Status s = CheckLines(members); !s.ok()) return s;
  Membership membership;
  for (const auto& [id, line] : members) {
    (line.observer ? membership.learners : membership.voters).emplace_back(id);
    membership.addresses[MemberId(id)] = FormatServerLine(line);
  }
  if (membership.voters.empty()) {
    return absl::InvalidArgumentError("no member would have a vote; keep at least one");
  }
  if (absl::Status s = consensus::ValidateMembership(membership); !s.ok()) return s;
  return membership;
}

void ApplyControl(consensus::EntryKind kind, std::string_view payload, tree::Zxid zxid,
                  tree::Tree* tree, tree::ApplyListener* listener) {
  if (kind != consensus::EntryKind::kMembership) return tree->Skip(zxid);
  const absl::StatusOr<Membership> membership = consensus::DecodeMembership(payload);
  ASSERT(membership.ok(), "validated when it entered the log");
  if (membership->joint() || membership->addresses.empty()) return tree->Skip(zxid);
  const std::string version = absl::StrCat(absl::Hex(zxid.value()));
  tree->SetConfig(zxid, FormatMembers(MembersOf(*membership, {}), version), listener);
}

}  // namespace quorate::rpc
