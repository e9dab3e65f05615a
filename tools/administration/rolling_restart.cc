// SPDX-License-Identifier: Apache-2.0

#include "tools/administration/rolling_restart.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/proto/errors.h"
#include "tools/cli/cluster_client.h"

namespace quorate::tools {
namespace {

using std::chrono::steady_clock;

constexpr auto kPollInterval = std::chrono::milliseconds(200);
constexpr auto kSyncPollInterval = std::chrono::milliseconds(20);
constexpr auto kFirstCheck = std::chrono::milliseconds(3000);
constexpr int kTimeoutSeconds = 300;

struct Options {
  std::string command;
  int timeout_seconds = kTimeoutSeconds;
  bool dry_run = false;
};

bool IsVoter(const v1::Member& member) { return member.role() != v1::ROLE_OBSERVER; }

class RollingRestart {
 public:
  RollingRestart(const GlobalOptions& global, const Options& options)
      : global_(global), options_(options) {}

  absl::Status Run() {
    auto servers = ParseServers(global_.servers);
    if (!servers.ok()) return servers.status();
    if (options_.command.empty() && !options_.dry_run) {
      return absl::InvalidArgumentError(
          "--command is missing: the shell command that restarts one server, for example "
          "--command 'ssh $(echo $QUORATE_SERVER | cut -d: -f1) systemctl restart quorate'; "
          "--dry-run shows the steps, to restart the servers in another way");
    }
    auto access = Access::Load(global_.tls, {.file = global_.token_file}, *servers);
    if (!access.ok()) return access.status();
    access_ = *std::move(access);
    if (absl::Status s = FindMembers(*servers); !s.ok()) return s;
    auto members = AskLeader();
    if (!members.ok()) return members.status();
    const std::vector<uint32_t> order = RestartOrder(*members);
    for (const v1::Member& member : members->members()) {
      if (addresses_.count(member.id()) == 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            "--server does not name member ", member.id(),
            " of this cluster, or it does not answer: name all members by their gRPC ports"));
      }
    }
    for (const uint32_t id : order) {
      if (absl::Status s = WaitUntilSafe(id, kFirstCheck); !s.ok()) return s;
    }
    if (options_.dry_run) {
      ShowSteps(order);
      return absl::OkStatus();
    }
    for (size_t i = 0; i < order.size(); ++i) {
      if (absl::Status s = RestartMember(order[i]); !s.ok()) {
        return absl::Status(s.code(), absl::StrCat(s.message(), "; restarted before: ",
                                                   i == 0 ? "none" : List(order, 0, i),
                                                   "; not touched: ", List(order, i + 1)));
      }
    }
    if (global_.json) {
      std::cout << nlohmann::ordered_json{{"restarted", order}}.dump(2) << "\n";
    } else {
      std::cout << "All " << order.size() << " servers were restarted.\n";
    }
    return absl::OkStatus();
  }

 private:
  static std::string List(const std::vector<uint32_t>& order, size_t first,
                          size_t end = std::string::npos) {
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(std::min(first, order.size()));
    const auto to = order.begin() + static_cast<std::ptrdiff_t>(std::min(end, order.size()));
    return begin >= to ? "none" : absl::StrJoin(begin, to, ", ");
  }

  void Say(const std::string& text) const { std::cerr << text << std::endl; }

  absl::Status FindMembers(const std::vector<std::string>& servers) {
    std::string problems;
    for (const StatusAnswer& answer : AskAll(servers, access_)) {
      if (answer.status.ok()) {
        addresses_[answer.status->member()] = answer.address;
      } else {
        absl::StrAppend(&problems, "; ", answer.address, ": ", answer.status.status().message());
      }
    }
    if (addresses_.size() == servers.size()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("not all servers answer, so none is restarted", problems));
  }

  // Returns the leader's view of the members. Waits for a leader during an election.
  absl::StatusOr<v1::MembersResponse> AskLeader() {
    const auto deadline = Deadline();
    for (;;) {
      for (const auto& [id, address] : addresses_) {
        auto answer = ClusterClient(address, access_).Members();
        if (answer.ok() && answer->from_leader()) return answer;
      }
      if (steady_clock::now() > deadline) {
        return absl::UnavailableError("the cluster has no leader");
      }
      std::this_thread::sleep_for(kPollInterval);
    }
  }

