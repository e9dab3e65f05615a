// SPDX-License-Identifier: Apache-2.0

#include "tools/administration/member_command.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rpc/frontend/member_change.h"
#include "rpc/proto/errors.h"
#include "tools/administration/rolling_restart.h"
#include "tools/cli/cluster_client.h"

namespace quorate::tools {
namespace {

using rpc::MemberChange;
using rpc::ServerLines;
using std::chrono::steady_clock;
using Kind = MemberChange::Kind;

constexpr auto kPollInterval = std::chrono::milliseconds(100);
constexpr auto kSayInterval = std::chrono::seconds(5);
constexpr auto kRefusalPatience = std::chrono::seconds(3);
constexpr auto kSafePatience = std::chrono::seconds(2);
constexpr int kTimeoutSeconds = 300;

struct Options {
  MemberChange change;
  int timeout_seconds = kTimeoutSeconds;
};

const v1::Member* Find(const v1::MembersResponse& members, uint32_t id) {
  const auto found = std::find_if(members.members().begin(), members.members().end(),
                                  [id](const v1::Member& member) { return member.id() == id; });
  return found == members.members().end() ? nullptr : &*found;
}

// A change by a running command: it asks the leader, step by step, and waits where it has to.
class Change {
 public:
  Change(const GlobalOptions& global, const Options& options)
      : global_(global), options_(options) {}

  absl::Status Run() {
    auto servers = ParseServers(global_.servers);
    if (!servers.ok()) return servers.status();
    servers_ = *std::move(servers);
    auto access = Access::Load(global_.tls, {.file = global_.token_file}, servers_);
    if (!access.ok()) return access.status();
    access_ = *std::move(access);
    deadline_ = steady_clock::now() + std::chrono::seconds(options_.timeout_seconds);
    bool is_changed = false;
    for (;;) {
      auto done = Advance();
      if (!done.ok()) return done.status();
      if (*done) break;
      is_changed = true;
    }
    if (global_.json) {
      nlohmann::ordered_json result = {{"member", options_.change.id}, {"changed", is_changed}};
      if (options_.change.kind == Kind::kReplace) result["replacement"] = options_.change.new_id;
      std::cout << result.dump(2) << "\n";
    } else {
      std::cout << (is_changed ? "Done." : "Nothing to do: it is so already.") << "\n";
    }
    return absl::OkStatus();
  }

 private:
  // Takes one step of the change, and returns whether none is left. Waits and tries again while the
  // cluster has no leader or the step is refused for now.
  absl::StatusOr<bool> Advance() {
    for (;;) {
      std::string problem;
      auto members = AskLeader(&problem);
      if (members.has_value()) {
        if (members->reduced()) {
          return absl::PermissionDeniedError(
              "only administrators change members: use --token-file, or --cert and --key");
        }
        auto now = LinesOf(*members);
        if (!now.ok()) return now.status();
        if (members->changing()) {
          // Both the members of before and those of after are shown meanwhile.
          problem = "another change of members is in progress";
        } else {
          auto next = NextStep(options_.change, *now);
          if (!next.ok()) return next.status();
          if (*next == *now) return true;
          problem = WhyNotYet(*members, *now, *next);
          if (problem.empty()) {
            const absl::Status asked = Ask(members->membership_index(), *now, *next);
            if (asked.ok()) return false;
            if (!MayPass(asked)) return asked;
            problem = std::string(asked.message());
          }
        }
      }
      if (steady_clock::now() > deadline_) {
        return absl::DeadlineExceededError(
            absl::StrCat("not done within ", options_.timeout_seconds, " s: ", problem,
                         "; the steps taken stay, and the same command goes on from there"));
      }
      SayAtTimes(problem);
      std::this_thread::sleep_for(kPollInterval);
    }
  }

  // Returns whether a refusal may pass by itself. The leader may have changed since it was asked for
  // the members, or another change have begun; then the same refusal does not come for long.
  bool MayPass(const absl::Status& refusal) {
    if (absl::IsUnavailable(refusal) || absl::IsAborted(refusal) ||
        absl::IsDeadlineExceeded(refusal)) {
      refused_ = absl::OkStatus();
      return true;
    }
    if (!absl::IsFailedPrecondition(refusal)) return false;
    if (refusal != refused_) {
      refused_ = refusal;
      refused_since_ = steady_clock::now();
    }
    return steady_clock::now() - refused_since_ < kRefusalPatience;
  }

