// SPDX-License-Identifier: Apache-2.0

#include "rpc/audit/audit_log.h"

#include <spdlog/spdlog.h>

#include <ctime>
#include <string_view>
#include <utility>

#include "base/condition_variable.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace quorate::rpc {
namespace {

using std::chrono::steady_clock;

// Memory of the queue that is kept after a burst of events.
constexpr size_t kKeptBytesMax = 1u << 20;
// How often the loss of lines is logged.
constexpr auto kLossReportTime = std::chrono::seconds(10);

// The time as log4j's %d{ISO8601} writes it: 2026-01-02 03:04:05,678, in the zone of the machine.
class TimeText {
 public:
  void Append(int64_t wall_ms, std::string* out) {
    const int64_t second = wall_ms / 1000;
    if (second != second_ || text_[0] == '\0') {
      second_ = second;
      const auto time = static_cast<time_t>(second);
      tm parts{};
      localtime_r(&time, &parts);
      std::strftime(text_, sizeof(text_), "%Y-%m-%d %H:%M:%S,", &parts);
    }
    *out += text_;
    const auto ms = static_cast<int>(wall_ms % 1000);
    *out += static_cast<char>('0' + ms / 100);
    *out += static_cast<char>('0' + ms / 10 % 10);
    *out += static_cast<char>('0' + ms % 10);
  }

 private:
  int64_t second_ = 0;
  char text_[32] = {};
};

}  // namespace

struct AuditLog::Queue {
  Queue(const Options& options, const Clock* clock_of_lines)
      : path(options.path), bytes_max(options.queue_bytes_max), clock(clock_of_lines) {}

  size_t held_bytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return lines.size() + writing; }

  // Returns whether so much waits that it is written at once.
  bool IsQuarterFull() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return lines.size() >= bytes_max / 4;
  }

  void Append(std::string_view fields, AuditResult result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    time.Append(clock->WallMs(), &lines);
    lines += AuditLineName(result);
    lines += fields;
  }

  // Appends the line that says how many lines are missing before it.
  void AppendLost(const std::string& user) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const std::string detail = std::to_string(std::exchange(missing, 0)) + " lines";
    std::string fields;
    AppendAuditFields({.user = user,
                       .operation = "auditLinesLost",
                       .detail = detail,
                       .result = AuditResult::kFailure},
                      &fields);
    Append(fields, AuditResult::kFailure);
  }

  const std::string path;
  const size_t bytes_max;
  const Clock* const clock;
  Mutex mutex;
  ConditionVariable changed;  // for the thread
  ConditionVariable done;     // for Flush
  TimeText time ABSL_GUARDED_BY(mutex);
  std::string lines ABSL_GUARDED_BY(mutex);
  size_t writing ABSL_GUARDED_BY(mutex) = 0;    // bytes that the thread has taken and not written
  uint64_t missing ABSL_GUARDED_BY(mutex) = 0;  // lines lost since the last line that was taken
  uint64_t lost ABSL_GUARDED_BY(mutex) = 0;     // all lines lost
  uint64_t flushes ABSL_GUARDED_BY(mutex) = 0;  // requests of Flush
  uint64_t flushed ABSL_GUARDED_BY(mutex) = 0;  // of these, those that are done
  bool reopens ABSL_GUARDED_BY(mutex) = false;
  bool end ABSL_GUARDED_BY(mutex) = false;
  bool ended ABSL_GUARDED_BY(mutex) = false;  // the thread has written all, or given up
  steady_clock::time_point end_until ABSL_GUARDED_BY(mutex);
};

// What the thread does.
class AuditLog::Writer {
 public:
  Writer(std::shared_ptr<Queue> queue, AuditFile file)
      : queue_(std::move(queue)), file_(std::move(file)) {}

  // Writes until the end was requested, and everything is written or the time for that is over.
  void Run() {
    do {
      Take();
      Write();
    } while (!Finish());
  }

 private:
  // Waits for lines and takes them; or, if there are lines that could not be written, waits for the
  // next attempt.
  void Take() {
    Queue& q = *queue_;
    MutexLock lock(&q.mutex);
    if (taken_.empty()) {
      while (q.lines.empty() && !q.end && !q.reopens && q.flushes == q.flushed) {
        q.changed.Wait(&q.mutex);
      }
      const auto deadline = steady_clock::now() + kBatchTime;
      while (!q.end && !q.reopens && q.flushes == q.flushed && !q.IsQuarterFull() &&
             q.changed.WaitUntil(&q.mutex, deadline)) {
      }
      taken_.swap(q.lines);
      q.writing = taken_.size();
      flushes_ = q.flushes;
    } else {
      const auto deadline = steady_clock::now() + kRetryTime;
      while (q.changed.WaitUntil(&q.mutex, deadline)) {
      }
    }
    reopens_ = std::exchange(q.reopens, false);
    lost_ = q.lost;
  }