  steady_clock::time_point Deadline() const {
    return steady_clock::now() + std::chrono::seconds(options_.timeout_seconds);
  }

  absl::Status RestartMember(uint32_t id) {
    if (absl::Status s = WaitUntilSafe(id, std::chrono::seconds(options_.timeout_seconds));
        !s.ok()) {
      return s;
    }
    auto members = AskLeader();
    if (!members.ok()) return members.status();
    if (members->leader() == id) {
      if (absl::Status s = HandLeadershipOver(id); !s.ok()) return s;
    }
    Say(absl::StrCat("restarting member ", id, " at ", addresses_.at(id)));
    const auto begin = steady_clock::now();
    if (absl::Status s = RunCommand(id); !s.ok()) return s;
    return WaitUntilBack(id, begin);
  }

  // Polls, because under load a follower is usually a few entries behind, so one answer proves
  // little.
  absl::Status WaitUntilSafe(uint32_t id, std::chrono::milliseconds patience) {
    const auto deadline = steady_clock::now() + patience;
    for (;;) {
      auto members = AskLeader();
      if (!members.ok()) return members.status();
      absl::Status safe = CheckRestartIsSafe(*members, id);
      if (safe.ok() || steady_clock::now() > deadline) return safe;
      std::this_thread::sleep_for(kSyncPollInterval);
    }
  }

  absl::Status HandLeadershipOver(uint32_t id) {
    Say(absl::StrCat("member ", id, " leads: transferring leadership to another member"));
    const auto deadline = Deadline();
    for (;;) {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(3));
      v1::TransferLeadershipResponse response;
      ClusterClient client(addresses_.at(id), access_);
      client.Authorize(&context);
      const grpc::Status asked = client.stub()->TransferLeadership(&context, {}, &response);
      const absl::Status refused = v1::FromGrpc(asked);
      if (absl::IsPermissionDenied(refused) || absl::IsUnauthenticated(refused)) return refused;
      const auto retry = std::min(deadline, steady_clock::now() + std::chrono::seconds(2));
      do {
        auto members = AskLeader();
        if (members.ok() && members->leader() != id) return absl::OkStatus();
        std::this_thread::sleep_for(kPollInterval);
      } while (steady_clock::now() < retry);
      if (steady_clock::now() >= deadline) {
        return absl::UnavailableError(absl::StrCat(
            "member ", id, " did not hand leadership over within ", options_.timeout_seconds, " s",
            asked.ok() ? "" : absl::StrCat(": ", v1::FromGrpc(asked).message())));
      }
    }
  }

  absl::Status RunCommand(uint32_t id) {
    const pid_t child = fork();
    if (child < 0) return absl::ErrnoToStatus(errno, "cannot start the command");
    if (child == 0) {
      setenv("QUORATE_MEMBER", absl::StrCat(id).c_str(), 1);
      setenv("QUORATE_SERVER", addresses_.at(id).c_str(), 1);
      dup2(STDERR_FILENO, STDOUT_FILENO);
      execl("/bin/sh", "sh", "-c", options_.command.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
    return absl::UnavailableError(
        absl::StrCat("the command for member ", id, " failed with ",
                     WIFEXITED(status) ? absl::StrCat("exit status ", WEXITSTATUS(status))
                                       : absl::StrCat("signal ", WTERMSIG(status))));
  }

  // Waits until a process that was started after `begin` serves, and is in sync according to the
  // leader.
  absl::Status WaitUntilBack(uint32_t id, steady_clock::time_point begin) {
    const auto deadline = Deadline();
    std::string waits_for;
    for (;;) {
      auto status = ClusterClient(addresses_.at(id), access_).Status();
      const auto elapsed = steady_clock::now() - begin;
      if (!status.ok()) {
        waits_for = absl::StrCat("it does not answer: ", status.status().message());
      } else if (std::chrono::milliseconds(UptimeMsOf(*status)) > elapsed) {
        waits_for = "the old process still runs: the command did not restart it";
      } else if (!status->serving()) {
        waits_for = "it does not serve yet";
      } else if (!IsInSync(id)) {
        waits_for = "it has not caught up with the leader yet";
      } else {
        Say(absl::StrCat("member ", id, " serves and is in sync"));
        return absl::OkStatus();
      }
      if (steady_clock::now() > deadline) {
        return absl::DeadlineExceededError(absl::StrCat("member ", id, " did not come back within ",
                                                        options_.timeout_seconds,
                                                        " s: ", waits_for));
      }
      std::this_thread::sleep_for(kPollInterval);
    }
  }

  bool IsInSync(uint32_t id) {
    auto members = AskLeader();
    if (!members.ok()) return false;
    return std::any_of(members->members().begin(), members->members().end(),
                       [id](const v1::Member& m) { return m.id() == id && m.in_sync(); });
  }

  void ShowSteps(const std::vector<uint32_t>& order) const {
    if (global_.json) {
      std::cout << nlohmann::ordered_json{{"order", order}}.dump(2) << "\n";
      return;
    }
    for (size_t i = 0; i < order.size(); ++i) {
      std::cout << i + 1 << ". ";
      if (i + 1 == order.size() && order.size() > 1) {
        std::cout << "hand leadership of member " << order[i] << " over, then ";
      }
      std::cout << "restart member " << order[i] << " (" << addresses_.at(order[i])
                << "), and wait until `quorate members` shows it as reachable and in sync\n";
    }
  }

  const GlobalOptions& global_;
  Access access_;
  const Options& options_;
  std::map<uint32_t, std::string> addresses_;  // the gRPC address of each member, by number
};

}  // namespace

