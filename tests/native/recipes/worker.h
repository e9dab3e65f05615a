// SPDX-License-Identifier: Apache-2.0

// What the workers for recipes that are no locks have in common: their options, their end, and what
// they do when their session is lost or the servers' disks are full.
//
//   PROGRAM --servers HOSTS --session-timeout-ms MS --name NAME RECIPE
//
// uses one of the recipes repeatedly, until it gets SIGTERM or is killed, and prints a history
// (history.h):
//
//   connected SESSION    a session has begun
//   lost STATUS          it was lost; the worker goes on with a new one
//   no-space             the servers' disks are full; the worker waits, and goes on with a new session
//   error STATUS         the worker ends with status 1
//
// Thread-safety: all functions from any thread, except Main.
#pragma once

#include <atomic>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "client/client.h"

namespace quorate::worker {

struct Settings {
  std::string servers{}, name{};
  std::string ca_file{};  // empty: without TLS
  int session_timeout_ms = 4000;
  int members = 3;
  int jobs = 40;
};

// How long a recipe waits before the worker checks whether it has to stop.
inline constexpr int kPatienceMs = 300;

// Set when SIGTERM comes. Its waiters are notified.
extern std::atomic<bool> stops;

// Uses a recipe until `stops` (OK) or a failure, which is that of the recipe. The client has one session.
using Recipe = absl::Status (*)(Client*, const Settings&);

struct NamedRecipe {
  const char* name;
  const char* help;
  Recipe recipe;
};

// Whether the session of the client was lost.
bool IsLost(const absl::Status& status);

// Whether a write was refused because the disks of servers are full. They may have free space soon.
bool IsOutOfSpace(const absl::Status& status);
void WaitForFreeSpace();

// Returns the status as text without blanks.
std::string WordOf(const absl::Status& status);

// Returns a random number from 0 to below - 1. REQUIRES: below > 0.
int Random(int below);

// Sleeps for at most `ms`, a random time.
void SleepUpTo(int ms);

// Runs the recipe that the arguments name. Returns the exit status. REQUIRES: no thread has been started.
int Main(int argc, char** argv, const std::string& description,
         std::span<const NamedRecipe> recipes);

}  // namespace quorate::worker