  void Write() {
    if (reopens_) {
      if (absl::Status s = file_.Reopen(); !s.ok()) {
        spdlog::error("{}; the audit log is still written to the file before",
                      std::string(s.message()));
      }
    }
    const absl::Status written = file_.Write(&taken_);
    if (!written.ok() && !std::exchange(is_failing_, true)) {
      spdlog::error(
          "{}. Its lines are kept in memory, up to {} MiB, and are lost beyond that. It is tried "
          "again until it succeeds: free some space, or correct auditFile and restart the server",
          std::string(written.message()), queue_->bytes_max >> 20);
    } else if (written.ok() && std::exchange(is_failing_, false)) {
      spdlog::info("the audit log is written again path={}", queue_->path);
    }
    const auto now = steady_clock::now();
    if (lost_ > lost_logged_ && now >= next_loss_report_) {
      spdlog::error("lines of the audit log are lost path={} lines={} since_start={}", queue_->path,
                    lost_ - lost_logged_, lost_);
      lost_logged_ = lost_;
      next_loss_report_ = now + kLossReportTime;
    }
    if (!file_.rotation().ok() && rotation_logged_.ok()) {
      spdlog::error("the audit log grows beyond auditFileBytes: {}",
                    std::string(file_.rotation().message()));
    }
    rotation_logged_ = file_.rotation();
    if (taken_.empty() && taken_.capacity() > kKeptBytesMax) taken_.shrink_to_fit();
  }

  // Reports what was written. Returns whether the thread ends.
  bool Finish() {
    Queue& q = *queue_;
    MutexLock lock(&q.mutex);
    q.writing = taken_.size();
    if (taken_.empty()) {
      q.flushed = flushes_;
      q.done.NotifyAll();
    }
    const bool is_done = taken_.empty() && q.lines.empty();
    if (!q.end || (!is_done && steady_clock::now() < q.end_until)) return false;
    if (!is_done) {
      spdlog::error("the last lines of the audit log are lost path={} bytes={}", q.path,
                    taken_.size() + q.lines.size());
    }
    file_.Sync();
    q.ended = true;
    q.done.NotifyAll();
    return true;
  }

  const std::shared_ptr<Queue> queue_;
  AuditFile file_;
  std::string taken_;        // what is to be written
  bool is_failing_ = false;  // the last write failed
  bool reopens_ = false;
  uint64_t flushes_ = 0;  // of the queue, when taken_ was taken
  uint64_t lost_ = 0;     // of the queue, when it was last looked at
  uint64_t lost_logged_ = 0;
  steady_clock::time_point next_loss_report_;
  absl::Status rotation_logged_;
};

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(Options options, const Clock* clock) {
  absl::StatusOr<AuditFile> file =
      AuditFile::Open(options.path, options.file_bytes_max, options.files_max);
  if (!file.ok()) return file.status();
  return std::unique_ptr<AuditLog>(new AuditLog(std::move(options), *std::move(file), clock));
}

AuditLog::AuditLog(Options options, AuditFile file, const Clock* clock)
    : options_(std::move(options)),
      queue_(std::make_shared<Queue>(options_, clock)),
      writer_(StartThread("audit-log", [queue = queue_, opened = std::move(file)]() mutable {
        Writer(queue, std::move(opened)).Run();
      })) {}

AuditLog::~AuditLog() {
  const auto deadline = steady_clock::now() + kCloseTime;
  bool ended = false;
  {
    MutexLock lock(&queue_->mutex);
    if (queue_->missing > 0) queue_->AppendLost(options_.server_user);
    queue_->end = true;
    queue_->end_until = deadline;
    queue_->changed.NotifyAll();
    // A little longer than the thread tries.
    const auto patience = deadline + kRetryTime;
    while (!queue_->ended && queue_->done.WaitUntil(&queue_->mutex, patience)) {
    }
    ended = queue_->ended;
  }
  // A thread that is blocked in a write is left alone, and ends with the process.
  ended ? writer_.join() : writer_.detach();
}

void AuditLog::Record(const AuditEvent& event) {
  if (!Wants(event.result)) return;
  thread_local std::string fields;
  fields.clear();
  AppendAuditFields(event, &fields);
  MutexLock lock(&queue_->mutex);
  const bool was_empty = queue_->lines.empty();
  // After a loss, lines are taken again when half of the queue is free, so that the lines that say
  // so are few.
  const size_t bytes_max = queue_->missing > 0 ? queue_->bytes_max / 2 : queue_->bytes_max;
  if (queue_->held_bytes() + fields.size() > bytes_max) {
    ++queue_->missing;
    ++queue_->lost;
    return;
  }
  if (queue_->missing > 0) queue_->AppendLost(options_.server_user);
  const bool was_low = !queue_->IsQuarterFull();
  queue_->Append(fields, event.result);
  if (was_empty || (was_low && queue_->IsQuarterFull())) {
    queue_->changed.NotifyOne();
  }
}

void AuditLog::RecordOwn(AuditEvent event) {
  event.user = options_.server_user;
  Record(event);
}

void AuditLog::RecordCall(std::string_view user, std::string_view ip, std::string_view operation,
                          std::string_view detail, AuditResult result) {
  Record({.user = user, .ip = ip, .operation = operation, .detail = detail, .result = result});
}

bool AuditLog::Flush(std::chrono::milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  MutexLock lock(&queue_->mutex);
  const uint64_t number = ++queue_->flushes;
  queue_->changed.NotifyOne();
  while (queue_->flushed < number && queue_->done.WaitUntil(&queue_->mutex, deadline)) {
  }
  return queue_->flushed >= number;
}

void AuditLog::Reopen() {
  MutexLock lock(&queue_->mutex);
  queue_->reopens = true;
  queue_->changed.NotifyOne();
}

uint64_t AuditLog::lost() const {
  MutexLock lock(&queue_->mutex);
  return queue_->lost;
}

}  // namespace quorate::rpc
