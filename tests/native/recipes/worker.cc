// SPDX-License-Identifier: Apache-2.0

#include "tests/native/recipes/worker.h"

#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <thread>

#include "tests/native/recipes/history.h"

namespace quorate::worker {
namespace {

using history::Print;

// Makes SIGTERM set `stops`. REQUIRES: no thread has been started.
void StopAtSignal() {
  static sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([] {
    int ignored = 0;
    sigwait(&signals, &ignored);
    stops = true;
    stops.notify_all();
  }).detach();
}

int Run(Recipe recipe, const Settings& settings) {
  while (!stops) {
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(
        {.servers = settings.servers,
         .session_timeout_ms = settings.session_timeout_ms,
         .connect_timeout_ms = 15'000,
         // The history has one session per run of the recipe.
         .on_session_loss = SessionLoss::kStop,
         .tls = {.enabled = !settings.ca_file.empty(), .ca_file = settings.ca_file}});
    if (!client.ok()) {
      Print("error", WordOf(client.status()));
      return 1;
    }
    Print("connected", (*client)->session_id());
    const absl::Status status = recipe(client->get(), settings);
    if (status.ok()) return 0;
    if (IsOutOfSpace(status)) {
      Print("no-space");
      WaitForFreeSpace();
      continue;
    }
    Print(IsLost(status) ? "lost" : "error", WordOf(status));
    if (!IsLost(status)) return 1;
  }
  return 0;
}

}  // namespace

std::atomic<bool> stops{false};

bool IsLost(const absl::Status& status) { return ErrorOf(status) == ErrorCode::kSessionExpired; }

bool IsOutOfSpace(const absl::Status& status) { return ErrorOf(status) == ErrorCode::kNoSpace; }

void WaitForFreeSpace() { std::this_thread::sleep_for(std::chrono::milliseconds(kPatienceMs)); }

std::string WordOf(const absl::Status& status) {
  std::string text = status.ToString();
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == ' ' || c == '\n'; }, '_');
  return text;
}

int Random(int below) {
  thread_local std::mt19937 random{std::random_device{}()};
  return std::uniform_int_distribution<int>(0, below - 1)(random);
}

void SleepUpTo(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(Random(ms + 1))); }

int Main(int argc, char** argv, const std::string& description,
         std::span<const NamedRecipe> recipes) {
  StopAtSignal();
  Settings settings;
  CLI::App app(description);
  app.add_option("--servers", settings.servers)->required();
  app.add_option("--ca", settings.ca_file, "use TLS, with these authorities of servers");
  app.add_option("--name", settings.name);
  app.add_option("--session-timeout-ms", settings.session_timeout_ms);
  app.add_option("--members", settings.members);
  app.add_option("--jobs", settings.jobs);
  Recipe chosen = nullptr;
  for (const auto& [name, help, recipe] : recipes) {
    app.add_subcommand(name, help)->callback([&chosen, does = recipe] { chosen = does; });
  }
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);
  return Run(chosen, settings);
}

}  // namespace quorate::worker
