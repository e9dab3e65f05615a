// Runs a command while this process is the one that has something: a lock (`quorate lock`), or
// leadership (`quorate elect`).
//
// The command ends before others can have it, as far as can be told here: it is terminated when no
// member has served for a sixth of the session's timeout, or at once when it is certain that it was
// lost or this process stood still for longer than that leaves time for, and killed if it takes
// longer than kill_after_ms. A process that was stopped for longer than its session lives cannot do
// that: what the command writes to must check $QUORATE_FENCING_TOKEN.
//
// Thread-safety: one object in a program, one thread.
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
  std::string path;
  std::vector<std::string> command;
  int session_timeout_ms = 15'000;
  // How long to wait for the first turn; 0: only if nobody has it, negative: for ever.
  int64_t wait_ms = -1;
  // From the signal to terminate to the one to kill; negative: a sixth of the session's timeout.
  int64_t kill_after_ms = -1;
  // Whether to go on when the command has ended or the turn was lost, with the next turn.
  bool repeats = false;
  // Between two starts, if it repeats.
  int64_t restart_after_ms = 1'000;
  // Says nothing of what goes on, only errors.
  bool is_quiet = false;
};

class Guard {
 public:
  explicit Guard(GuardOptions options);
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // The exit status to end with: that of the command, or 128 and the number of the signal that came
  // while it did not run. Errors: why it was not run, or that the turn was lost while it was.
  absl::StatusOr<int> Run();

 private:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  struct Item {
    uint64_t session = 0;
    ElectionEvent event;
  };

  // As Begin, and tries for a while, unless a signal to end comes.
  absl::Status BeginFirst();
  // A session, and a place in line.
  absl::Status Begin();
  // Tries until that works, or there is a signal to end.
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
  // Until when nothing happens by itself; in milliseconds, -1 for ever.
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
  bool was_lost_ = false;  // while the command ran
  bool has_run_ = false;
  // The signal to end, once it came.
  std::optional<int> end_signal_;
  // The outcome, once it is known.
  std::optional<absl::StatusOr<int>> outcome_;

  std::optional<Time> give_up_at_;
  std::optional<Time> start_at_;
  std::optional<Time> terminate_at_;
  int64_t terminate_after_ms_ = 0;  // how long before terminate_at_ no member began to serve
  std::optional<Time> kill_at_;
  Time started_at_{};
};

}  // namespace quorate::tools::shell
