// SPDX-License-Identifier: Apache-2.0

#include "rpc/membership/reconfiguration.h"

#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/bytes.h"
#include "base/strings.h"
#include "consensus/core/membership.h"

namespace quorate::rpc {
namespace {

void WriteText(const std::optional<std::string>& text, LittleEndianWriter& to) {
  to.Int(static_cast<uint8_t>(text.has_value()));
  if (text.has_value()) to.String(*text);
}

std::optional<std::string> ReadText(LittleEndianReader& from) {
  if (from.Int<uint8_t>() == 0) return std::nullopt;
  return std::string(from.String());
}

absl::Status Malformed(absl::string_view text, absl::string_view problem) {
  constexpr size_t kShownBytes = 200;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CHexEscape(text.substr(0, kShownBytes)), "\": ", problem));
}

bool ReadId(absl::string_view text, uint32_t* id) {
  return absl::SimpleAtoi(absl::StripAsciiWhitespace(text), id) && *id >= 1 &&
         *id <= consensus::kMemberIdMax;
}

// Takes over `entry`, server.N=LINE or N=LINE, into `*members`.
absl::Status TakeLine(absl::string_view entry, bool needs_client_port, ServerLines* members) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(entry, absl::MaxSplits('=', 1));
  absl::string_view name = absl::StripAsciiWhitespace(parts.first);
  absl::ConsumePrefix(&name, "server.");
  uint32_t id = 0;
  if (!ReadId(name, &id)) {
    return Malformed(entry,
                     "it has to be server.N=host:port:port[:role];[host:]port, N from 1 to "
                     "254");
  }
  const auto line = ParseServerLine(std::string(absl::StripAsciiWhitespace(parts.second)));
  // The text of the error is the client's, of any length and with any bytes.
  constexpr absl::string_view kForm =
      "behind the =, it has to be host:port:port[:role];[host:]port";
  if (!line.ok()) return Malformed(entry, kForm);
  if (line->election_port == 0 || (needs_client_port && line->client_port == 0)) {
    return Malformed(entry,
                     "a member that joins needs its two ports for members and, after a "
                     "semicolon, the port for clients");
  }
  // The form in which the log has it.
  const auto formatted = ParseServerLine(FormatServerLine(*line));
  if (!formatted.ok()) return Malformed(entry, kForm);
  (*members)[id] = *formatted;
  return absl::OkStatus();
}

std::string AddressOf(const ServerLine& line) {
  return absl::StrCat(InBrackets(line.host), ":", line.peer_port);
}

absl::StatusOr<ServerLines> AllMembers(const std::string& text) {
  ServerLines members;
  for (absl::string_view entry : absl::StrSplit(text, absl::ByAnyChar(",\n"))) {
    entry = absl::StripAsciiWhitespace(entry);
    // A file that ZooKeeper has written has its version in the last line.
    if (entry.empty() || absl::StartsWith(entry, "version=")) continue;
    if (absl::Status s = TakeLine(entry, /*needs_client_port=*/false, &members); !s.ok()) return s;
  }
  return members;
}

