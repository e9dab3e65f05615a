// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/failover.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tools/bench/control.h"
#include "tools/bench/processes.h"

namespace quorate::tools::bench {
namespace {

constexpr int64_t kBeforeNs = 2 * kNsInSecond;
constexpr int64_t kAfterNs = 3 * kNsInSecond;
constexpr int64_t kStepNs = 50 * kNsInMs;
// Writes count as answered again after this time without a pause.
constexpr int64_t kSteadyNs = kNsInSecond;
constexpr int64_t kPauseMaxNs = 60 * kNsInSecond;
constexpr int64_t kCommandMaxNs = 120 * kNsInSecond;
constexpr int64_t kSettleNs = 2 * kNsInSecond;

// A shell command that runs during the load. Its output goes to standard error.
class Command {
 public:
  static absl::StatusOr<Command> Begin(std::string text, size_t member) {
    text = absl::StrReplaceAll(text, {{"{member}", absl::StrCat(member)}});
    std::string shell = "sh", option = "-c", script = absl::StrCat("{ ", text, "\n} >&2");
    char* const arguments[] = {shell.data(), option.data(), script.data(), nullptr};
    Command command(text);
    const int error = posix_spawn(&command.pid_, "/bin/sh", nullptr, nullptr, arguments, environ);
    if (error != 0) return absl::InternalError(absl::StrCat("sh: ", strerror(error)));
    return command;
  }

  // Returns whether the command has ended; if so, sets its status.
  bool HasEnded(absl::Status* status) const {
    int result = 0;
    if (waitpid(pid_, &result, WNOHANG) == 0) return false;
    if (!WIFEXITED(result) || WEXITSTATUS(result) != 0) {
      *status = absl::AbortedError(absl::StrCat("the command failed: ", text_));
    }
    return true;
  }

 private:
  explicit Command(std::string text) : text_(std::move(text)) {}
  std::string text_;
  pid_t pid_ = 0;
};

// Runs the engine until the command has ended.
absl::Status Await(const Command& command, Engine* engine) {
  absl::Status status;
  const int64_t deadline_ns = NowNs() + kCommandMaxNs;
  while (!command.HasEnded(&status)) {
    if (NowNs() > deadline_ns)
      return absl::DeadlineExceededError("the command did not end in time");
    engine->RunUntil(NowNs() + kStepNs, [] { return false; });
  }
  return status;
}

}  // namespace

absl::Status FailOver(const ClusterOptions& cluster, const std::vector<Endpoint>& servers,
                      Engine* engine, Load* load, Measurement* measurement) {
  absl::StatusOr<size_t> leader = FindLeader(servers);
  if (!leader.ok()) return leader.status();

  Slice slice(measurement->series.size());
  slice.begin_ns = NowNs();
  const uint64_t dropped_before = engine->dropped();
  const double tool_before = OwnCpuSeconds();
  load->Start(&slice);
  load->WorkUntil(slice.begin_ns + kBeforeNs);
  if (slice.operations == 0) {
    return absl::UnavailableError("no write was answered before the leader was killed");
  }
  slice.longest_pause_ns = 0;
  absl::StatusOr<Command> kill = Command::Begin(cluster.kill_command, *leader + 1);
  if (!kill.ok()) return kill.status();
  const int64_t killed_ns = NowNs();
  absl::Status killed;
  bool has_ended = false;
  int64_t steady_since_ns = killed_ns;
  for (int64_t now_ns = killed_ns; now_ns < killed_ns + kPauseMaxNs; now_ns = NowNs()) {
    load->WorkUntil(now_ns + kStepNs);
    has_ended = has_ended || kill->HasEnded(&killed);
    if (slice.last_answer_ns < now_ns) steady_since_ns = NowNs();
    if (has_ended && now_ns > killed_ns + kAfterNs && now_ns > steady_since_ns + kSteadyNs) break;
  }
  if (!killed.ok()) return killed;
  slice.end_ns = NowNs();
  slice.RecordPause(slice.end_ns);
  slice.tool_cpu_seconds = OwnCpuSeconds() - tool_before;
  if (absl::Status s = load->Stop(); !s.ok()) return s;
  measurement->Add(slice, static_cast<double>(slice.end_ns - slice.begin_ns) / kNsInSecond);
  measurement->pauses_ms.push_back(static_cast<double>(slice.longest_pause_ns) / kNsInMs);
  measurement->connections_dropped += engine->dropped() - dropped_before;

  if (cluster.restart_command.empty()) return absl::OkStatus();
  absl::StatusOr<Command> restart = Command::Begin(cluster.restart_command, *leader + 1);
  if (!restart.ok()) return restart.status();
  if (absl::Status s = Await(*restart, engine); !s.ok()) return s;
  engine->RunUntil(NowNs() + kSettleNs, [] { return false; });
  return absl::OkStatus();
}

}  // namespace quorate::tools::bench