  // Returns what the step has to wait for; empty if it can be asked for now.
  static std::string WhyNotYet(const v1::MembersResponse& members, const ServerLines& now,
                               const ServerLines& next) {
    for (const auto& [id, line] : next) {
      const auto before = now.find(id);
      if (line.observer || before == now.end() || !before->second.observer) continue;
      const v1::Member* member = Find(members, id);
      if (member->reachable()) continue;  // the leader judges whether it has caught up
      return absl::StrCat("the leader has no connection to member ", id,
                          member->problem().empty() ? "" : ": ", member->problem());
    }
    return "";
  }

  absl::Status Ask(uint64_t membership_index, const ServerLines& now, const ServerLines& next) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    v1::ChangeMembersRequest request;
    request.set_membership_index(membership_index);
    for (const auto& [id, line] : next) {
      v1::MemberLine* member = request.add_members();
      member->set_id(id);
      member->set_server_line(rpc::FormatServerLine(line));
    }
    SayStep(now, next);
    ClusterClient client(leader_, access_);
    client.Authorize(&context);
    v1::ChangeMembersResponse response;
    return v1::FromGrpc(client.stub()->ChangeMembers(&context, request, &response));
  }

  std::optional<v1::MembersResponse> AskLeader(std::string* problem) {
    for (const std::string& server : servers_) {
      auto answer = ClusterClient(server, access_).Members();
      if (answer.ok() && answer->from_leader()) {
        leader_ = server;
        return *std::move(answer);
      }
      if (answer.ok()) {
        *problem = answer->leader() == 0
                       ? "the cluster has no leader"
                       : absl::StrCat("--server does not name the gRPC port of the leader, member ",
                                      answer->leader(), "; name those of all members");
      } else if (problem->empty()) {
        *problem = absl::StrCat(server, ": ", answer.status().message());
      }
    }
    return std::nullopt;
  }

  void SayStep(const ServerLines& now, const ServerLines& next) {
    const bool is_replaced = options_.change.kind == Kind::kReplace;
    const uint32_t id = is_replaced ? options_.change.new_id : options_.change.id;
    const auto line = next.find(id);
    const std::string text =
        is_replaced && next.size() < now.size()
            ? absl::StrCat("giving member ", id, " the place of member ", options_.change.id,
                           ", which leaves")
        : line == next.end() ? absl::StrCat("removing member ", id)
        : now.count(id) == 0
            ? absl::StrCat("adding member ", id, " as an observer, which has ", "no vote")
        : line->second.observer ? absl::StrCat("making member ", id, " an observer")
        : now.at(id).observer
            ? absl::StrCat("giving member ", id, " a vote")
            : absl::StrCat("moving member ", id, " to ", rpc::FormatServerLine(line->second));
    if (std::exchange(said_, text) != text) std::cerr << text << std::endl;
  }

  void SayAtTimes(const std::string& problem) {
    if (steady_clock::now() < say_at_) return;
    say_at_ = steady_clock::now() + kSayInterval;
    std::cerr << "waiting: " << problem << std::endl;
  }