// Returns an error if a member that gets a vote takes the address of a voter that leaves: the voter
// would have to leave before anybody knows whether the new one comes up.
absl::Status CheckNoVoterIsSupplanted(const ServerLines& now, const ServerLines& goal) {
  std::map<std::string, uint32_t> leaving;
  for (const auto& [id, line] : now) {
    if (!line.observer && !goal.contains(id)) leaving.emplace(AddressOf(line), id);
  }
  for (const auto& [id, line] : goal) {
    const auto other = leaving.find(AddressOf(line));
    if (line.observer || other == leaving.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("member ", id, " would get a vote at the address of member ", other->second,
                     ", which leaves: take that one out first, and add the other then"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string Encode(const Reconfiguration& request) {
  std::string bytes;
  LittleEndianWriter writer(&bytes);
  WriteText(request.joining, writer);
  WriteText(request.leaving, writer);
  WriteText(request.new_members, writer);
  writer.Int(request.based_on);
  writer.Int(static_cast<uint32_t>(request.identities.size()));
  for (const tree::Identity& identity : request.identities) {
    writer.String(identity.scheme);
    writer.String(identity.id);
  }
  return bytes;
}

absl::StatusOr<Reconfiguration> DecodeReconfiguration(std::string_view bytes) {
  LittleEndianReader reader(bytes);
  Reconfiguration request;
  request.joining = ReadText(reader);
  request.leaving = ReadText(reader);
  request.new_members = ReadText(reader);
  request.based_on = reader.Int<int64_t>();
  const auto count = reader.Int<uint32_t>();
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    tree::Identity& identity = request.identities.emplace_back();
    identity.scheme = std::string(reader.String());
    identity.id = std::string(reader.String());
  }
  if (reader.ok() && reader.empty()) return request;
  return absl::InvalidArgumentError(
      "a reconfig that a member forwards has bytes that no server writes");
}

std::string Encode(const ReconfigurationOutcome& outcome) {
  std::string bytes;
  LittleEndianWriter writer(&bytes);
  writer.Int(static_cast<uint8_t>(outcome.is_known));
  writer.Int(static_cast<int32_t>(outcome.error));
  writer.Int(outcome.zxid.value());
  return bytes;
}

absl::StatusOr<ReconfigurationOutcome> DecodeReconfigurationOutcome(std::string_view bytes) {
  LittleEndianReader reader(bytes);
  ReconfigurationOutcome outcome;
  outcome.is_known = reader.Int<uint8_t>() != 0;
  outcome.error = static_cast<tree::ErrorCode>(reader.Int<int32_t>());
  outcome.zxid = tree::Zxid(reader.Int<int64_t>());
  if (reader.ok() && reader.empty() && outcome.zxid.value() >= 0) return outcome;
  return absl::InvalidArgumentError(
      "the leader's answer to a reconfig has bytes that no server writes");
}

absl::StatusOr<ServerLines> GoalOf(const Reconfiguration& request, const ServerLines& now,
                                   size_t participants_min) {
  ServerLines goal = now;
  if (request.new_members.has_value()) {
    auto all = AllMembers(*request.new_members);
    if (!all.ok()) return all.status();
    goal = *std::move(all);
  } else {
    for (absl::string_view text :
         absl::StrSplit(request.leaving.value_or(""), ',', absl::SkipWhitespace())) {
      int64_t id = 0;
      if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &id)) {
        return Malformed(text, "it has to be the number of a member that leaves");
      }
      // A number that no member has is ignored, as in ZooKeeper.
      if (id >= 1 && id <= consensus::kMemberIdMax) goal.erase(static_cast<uint32_t>(id));
    }
    for (absl::string_view entry :
         absl::StrSplit(request.joining.value_or(""), ',', absl::SkipWhitespace())) {
      if (absl::Status s = TakeLine(entry, /*needs_client_port=*/true, &goal); !s.ok()) return s;
    }
  }
  size_t participants = 0;
  std::map<std::string, uint32_t> by_address;
  for (const auto& [id, line] : goal) {
    if (!line.observer) ++participants;
    const auto [other, is_new] = by_address.emplace(AddressOf(line), id);
    if (is_new) continue;
    return absl::InvalidArgumentError(absl::StrCat("the members ", other->second, " and ", id,
                                                   " would have the same address, ", other->first));
  }
  if (participants < participants_min) {
    return absl::InvalidArgumentError(absl::StrCat(participants,
                                                   " participants would be left, and ",
                                                   participants_min, " are needed at least"));
  }
  if (absl::Status s = CheckNoVoterIsSupplanted(now, goal); !s.ok()) return s;
  return goal;
}

bool AreSame(const ServerLines& one, const ServerLines& other) {
  return FormatMembers(one, "") == FormatMembers(other, "");
}

MembershipStep NextStep(const ServerLines& now, const ServerLines& goal,
                        const std::function<bool(uint32_t)>& is_caught_up) {
  using Kind = MembershipStep::Kind;
  if (AreSame(now, goal)) return {Kind::kDone};
  std::map<uint32_t, ServerLine> learners;
  std::set<std::string> taken;
  for (const auto& [id, line] : goal) {
    const auto before = now.find(id);
    if (line.observer || (before != now.end() && !before->second.observer)) continue;
    ServerLine learner = line;
    learner.observer = true;
    taken.insert(AddressOf(learner));
    learners.emplace(id, std::move(learner));
  }
  ServerLines with_learners = now;
  // An observer that leaves frees its address for a member that joins.
  std::erase_if(with_learners, [&](const auto& member) {
    return !goal.contains(member.first) && taken.contains(AddressOf(member.second));
  });
  for (const auto& [id, learner] : learners) with_learners[id] = learner;
  if (!AreSame(with_learners, now)) return {Kind::kPropose, std::move(with_learners)};
  for (const auto& [id, learner] : learners) {
    if (!is_caught_up(id)) return {.kind = Kind::kWait, .waits_for = id};
  }
  return {Kind::kPropose, goal};
}

int64_t VersionOf(std::string_view text) {
  constexpr std::string_view kKey = "version=";
  const size_t at = text.rfind(kKey);
  if (at == std::string_view::npos) return 0;
  const std::string_view digits = text.substr(at + kKey.size());
  int64_t version = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), version, 16);
  return error == std::errc() && end == digits.data() + digits.size() ? version : 0;
}

}  // namespace quorate::rpc
