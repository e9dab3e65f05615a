// SPDX-License-Identifier: Apache-2.0

#include "tools/administration/status.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/escape.h"
#include "base/strings.h"
#include "tools/cli/cluster_client.h"
#include "tools/cli/text.h"

namespace quorate::tools {
namespace {

using nlohmann::ordered_json;

// The exit status if the cluster serves, but at least one of the queried servers does not.
constexpr int kDegradedExitStatus = 3;

constexpr char kReduced[] =
    "Sizes and addresses are for administrators: use --token-file, or --cert and --key.\n";

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }
std::string OrDash(uint64_t number) { return number == 0 ? "-" : absl::StrCat(number); }

ordered_json ToJson(const StatusAnswer& answer) {
  ordered_json json = {{"server", answer.address}};
  if (!answer.status.ok()) {
    json["error"] = std::string(answer.status.status().message());
    return json;
  }
  const v1::StatusResponse& status = *answer.status;
  json["member"] = status.member();
  json["role"] = RoleName(status.role());
  json["serving"] = status.serving();
  json["leader"] = status.leader();
  json["term"] = status.term();
  json["commit_index"] = status.commit_index();
  json["applied_index"] = status.applied_index();
  json["zxid"] = Hex(static_cast<uint64_t>(status.zxid()));
  json["sessions"] = status.sessions();
  json["nodes"] = status.nodes();
  json["reduced"] = status.reduced();
  if (!status.reduced()) {
    json["digest"] = Hex(status.digest());
    json["data_bytes"] = status.data_bytes();
    json["disk_used_bytes"] = status.disk_used_bytes();
    json["disk_free_bytes"] = status.disk_free_bytes();
    json["checkpoint_zxid"] = Hex(static_cast<uint64_t>(status.checkpoint_zxid()));
    json["cluster_id"] = HexBytes(status.cluster_id());
  }
  json["version"] = status.version();
  json["cluster_version"] = status.cluster_version();
  json["newest_version"] = status.newest_version();
  json["program_version"] = status.program_version();
  if (status.role() == v1::ROLE_LEADER) json["held_back_by"] = status.held_back_by();
  json["uptime_ms"] = UptimeMsOf(status);
  return json;
}

// Returns the members whose configuration keeps the version that they announce below that of their
// program, as a sentence each.
std::string KeptByConfiguration(const std::vector<StatusAnswer>& answers,
                                const std::set<uint32_t>& behind) {
  std::string text;
  for (const StatusAnswer& answer : answers) {
    if (!answer.status.ok() || !behind.contains(answer.status->member())) continue;
    if (answer.status->program_version() <= answer.status->newest_version()) continue;
    absl::StrAppend(&text, " Member ", answer.status->member(), " is kept at version ",
                    answer.status->newest_version(), " by clusterVersionMax.");
  }
  return text;
}

// Returns a line about the cluster version, and about the members that keep it where it is. A program
// that is older than the field counts as one that understands version 0. Empty if all of them are.
std::string ClusterVersionLine(const std::vector<StatusAnswer>& answers) {
  uint32_t cluster_version = 0;
  uint32_t newest = 0;
  for (const StatusAnswer& answer : answers) {
    if (!answer.status.ok()) continue;
    cluster_version = std::max(cluster_version, answer.status->cluster_version());
    newest = std::max(newest, answer.status->newest_version());
  }
  if (newest == 0) return "";
  std::string line = absl::StrCat("The cluster version is ", cluster_version);
  if (cluster_version >= newest) return line + ".\n";
  std::set<uint32_t> behind;
  for (const StatusAnswer& answer : answers) {
    if (!answer.status.ok()) continue;
    if (answer.status->newest_version() < newest) behind.insert(answer.status->member());
    // Of a leader that is behind itself, it is not the list for `newest`.
    if (answer.status->newest_version() < newest) continue;
    behind.insert(answer.status->held_back_by().begin(), answer.status->held_back_by().end());
  }
  if (behind.empty()) {
    return absl::StrCat(line, "; version ", newest,
                        " waits until the leader knows that every member understands it.\n");
  }
  return absl::StrCat(line, "; version ", newest, " waits until it is understood by member ",
                      absl::StrJoin(behind, ", "), ".", KeptByConfiguration(answers, behind), "\n");
}

std::string ToTable(const std::vector<StatusAnswer>& answers) {
  std::vector<std::vector<std::string>> rows = {{"SERVER", "MEMBER", "ROLE", "SERVING", "TERM",
                                                 "ZXID", "SESSIONS", "NODES", "DATA", "DISK",
                                                 "FREE", "VERSION", "UPTIME"}};
  std::string problems;
  bool is_reduced = false;
  for (const StatusAnswer& answer : answers) {
    if (!answer.status.ok()) {
      rows.push_back({answer.address, "-", "no answer"});
      absl::StrAppend(&problems, answer.address, ": ",
                      EscapeLine(ToStd(answer.status.status().message())), "\n");
      continue;
    }
    const v1::StatusResponse& status = *answer.status;
    rows.push_back({answer.address, absl::StrCat(status.member()), RoleName(status.role()),
                    status.serving() ? "yes" : "no", absl::StrCat(status.term()),
                    Hex(static_cast<uint64_t>(status.zxid())), absl::StrCat(status.sessions()),
                    absl::StrCat(status.nodes()),
                    status.reduced() ? "-" : Bytes(status.data_bytes()),
                    status.reduced() ? "-" : Bytes(status.disk_used_bytes()),
                    status.reduced() ? "-" : Bytes(status.disk_free_bytes()), status.version(),
                    Duration(UptimeMsOf(status))});
    is_reduced = is_reduced || status.reduced();
  }
  return Table(rows) + ClusterVersionLine(answers) + (is_reduced ? kReduced : "") + problems;
}

// The combined health of the queried servers: how many serve, and whether one of them knows a
// leader.
struct Health {
  size_t answered = 0;
  size_t serving = 0;
  bool has_leader = false;
};

Health HealthOf(const std::vector<StatusAnswer>& answers) {
  Health health;
  for (const StatusAnswer& answer : answers) {
    if (!answer.status.ok()) continue;
    ++health.answered;
    if (answer.status->serving()) ++health.serving;
    if (answer.status->leader() != 0) health.has_leader = true;
  }
  return health;
}

absl::Status RunStatus(CommandLine* command_line) {
  const GlobalOptions& options = command_line->global();
  auto servers = ParseServers(options.servers);
  if (!servers.ok()) return servers.status();
  auto access = Access::Load(options.tls, {.file = options.token_file}, *servers);
  if (!access.ok()) return access.status();
  const std::vector<StatusAnswer> answers = AskAll(*servers, *access);
  const Health health = HealthOf(answers);
  if (options.json) {
    ordered_json json = ordered_json::array();
    for (const StatusAnswer& answer : answers) json.push_back(ToJson(answer));
    std::cout << ordered_json{{"servers", std::move(json)}}.dump(
                     2, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace)
              << "\n";
  } else {
    std::cout << ToTable(answers);
  }
  if (health.answered == 0) {
    return absl::UnavailableError(
        "none of the servers answered; does --server name their gRPC ports?");
  }
  if (!health.has_leader) {
    return absl::UnavailableError(
        "the cluster has no leader: none of the servers that answered knows one, and no client can "
        "write; start the servers that do not answer, and read in the logs of the others what they "
        "wait for");
  }
  if (health.serving < answers.size()) command_line->SetExitStatus(kDegradedExitStatus);
  return absl::OkStatus();
}

// Returns the leader's answer, or that of the first member that answers if no leader does.
absl::StatusOr<v1::MembersResponse> AskForMembers(const std::vector<std::string>& servers,
                                                  const Access& access) {
  std::optional<v1::MembersResponse> best;
  std::string problems;
  for (const std::string& server : servers) {
    auto answer = ClusterClient(server, access).Members();
    if (!answer.ok()) {
      absl::StrAppend(&problems, "; ", server, ": ", answer.status().message());
    } else if (!best.has_value() || answer->from_leader()) {
      best = *std::move(answer);
      if (best->from_leader()) break;
    }
  }
  if (best.has_value()) return *std::move(best);
  return absl::UnavailableError(absl::StrCat("none of the servers answered", problems));
}

ordered_json ToJson(const v1::MembersResponse& response) {
  ordered_json members = ordered_json::array();
  for (const v1::Member& member : response.members()) {
    ordered_json json = {{"id", member.id()},
                         {"role", RoleName(member.role())},
                         {"peer_address", member.peer_address()},
                         {"client_address", member.client_address()},
                         {"reachable", member.reachable()}};
    if (!member.problem().empty()) json["problem"] = member.problem();
    if (response.from_leader()) {
      json["in_sync"] = member.in_sync();
      json["match_index"] = member.match_index();
    }
    members.push_back(std::move(json));
  }
  return {{"from_leader", response.from_leader()}, {"answered_by", response.answered_by()},
          {"leader", response.leader()},           {"term", response.term()},
          {"changing", response.changing()},       {"reduced", response.reduced()},
          {"members", std::move(members)}};
}

std::string ToTable(const v1::MembersResponse& response) {
  std::vector<std::vector<std::string>> rows = {
      {"MEMBER", "ROLE", "PEERS", "CLIENTS", "REACHABLE", "IN SYNC", "LOG UP TO"}};
  for (const v1::Member& member : response.members()) {
    rows.push_back({absl::StrCat(member.id()), RoleName(member.role()),
                    OrDash(member.peer_address()), OrDash(member.client_address()),
                    member.reachable() ? "yes" : "no",
                    !response.from_leader() ? "-"
                    : member.in_sync()      ? "yes"
                                            : "no",
                    OrDash(member.match_index())});
  }
  std::string text = Table(rows);
  if (response.reduced()) text += kReduced;
  for (const v1::Member& member : response.members()) {
    if (member.problem().empty()) continue;
    absl::StrAppend(&text, "Member ", response.answered_by(), " has no connection to member ",
                    member.id(), ": ", member.problem(), ".\n");
  }
  if (response.changing()) text += "A change of voters is under way.\n";
  if (!response.from_leader()) {
    absl::StrAppend(&text, "This is what member ", response.answered_by(), " knows by itself: ",
                    response.leader() == 0 ? "it has no leader"
                                           : "the leader "
                                             "was not asked; name all members with --server",
                    ".\n");
  }
  return text;
}

absl::Status RunMembers(const GlobalOptions& options) {
  auto servers = ParseServers(options.servers);
  if (!servers.ok()) return servers.status();
  auto access = Access::Load(options.tls, {.file = options.token_file}, *servers);
  if (!access.ok()) return access.status();
  auto response = AskForMembers(*servers, *access);
  if (!response.ok()) return response.status();
  if (options.json) {
    std::cout << ToJson(*response).dump(2) << "\n";
  } else {
    std::cout << ToTable(*response);
  }
  return absl::OkStatus();
}

}  // namespace

void AddStatusCommands(CommandLine* command_line) {
  command_line
      ->Add(command_line->root(), "status", "Show the state of each server that --server names",
            [command_line] { return RunStatus(command_line); })
      ->footer(
          "Exit status: 0 if the cluster has a leader and all servers asked serve, 3 if it has a\n"
          "leader but a server asked does not serve or answer, 1 if it has no leader or none of "
          "the\n"
          "servers answers, 2 for bad usage.");
  command_line->Add(command_line->root(), "members",
                    "Show the members of the cluster, as its leader sees them",
                    [command_line] { return RunMembers(command_line->global()); });
}

}  // namespace quorate::tools
