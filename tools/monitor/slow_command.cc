// SPDX-License-Identifier: Apache-2.0

#include "tools/monitor/slow_command.h"

#include <algorithm>
#include <cstdint>
#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/cli/cluster_client.h"
#include "tools/monitor/slow_table.h"

namespace quorate::tools {
namespace {

constexpr uint32_t kCount = 20;
constexpr uint32_t kCountMax = 1000;

struct Options {
  uint32_t member = 0;  // 0: all
  uint32_t count = kCount;
};

std::vector<SlowAnswer> AskForSlow(const std::vector<std::string>& addresses, const Access& access,
                                   uint32_t count_max) {
  std::vector<std::future<absl::StatusOr<v1::SlowRequestsResponse>>> questions;
  questions.reserve(addresses.size());
  for (const std::string& address : addresses) {
    questions.push_back(std::async(std::launch::async, [&address, &access, count_max] {
      return ClusterClient(address, access).SlowRequests(count_max);
    }));
  }
  std::vector<SlowAnswer> answers;
  answers.reserve(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    answers.push_back({addresses[i], questions[i].get()});
  }
  return answers;
}

absl::Status RunSlow(const GlobalOptions& global, const Options& options) {
  auto servers = ParseServers(global.servers);
  if (!servers.ok()) return servers.status();
  auto access = Access::Load(global.tls, {.file = global.token_file}, *servers);
  if (!access.ok()) return access.status();
  std::vector<SlowAnswer> answers = AskForSlow(*servers, *access, options.count);
  const auto failed = std::find_if(answers.begin(), answers.end(),
                                   [](const SlowAnswer& answer) { return !answer.slow.ok(); });
  const bool any_answers = std::any_of(answers.begin(), answers.end(),
                                       [](const SlowAnswer& answer) { return answer.slow.ok(); });
  if (!any_answers) return failed->slow.status();
  if (options.member != 0) {
    std::erase_if(answers, [&](const SlowAnswer& answer) {
      return !answer.slow.ok() || answer.slow->member() != options.member;
    });
    if (answers.empty()) {
      return absl::NotFoundError(
          absl::StrCat("member ", options.member, " is none of the servers that answer"));
    }
  }
  if (global.json) {
    std::cout << SlowJson(answers, options.count)
                     .dump(-1, ' ', /*ensure_ascii=*/true,
                           nlohmann::ordered_json::error_handler_t::replace)
              << std::endl;
  } else {
    std::cout << SlowText(answers, options.count);
  }
  return absl::OkStatus();
}

}  // namespace

void AddSlowCommand(CommandLine* command_line) {
  auto options = std::make_shared<Options>();
  CLI::App* app = command_line->Add(
      command_line->root(), "slow",
      "Show the last requests that took long, and where their time went",
      [command_line, options] { return RunSlow(command_line->global(), *options); });
  app->add_option("--member", options->member, "Only requests of this member's clients");
  app->add_option("--count", options->count, "The number of requests, the newest ones")
      ->capture_default_str()
      ->check(CLI::Range(1U, kCountMax));
  app->footer(
      "A request is slow if it takes slowRequestThresholdMs or longer. Stages of writes: queue, "
      "until "
      "the\n"
      "write is proposed or sent to the leader; log_write, until the leader's own disk has it; "
      "commit,\n"
      "until a majority has it; apply, until the tree has it; answer, until the reply is made. A\n"
      "member that does not lead does not know the stages at the leader, which are in its commit.\n"
      "barrier: a sync or a linearizable read waits for the leader. read: a read of very many "
      "znodes.\n"
      "For administrators.");
}

}  // namespace quorate::tools
