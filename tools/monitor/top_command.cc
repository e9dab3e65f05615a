// SPDX-License-Identifier: Apache-2.0

#include "tools/monitor/top_command.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tools/monitor/observation.h"
#include "tools/monitor/top_table.h"

namespace quorate::tools {
namespace {

constexpr int kIntervalSeconds = 2;
constexpr int kIntervalSecondsMax = 3600;
constexpr int kCountMax = 1'000'000'000;
// Moves to the upper left corner, and clears what is below: without flicker, as clearing first has.
constexpr char kHome[] = "\x1b[H";
constexpr char kClearBelow[] = "\x1b[J";
constexpr char kClearLine[] = "\x1b[K\n";

// The clients, paths and identities that are shown.
constexpr uint32_t kTopCount = 5;

struct Options {
  int interval_seconds = kIntervalSeconds;
  int count = 0;  // of pages; 0: without end
};

// Shows a page in the place of the one before. Lines are cleared one by one, as the new ones may be
// shorter.
void ShowOnTerminal(const std::string& page) {
  std::string text = kHome;
  for (const char c : page) {
    if (c == '\n') {
      text += kClearLine;
    } else {
      text += c;
    }
  }
  std::cout << text << kClearBelow << std::flush;
}

absl::Status RunTop(const GlobalOptions& global, const Options& options) {
  auto servers = ParseServers(global.servers);
  if (!servers.ok()) return servers.status();
  auto access = Access::Load(global.tls, {.file = global.token_file}, *servers);
  if (!access.ok()) return access.status();
  const bool is_terminal = isatty(STDOUT_FILENO) != 0;
  Observer observer(*servers, *access, kTopCount);
  std::vector<Observation> before = observer.Look();
  const auto answers = [](const Observation& server) { return server.status.ok(); };
  if (std::none_of(before.begin(), before.end(), answers)) {
    return absl::UnavailableError(
        "none of the servers answered; does --server name their gRPC ports?");
  }
  for (int shown = 0; options.count == 0 || shown < options.count; ++shown) {
    std::this_thread::sleep_for(std::chrono::seconds(options.interval_seconds));
    std::vector<Observation> now = observer.Look();
    if (global.json) {
      std::cout << TopJson(before, now)
                       .dump(-1, ' ', /*ensure_ascii=*/true,
                             nlohmann::ordered_json::error_handler_t::replace)
                << std::endl;
    } else if (is_terminal) {
      ShowOnTerminal(TopText(before, now));
    } else {
      std::cout << TopText(before, now) << std::endl;
    }
    // Whoever read it, a pipe for example, is gone.
    if (!std::cout) return absl::OkStatus();
    before = std::move(now);
  }
  return absl::OkStatus();
}

}  // namespace

void AddTopCommand(CommandLine* command_line) {
  auto options = std::make_shared<Options>();
  CLI::App* app = command_line->Add(
      command_line->root(), "top", "Show rates, latencies and load of the servers, again and again",
      [command_line, options] { return RunTop(command_line->global(), *options); });
  app->add_option("--interval", options->interval_seconds, "Seconds between two pages")
      ->capture_default_str()
      ->check(CLI::Range(1, kIntervalSecondsMax));
  app->add_option("--count", options->count, "The number of pages; 0: without end")
      ->capture_default_str()
      ->check(CLI::Range(0, kCountMax));
  app->footer(
      "Rates are those since the page before. P50 and P99 are times from a request to its reply, "
      "of\n"
      "the last minute, before them those of reads, and behind them those of writes. SYNC is the\n"
      "average time of a sync of the log, and BEHIND the entries that other servers have applied\n"
      "already. Below, the 99th percentiles of the last minute of each stage (see quorate slow), "
      "and\n"
      "the clients, paths and identities with the most requests of the last minute.\n"
      "For administrators: others see roles alone. With --json, each page is one line.");
}

}  // namespace quorate::tools