  const GlobalOptions& global_;
  const Options& options_;
  std::vector<std::string> servers_;
  Access access_;
  std::string leader_;
  std::string said_;
  steady_clock::time_point say_at_;
  steady_clock::time_point deadline_;
  // The latest refusal that may not pass by itself, and since when it has been the same.
  absl::Status refused_;
  steady_clock::time_point refused_since_;
};

// Sets the new member of `change` as `with`, [N=]LINE, says.
absl::Status ParseReplacement(const std::string& with, MemberChange* change) {
  const size_t end = with.find('=');
  if (end == std::string::npos) {
    change->kind = Kind::kMove;
    change->server_line = with;
    return absl::OkStatus();
  }
  change->server_line = with.substr(end + 1);
  if (!absl::SimpleAtoi(with.substr(0, end), &change->new_id) || change->new_id < 1 ||
      change->new_id > 254) {
    return absl::InvalidArgumentError(
        absl::StrCat("--with ", with, ": the number of a member is 1 to 254"));
  }
  if (change->new_id == change->id) {
    return absl::InvalidArgumentError(
        absl::StrCat("--with ", with, ": leave out the number if the new machine keeps it"));
  }
  return absl::OkStatus();
}

const char* ChangeStateName(v1::MemberChangeState state) {
  switch (state) {
    case v1::MEMBER_CHANGE_STATE_RUNNING:
      return "running";
    case v1::MEMBER_CHANGE_STATE_DONE:
      return "done";
    case v1::MEMBER_CHANGE_STATE_FAILED:
      return "failed";
    default:
      return "none";
  }
}

absl::Status CheckSafeToStop(const GlobalOptions& global, uint32_t id) {
  auto servers = ParseServers(global.servers);
  if (!servers.ok()) return servers.status();
  auto access = Access::Load(global.tls, {.file = global.token_file}, *servers);
  if (!access.ok()) return access.status();
  // Polls, because under load a follower is usually a few entries behind.
  const auto deadline = steady_clock::now() + kSafePatience;
  for (;;) {
    absl::Status safe = absl::UnavailableError(
        "no leader answered, so it is not known; name the gRPC ports of all members with --server");
    for (const std::string& server : *servers) {
      auto members = ClusterClient(server, *access).Members();
      if (!members.ok() || !members->from_leader()) continue;
      if (Find(*members, id) == nullptr) {
        return absl::NotFoundError(absl::StrCat("there is no member ", id));
      }
      safe = CheckRestartIsSafe(*members, id);
      break;
    }
    if (safe.ok()) {
      if (global.json) {
        std::cout << nlohmann::ordered_json{{"member", id}, {"safe", true}}.dump(2) << "\n";
      } else {
        std::cout << "Safe: the others keep a majority without member " << id << ".\n";
      }
      return safe;
    }
    if (steady_clock::now() > deadline) return safe;
    std::this_thread::sleep_for(kPollInterval);
  }
}

absl::Status ReportChange(const GlobalOptions& global) {
  auto servers = ParseServers(global.servers);
  if (!servers.ok()) return servers.status();
  auto access = Access::Load(global.tls, {.file = global.token_file}, *servers);
  if (!access.ok()) return access.status();
  for (const std::string& server : *servers) {
    const auto members = ClusterClient(server, *access).Members();
    if (!members.ok()) continue;
    // A leader that waits for new voters since it was elected is not established yet, but knows of the change.
    const bool is_running = members->change().state() == v1::MEMBER_CHANGE_STATE_RUNNING;
    if (!members->from_leader() && !is_running) continue;
    if (members->reduced()) {
      return absl::PermissionDeniedError(
          "only administrators see changes of members: use --token-file, or --cert and --key");
    }
    if (!members->has_change()) {
      return absl::UnimplementedError(
          "the leader runs an earlier version, which does not tell; upgrade it");
    }
    if (!global.json) {
      std::cout << ChangeReport(members->change());
      return absl::OkStatus();
    }
    std::cout << nlohmann::ordered_json{{"state", ChangeStateName(members->change().state())},
                                        {"what", members->change().what()},
                                        {"detail", members->change().detail()}}
                     .dump(2)
              << "\n";
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      "no leader answered, so it is not known; name the gRPC ports of all members with --server");
}

void AddReplaceCommand(CommandLine* command_line, CLI::App* parent) {
  auto options = std::make_shared<Options>();
  auto with = std::make_shared<std::string>();
  options->change.kind = Kind::kReplace;
  CLI::App* command = command_line->Add(
      parent, "replace", "Put a new member in the place of one, which may be dead",
      [command_line, options, with]() -> absl::Status {
        if (absl::Status s = ParseReplacement(*with, &options->change); !s.ok()) return s;
        return Change(command_line->global(), *options).Run();
      });
  command->add_option("ID", options->change.id, "Number of the member that leaves")
      ->required()
      ->check(CLI::Range(1, 254));
  command
      ->add_option(
          "--with", *with,
          "Number and addresses of the new member, as its server.N line: "
          "N=host:peerPort:electionPort[;[clientHost:]clientPort]. Without N=, the new machine "
          "takes the number, as with `member move`")
      ->required();
  command->add_option("--timeout", options->timeout_seconds, "Seconds that it may take")
      ->default_val(kTimeoutSeconds)
      ->check(CLI::Range(1, 86400));
  command->footer(
      "Start the new member first, as for `member add`. It is filled, and then gets the vote in "
      "the\n"
      "same step in which the other member leaves, so that the number of voters stays.");
}

CLI::App* AddChange(CommandLine* command_line, CLI::App* parent, const char* name, const char* what,
                    Kind kind) {
  auto options = std::make_shared<Options>();
  options->change.kind = kind;
  CLI::App* command = command_line->Add(parent, name, what, [command_line, options] {
    return Change(command_line->global(), *options).Run();
  });
  command->add_option("ID", options->change.id, "Number of the member, as in its file myid")
      ->required()
      ->check(CLI::Range(1, 254));
  if (kind == Kind::kAdd || kind == Kind::kMove) {
    command
        ->add_option("LINE", options->change.server_line,
                     "Its addresses, as in a server.N line: "
                     "host:peerPort:electionPort[:observer][;[clientHost:]clientPort]")
        ->required();
  }
  command->add_option("--timeout", options->timeout_seconds, "Seconds that it may take")
      ->default_val(kTimeoutSeconds)
      ->check(CLI::Range(1, 86400));
  return command;
}

}  // namespace

