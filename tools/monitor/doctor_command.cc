// SPDX-License-Identifier: Apache-2.0

#include "tools/monitor/doctor_command.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/escape.h"
#include "tools/monitor/examination.h"
#include "tools/monitor/observation.h"

namespace quorate::tools {
namespace {

using nlohmann::ordered_json;

constexpr int kProblemExitStatus = 1;
constexpr int kWarningExitStatus = 3;
constexpr int kSeconds = 2;
constexpr int kSecondsMax = 3600;

std::string_view NameOf(Severity severity) {
  return severity == Severity::kProblem ? "problem" : "warning";
}

size_t Count(const std::vector<Finding>& findings, Severity severity) {
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [severity](const Finding& finding) { return finding.severity == severity; }));
}

std::string Plural(size_t count, const char* what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

ordered_json ToJson(const std::vector<Finding>& findings, size_t asked, size_t answered) {
  ordered_json list = ordered_json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"severity", NameOf(finding.severity)},
                    {"subject", finding.subject},
                    {"what", finding.what},
                    {"advice", finding.advice}});
  }
  return {{"asked", asked}, {"answered", answered}, {"findings", std::move(list)}};
}

std::string ToText(const std::vector<Finding>& findings, size_t asked, size_t answered) {
  std::string text = absl::StrCat(Plural(answered, "server"), " of ", asked, " answered.\n");
  for (const Finding& finding : findings) {
    const bool is_problem = finding.severity == Severity::kProblem;
    absl::StrAppend(&text, "\n", is_problem ? "PROBLEM  " : "WARNING  ",
                    EscapeLine(absl::StrCat(finding.subject, " ", finding.what)), "\n         ",
                    finding.advice, "\n");
  }
  if (findings.empty()) return text + "Nothing wrong was found.\n";
  absl::StrAppend(&text, "\n", Plural(Count(findings, Severity::kProblem), "problem"), ", ",
                  Plural(Count(findings, Severity::kWarning), "warning"), "\n");
  return text;
}

absl::Status RunDoctor(CommandLine* command_line, int seconds) {
  const GlobalOptions& options = command_line->global();
  auto servers = ParseServers(options.servers);
  if (!servers.ok()) return servers.status();
  auto access = Access::Load(options.tls, {.file = options.token_file}, *servers);
  if (!access.ok()) return access.status();
  Observer observer(*servers, *access);
  const std::vector<Observation> before = observer.Look();
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  const std::vector<Observation> now = observer.Look();
  const auto answered = static_cast<size_t>(std::count_if(
      now.begin(), now.end(), [](const Observation& server) { return server.status.ok(); }));
  const std::vector<Finding> findings = Examine(before, now);
  if (options.json) {
    std::cout << ToJson(findings, now.size(), answered)
                     .dump(2, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace)
              << "\n";
  } else {
    std::cout << ToText(findings, now.size(), answered);
  }
  if (answered == 0) {
    return absl::UnavailableError(
        "none of the servers answered; does --server name their gRPC ports?");
  }
  if (!findings.empty()) {
    command_line->SetExitStatus(Count(findings, Severity::kProblem) > 0 ? kProblemExitStatus
                                                                        : kWarningExitStatus);
  }
  return absl::OkStatus();
}

}  // namespace

void AddDoctorCommand(CommandLine* command_line) {
  auto seconds = std::make_shared<int>(kSeconds);
  CLI::App* app = command_line->Add(
      command_line->root(), "doctor", "Say what is wrong with a cluster, and how to mend it",
      [command_line, seconds] { return RunDoctor(command_line, *seconds); });
  app->add_option("--seconds", *seconds, "How long to watch rates")
      ->capture_default_str()
      ->check(CLI::Range(1, kSecondsMax));
  app->footer(
      "Examines servers, members, disks, clocks, certificates, limits and load. Name all servers "
      "with\n--server, and be an administrator: others see less.\n"
      "Exit status: 0 if nothing wrong was found, 3 if there are warnings only, 1 if there is a\n"
      "problem or none of the servers answers, 2 for bad usage.");
}

}  // namespace quorate::tools
