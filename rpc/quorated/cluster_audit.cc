// SPDX-License-Identifier: Apache-2.0

#include "rpc/quorated/cluster_audit.h"

#include <pwd.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace quorate::rpc {
namespace {

// Returns the name of the user who runs the server, or the number if there is no name.
std::string UserOfProcess() {
  passwd entry{};
  passwd* user = nullptr;
  char buffer[4096];
  if (getpwuid_r(geteuid(), &entry, buffer, sizeof(buffer), &user) == 0 && user != nullptr) {
    return user->pw_name;
  }
  return absl::StrCat(geteuid());
}

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> OpenAuditLog(const Config& config) {
  if (!config.audit) return nullptr;
  AuditLog::Options options;
  options.path = config.audit_file;
  options.file_bytes_max = static_cast<uint64_t>(config.audit_file_bytes);
  options.files_max = config.audit_files;
  options.failures_only = config.audit_failures_only;
  options.server_user = UserOfProcess();
  auto log = AuditLog::Open(std::move(options), Clock::System());
  if (log.ok()) return log;
  return absl::Status(log.status().code(),
                      absl::StrCat(log.status().message(),
                                   "; give auditFile a path that the server may write, or set "
                                   "audit.enable=false to run without an audit log"));
}

void RecordServerStart(bool succeeded, AuditLog* log) {
  log->RecordOwn({.operation = "serverStart",
                  .result = succeeded ? AuditResult::kSuccess : AuditResult::kFailure});
}

void RecordServerStop(AuditLog* log) {
  log->RecordOwn({.operation = "serverStop", .result = AuditResult::kInvoked});
}

void ClusterAudit::OnStatusPublished() {
  const ServerStatus status = service_->status();
  if (status.standalone) return;
  const ClusterView view = administration_->cluster_view();
  if (std::exchange(leads_, status.is_leader) != status.is_leader) {
    const std::string term = absl::StrCat("term=", view.term.value());
    log_->RecordOwn(
        {.operation = status.is_leader ? "leadershipBegin" : "leadershipEnd", .detail = term});
  }
  std::string members = MembersLine(view);
  if (members.empty() || members == members_) return;
  if (!members_.empty()) log_->RecordOwn({.operation = "membershipChange", .detail = members});
  members_ = std::move(members);
}

std::string MembersLine(const ClusterView& view) {
  std::string voters, observers;
  for (const ClusterView::Member& member : view.members) {
    std::string& names = member.observer ? observers : voters;
    absl::StrAppend(&names, names.empty() ? "" : ",", member.id.value());
  }
  if (voters.empty()) return observers.empty() ? "" : absl::StrCat("observers=", observers);
  return absl::StrCat("voters=", voters, observers.empty() ? "" : " observers=", observers);
}

}  // namespace quorate::rpc