absl::StatusOr<ServerLines> LinesOf(const v1::MembersResponse& members) {
  ServerLines lines;
  for (const v1::Member& member : members.members()) {
    auto line = rpc::ParseServerLine(member.server_line());
    if (!line.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the leader does not know the addresses of member ", member.id(),
                       "; add its server.N line to the leader's configuration"));
    }
    lines[member.id()] = *std::move(line);
  }
  return lines;
}

std::string ChangeReport(const v1::MemberChange& change) {
  const std::string what = change.what().empty() ? "nothing changes" : change.what();
  switch (change.state()) {
    case v1::MEMBER_CHANGE_STATE_RUNNING:
      return absl::StrCat(
          "Running: ", what, ".\n",
          change.detail().empty() ? "" : absl::StrCat("Waits: ", change.detail(), ".\n"));
    case v1::MEMBER_CHANGE_STATE_DONE:
      return absl::StrCat("Done: ", what, ".\n");
    case v1::MEMBER_CHANGE_STATE_FAILED:
      return absl::StrCat("Failed: ", what, ".\nWhy: ", change.detail(), ".\n");
    default:
      return "No change of the members was begun since this leader leads.\n";
  }
}

void AddMemberCommands(CommandLine* command_line) {
  CLI::App* group = command_line->AddGroup("member", "Change the members of the cluster");
  AddChange(command_line, group, "add", "Add a member, and give it a vote once it has caught up",
            Kind::kAdd)
      ->footer(
          "Start the new member first, with an empty data directory and a configuration that has\n"
          "the server.N lines of all members and its own. With :observer in the line it stays\n"
          "without a vote. A command that was broken off can be given again.");
  AddChange(command_line, group, "remove", "Remove a member, whose process ends then",
            Kind::kRemove);
  AddReplaceCommand(command_line, group);
  AddChange(command_line, group, "promote", "Give an observer a vote, once it has caught up",
            Kind::kPromote);
  AddChange(command_line, group, "demote", "Take the vote from a member, which stays an observer",
            Kind::kDemote);
  AddChange(command_line, group, "move",
            "Change the addresses of a member, also to replace a dead one by a new machine",
            Kind::kMove)
      ->footer(
          "The member at the new address has the same number. It may have an empty data "
          "directory:\n"
          "then it is filled by the others, and does not count before it has caught up.");
  command_line
      ->Add(group, "status", "Tell how far the last change of the members is",
            [command_line] { return ReportChange(command_line->global()); })
      ->footer(
          "Running, with what it waits for; done; or failed, with the reason, as the leader knows "
          "it\n"
          "since it leads. `quorate member` takes several steps, and each of them is a change.");
  auto id = std::make_shared<uint32_t>(0);
  CLI::App* safe = command_line->Add(
      group, "safe-to-stop", "Tell whether a member can be stopped now",
      [command_line, id] { return CheckSafeToStop(command_line->global(), *id); });
  safe->add_option("ID", *id, "Number of the member")->required()->check(CLI::Range(1, 254));
  safe->footer("Exit status: 0 if the others keep a majority that has caught up, else 1.");
}

}  // namespace quorate::tools
