// SPDX-License-Identifier: Apache-2.0

// The audit log of one server: takes events from any thread, and writes their lines on a thread of
// its own, several at a time.
//
// Lines are kept in memory until they are written, at most for kBatchTime while the disk takes
// them, and up to a number of bytes while it does not. If there are more, lines are lost: nobody
// waits for the audit log, because that would stop the server. The first line that is taken
// afterwards says how many were lost, and so does the server's own log.
//
// Thread-safety: all functions may be called from any thread, except that the destructor runs after
// all other calls.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "rpc/audit/audit_event.h"
#include "rpc/audit/audit_file.h"

namespace quorate::rpc {

class AuditLog {
 public:
  // For so long lines wait for others, to be written together with them. A process that crashes
  // loses the lines of this time.
  static constexpr auto kBatchTime = std::chrono::milliseconds(50);
  // How often a write that failed is tried again.
  static constexpr auto kRetryTime = std::chrono::milliseconds(200);
  // For so long the destructor waits for a disk that takes no lines.
  static constexpr auto kCloseTime = std::chrono::seconds(5);

  struct Options {
    std::string path;
    uint64_t file_bytes_max = 10u << 20;
    int files_max = 10;          // besides the one that is written
    bool failures_only = false;  // events with another result are not recorded
    size_t queue_bytes_max = 32u << 20;
    std::string server_user;  // the user of events of the server itself
  };
  // Returns an error that names the file if it cannot be opened. `clock` must outlive the object.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(Options options, const Clock* clock);
  // Writes all lines, if the disk takes them within kCloseTime.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // Takes the event, with the present time. Does not wait for the disk.
  void Record(const AuditEvent& event);
  // As Record, for something that the server itself does: the user is Options::server_user.
  void RecordOwn(AuditEvent event);
  // As Record, for a call of an administrator, which is not an operation of ZooKeeper. `user` is
  // the name that the caller has proved, or empty; `ip` its address.
  void RecordCall(std::string_view user, std::string_view ip, std::string_view operation,
                  std::string_view detail, AuditResult result);
  // Returns whether events with this result are recorded.
  bool Wants(AuditResult result) const {
    return !options_.failures_only || result == AuditResult::kFailure;
  }
  const std::string& server_user() const { return options_.server_user; }

  // Waits until everything that was recorded before is written, at most for `timeout`. Returns
  // whether it is.
  bool Flush(std::chrono::milliseconds timeout);
  // Makes the thread open the file again by its name, because another program has moved it away.
  void Reopen();
  // Returns how many lines were lost so far.
  uint64_t lost() const;

 private:
  struct Queue;
  class Writer;

  AuditLog(Options options, AuditFile file, const Clock* clock);

  const Options options_;
  const std::shared_ptr<Queue> queue_;  // shared with the thread, which may outlive the object
  std::thread writer_;
};

}  // namespace quorate::rpc
