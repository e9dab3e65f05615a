// SPDX-License-Identifier: Apache-2.0

// Records in the audit log what happens to the server itself: its start and stop, that it begins or
// ends to lead, and changes of the members.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rpc/audit/audit_log.h"
#include "rpc/config/config.h"
#include "rpc/frontend/administration.h"
#include "rpc/frontend/service.h"

namespace quorate::rpc {

// Opens the audit log as `config` says; null if there is to be none. Returns an error that names the
// file, and what to do, if it cannot be opened. One thread.
absl::StatusOr<std::unique_ptr<AuditLog>> OpenAuditLog(const Config& config);

// Record that the server serves clients, or could not start; and that it was asked to stop. Any
// thread.
void RecordServerStart(bool succeeded, AuditLog* log);
void RecordServerStop(AuditLog* log);

// Thread-safety: none.
class ClusterAudit {
 public:
  // The pointers must outlive the object.
  ClusterAudit(AuditLog* log, const Service* service, const Administration* administration)
      : log_(log), service_(service), administration_(administration) {}

  // Called after the status of the service was updated.
  void OnStatusPublished();

 private:
  AuditLog* const log_;
  const Service* const service_;
  const Administration* const administration_;
  bool leads_ = false;
  std::string members_;  // empty: not known yet
};

// Returns the members in one line, such as "voters=1,2,3 observers=4"; empty if there are none.
std::string MembersLine(const ClusterView& view);

}  // namespace quorate::rpc
