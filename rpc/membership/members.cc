// SPDX-License-Identifier: Apache-2.0

#include "rpc/membership/members.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

bool IsWildcard(const std::string& host) {
  boost::system::error_code is_name;
  const auto address = boost::asio::ip::make_address(host, is_name);
  return !is_name && address.is_unspecified();
}

// Returns why other members cannot use the host; empty if they can.
std::string ProblemOfHost(const ServerLine& line) {
  const auto is_allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_' ||
           c == ':' || c == '%';
  };
  if (IsWildcard(line.host)) {
    return "other members cannot reach it there; its server.N line in the configuration of the "
           "leader, or the line that was given, has to name its own host or address";
  }
  if (!std::all_of(line.host.begin(), line.host.end(), is_allowed) ||
      !std::all_of(line.client_host.begin(), line.client_host.end(), is_allowed)) {
    return "its host has characters that no name or address has";
  }
  const auto again = ParseServerLine(FormatServerLine(line));
  return again.ok() && again->host == line.host ? "" : "its host is neither a name nor an address";
}

absl::Status CheckLines(const ServerLines& members) {
  std::map<std::string, uint32_t> by_address;
  for (const auto& [id, line] : members) {
    if (const std::string problem = ProblemOfHost(line); !problem.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "server.", id, "=", absl::CHexEscape(FormatServerLine(line)), ": ", problem));
    }
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

std::string ChangeText(const ServerLines& now, const ServerLines& next) {
  std::vector<std::string> parts;
  for (const auto& [id, line] : next) {
    const std::string member = absl::StrCat("member ", id);
    const auto before = now.find(id);
    if (before == now.end()) {
      parts.push_back(absl::StrCat(member, " is added", line.observer ? " as an observer" : ""));
      continue;
    }
    if (line.observer != before->second.observer) {
      parts.push_back(
          absl::StrCat(member, line.observer ? " becomes an observer" : " gets a vote"));
    }
    ServerLine moved = before->second;
    moved.observer = line.observer;
    if (FormatServerLine(moved) != FormatServerLine(line)) {
      parts.push_back(absl::StrCat(member, " moves to ", FormatServerLine(line)));
    }
  }
  for (const auto& [id, line] : now) {
    if (!next.contains(id)) parts.push_back(absl::StrCat("member ", id, " is removed"));
  }
  return absl::StrJoin(parts, ", ");
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
