// SPDX-License-Identifier: Apache-2.0

// Runs a command while this process holds a lock (`quorate lock`) or leads (`quorate elect`). The
// code calls both the turn.
//
// The command ends before others can get the turn, as far as this process can tell. It is
// terminated when no member has served for a sixth of the session's timeout; and at once when the
// turn is certainly lost, or when this process was paused for so long that not enough time is left.
// It is killed if it then runs for longer than kill_after_ms. A process that was paused for longer
// than its session lives cannot end the command in time: storage that the command writes to must
// check $QUORATE_FENCING_TOKEN.
//
// Thread-safety: none. A program has only one object.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/recipes/election.h"
#include "tools/shell/child_process.h"
#include "tools/shell/mailbox.h"

namespace quorate::tools::shell {

struct GuardOptions {
  std::string servers;
  TlsOptions tls{};
  std::string path;
  std::vector<std::string> command;
  int session_timeout_ms = 15'000;
  // How long to wait for the first turn; 0: do not wait, negative: without a limit.
  int64_t wait_ms = -1;
  // The time from SIGTERM to SIGKILL; negative: a sixth of the session's timeout.
  int64_t kill_after_ms = -1;
  // Whether to wait for the next turn when the command has ended or the turn was lost.
  bool repeats = false;
  // The least time between two starts of the command, if it repeats.
  int64_t restart_after_ms = 1'000;
  // Whether only errors are printed.
  bool is_quiet = false;
};

class Guard {
 public:
  explicit Guard(GuardOptions options);
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // Returns the exit status of the program: that of the command, or 128 plus the number of a signal
  // that arrived while the command did not run. Errors: why the command was not run, or that the
  // turn was lost while it ran.
  absl::StatusOr<int> Run();

 private:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  struct Item {
    uint64_t session = 0;
    ElectionEvent event;
  };

  // Does the same as Begin, but retries for a while, unless a signal to end arrives.
  absl::Status BeginFirst();
  // Opens a session and enters the election.
  absl::Status Begin();
  // Repeats Begin until it succeeds or a signal to end arrives.
  void BeginAgain();
  void GiveUp();

  void Handle(const ElectionEvent& event);
  void OnLost(const absl::Status& reason);
  void TakeSignals();
  void OnSignal(int signal);
  void CheckTimes();
  void StartCommand();
  void Terminate(const std::string& why);
  int64_t KillAfterMs() const;
  void OnCommandEnded(int status);
  absl::Status NotInTime();
  void Say(const std::string& text) const;
  // Returns the milliseconds until the next timer is due; -1 if there is none.
  int WaitMs() const;

  const GuardOptions options_;
  WatchedSignals signals_;
  Mailbox<Item> mailbox_;
  uint64_t session_ = 0;
  std::unique_ptr<Client> client_;
  std::unique_ptr<Election> election_;

  // A sixth of the session's timeout, as the servers have granted it.
  int64_t sixth_ms_ = 0;
  bool has_turn_ = false;
  int64_t fencing_token_ = 0;
  bool is_session_over_ = false;
  std::optional<ChildProcess> child_;
  bool was_lost_ = false;  // the turn was lost while the command ran
  bool has_run_ = false;
  // The signal to end, if one has arrived.
  std::optional<int> end_signal_;
  // The outcome, once it is known.
  std::optional<absl::StatusOr<int>> outcome_;

  std::optional<Time> give_up_at_;
  std::optional<Time> start_at_;
  std::optional<Time> terminate_at_;
  int64_t terminate_after_ms_ = 0;  // the time from the event to terminate_at_
  std::optional<Time> kill_at_;
  Time started_at_{};
};

}  // namespace quorate::tools::shell