std::vector<uint32_t> RestartOrder(const v1::MembersResponse& members) {
  std::vector<uint32_t> observers, followers, order;
  for (const v1::Member& member : members.members()) {
    if (member.id() == members.leader()) continue;
    (IsVoter(member) ? followers : observers).push_back(member.id());
  }
  std::sort(observers.begin(), observers.end());
  std::sort(followers.begin(), followers.end());
  order = observers;
  order.insert(order.end(), followers.begin(), followers.end());
  order.push_back(members.leader());
  return order;
}

absl::Status CheckRestartIsSafe(const v1::MembersResponse& members, uint32_t member) {
  size_t voters = 0, healthy = 0;
  std::vector<std::string> missing;
  for (const v1::Member& other : members.members()) {
    if (!IsVoter(other)) {
      if (other.id() == member) return absl::OkStatus();  // no majority depends on an observer
      continue;
    }
    ++voters;
    if (other.id() == member) continue;
    if (other.reachable() && other.in_sync()) {
      ++healthy;
    } else {
      missing.push_back(
          absl::StrCat("member ", other.id(), other.reachable() ? " is not in sync" : " is down"));
    }
  }
  if (members.changing()) {
    return absl::FailedPreconditionError(
        "a change of voters is in progress; restart servers when it is done");
  }
  if (healthy > voters / 2) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("a restart of member ", member, " would stop the cluster: ", healthy, " of ",
                   voters, " voters would be left, ", voters / 2 + 1, " are needed",
                   missing.empty() ? "" : absl::StrCat(" (", absl::StrJoin(missing, ", "), ")")));
}

void AddRollingRestartCommand(CommandLine* command_line) {
  auto options = std::make_shared<Options>();
  CLI::App* command = command_line->Add(
      command_line->root(), "rolling-restart",
      "Restart all servers, one after the other, while the cluster serves",
      [command_line, options] { return RollingRestart(command_line->global(), *options).Run(); });
  command->add_option("--command", options->command,
                      "Shell command that restarts one server; it finds the member's number in "
                      "QUORATE_MEMBER and its gRPC address in QUORATE_SERVER");
  command
      ->add_option("--timeout", options->timeout_seconds,
                   "Seconds that a server may need to be back and in sync")
      ->default_val(kTimeoutSeconds)
      ->check(CLI::Range(1, 86400));
  command->add_flag("--dry-run", options->dry_run, "Only show the steps");
  command->footer(
      "Restarts followers first, and the leader last, after it has handed leadership over. Waits\n"
      "before each restart until the server before serves and is in sync. Stops with an error\n"
      "before a restart that would leave less than a majority.");
}

}  // namespace quorate::tools
