// A command that is run for as long as something holds: a lock, leadership.
//
// Thread-safety: one thread at a time; the process's signals are watched by all objects together,
// hence one WatchedSignals in a program.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quorate::tools::shell {

// Signals that end or concern a command, and the end of children, as something to wait for. They
// are blocked from the constructor on, which is why it has to be called before threads are started.
// Those that the program was started to ignore are not among them. Writing to a closed pipe, or to
// a terminal that a child has, is no end either.
class WatchedSignals {
 public:
  WatchedSignals();
  ~WatchedSignals();
  WatchedSignals(const WatchedSignals&) = delete;
  WatchedSignals& operator=(const WatchedSignals&) = delete;

  // Readable when Take has something.
  int file() const { return file_; }
  // A signal that came; nothing if none did.
  std::optional<int> Take();
  // Whether it asks a program to end.
  static bool IsEnd(int signal);

 private:
  int file_ = -1;  // a signalfd
};

class ChildProcess {
 public:
  // Starts a program of $PATH, in a process group of its own, which gets the terminal if this
  // process has it. `environment` is added to this one's. The child is killed when the calling
  // thread ends. NOT_FOUND, PERMISSION_DENIED, ...: why it cannot be run.
  static absl::StatusOr<ChildProcess> Start(
      const std::vector<std::string>& command,
      const std::vector<std::pair<std::string, std::string>>& environment);

  // A process is not forgotten: if it still runs, it is killed and waited for.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  // Whether what is typed, Ctrl-C too, goes to it.
  bool has_terminal() const { return has_terminal_; }

  // To its group, and so to what it has started.
  void Signal(int signal) const;
  // Its exit status as shells have it (128 and the number of the signal that ended it); nothing if
  // it still runs. The rest of its group is killed when it has ended.
  std::optional<int> Poll();

 private:
  ChildProcess(pid_t pid, bool has_terminal) : pid_(pid), has_terminal_(has_terminal) {}
  void TakeTerminalBack();

  pid_t pid_;  // 0: it has ended
  bool has_terminal_;
};

// Of what keeps a command from being run: 127 if there is none of that name, else 126.
int ExitStatusOfStart(const absl::Status& status);

}  // namespace quorate::tools::shell
