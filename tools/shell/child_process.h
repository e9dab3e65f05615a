// SPDX-License-Identifier: Apache-2.0

// Runs a command as a child process, which ends with this process.
//
// Thread-safety: one thread at a time. All objects together watch the process's signals, so a
// program has only one WatchedSignals.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quorate::tools::shell {

// The signals that end or concern a command, and the end of children, as a file to wait for. The
// constructor blocks them, so it has to be called before threads are started. Signals that were
// ignored when the program was started are not included. The object also makes the program survive
// a write to a closed pipe, or to a terminal that a child has.
class WatchedSignals {
 public:
  WatchedSignals();
  ~WatchedSignals();
  WatchedSignals(const WatchedSignals&) = delete;
  WatchedSignals& operator=(const WatchedSignals&) = delete;

  // Returns a file that is readable when Take has a signal to return.
  int file() const { return file_; }
  // Returns the next signal that has arrived; nothing if there is none.
  std::optional<int> Take();
  // Returns whether the signal asks a program to end.
  static bool IsEnd(int signal);

 private:
  int file_ = -1;  // a signalfd
};

class ChildProcess {
 public:
  // Starts a program of $PATH in a new process group, which gets the terminal if this process has
  // it. `environment` is added to this process's. The child is killed when the calling thread ends.
  // Errors say why the program cannot be run: NOT_FOUND, PERMISSION_DENIED, ...
  static absl::StatusOr<ChildProcess> Start(
      const std::vector<std::string>& command,
      const std::vector<std::pair<std::string, std::string>>& environment);

  // Kills the process if it still runs, and waits for its end.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  // Returns whether the child gets the terminal's input, including Ctrl-C.
  bool has_terminal() const { return has_terminal_; }

  // Sends the signal to the child's process group, which includes the processes that it has
  // started.
  void Signal(int signal) const;
  // Returns the exit status as shells report it (128 plus the number of the signal that ended the
  // child); nothing if the child still runs. When the child has ended, the rest of its group is
  // killed.
  std::optional<int> Poll();

 private:
  ChildProcess(pid_t pid, bool has_terminal) : pid_(pid), has_terminal_(has_terminal) {}
  void TakeTerminalBack();

  pid_t pid_;  // 0: the child has ended
  bool has_terminal_;
};

// Returns the exit status for an error of Start: 127 if there is no such program, otherwise 126.
int ExitStatusOfStart(const absl::Status& status);

}  // namespace quorate::tools::shell
