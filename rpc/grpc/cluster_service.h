// SPDX-License-Identifier: Apache-2.0

// The gRPC service quorate.v1.ClusterService of one member; rpc/proto/quorate/v1/cluster.proto describes
// its methods, and rpc/frontend/authorization.h who may call them.
//
// Thread-safety: gRPC calls the methods from its threads; any thread may call SetDiskUse.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "rpc/audit/audit_log.h"
#include "rpc/config/config.h"
#include "rpc/frontend/administration.h"
#include "rpc/frontend/administrators.h"
#include "rpc/frontend/service.h"
#include "rpc/frontend/session_closer.h"
#include "rpc/grpc/backup_sender.h"
#include "rpc/proto/quorate/v1/cluster.grpc.pb.h"

namespace quorate::rpc {

// The disk use of a member's directories, in bytes.
struct DiskUse {
  uint64_t used = 0;
  uint64_t free = 0;
};

class ClusterService : public v1::ClusterService::CallbackService {
 public:
  // The pointers must outlive the object.
  ClusterService(const Config& config, rpc::Service* service, Administration* administration,
                 Administrators* administrators, BackupSender* backups, const Clock* clock);

  // Sets the log in which administrators' calls are recorded; nullptr: they are not. REQUIRES:
  // called before the service is registered; `audit` outlives the object.
  void SetAudit(AuditLog* audit) { audit_ = audit; }

  // Returns the metrics with the names, in the text format of Prometheus; all if there are no names.
  using MetricsText = std::function<std::string(const std::set<std::string, std::less<>>& names)>;
  // Sets what Metrics returns. REQUIRES: called before the service is registered; `text` may be called
  // from any thread until the server has ended.
  void SetMetrics(MetricsText text) { metrics_text_ = std::move(text); }

  // Sets what closes sessions. REQUIRES: called before the service is registered; `closer` outlives
  // the object.
  void SetSessionCloser(SessionCloser* closer) { closer_ = closer; }

  // Sets the disk use that Status reports from now on.
  void SetDiskUse(DiskUse use);

 private:
  // The base class's overloads that are not for the callback API.
  using v1::ClusterService::CallbackService::Backup;
  using v1::ClusterService::CallbackService::ChangeMembers;
  using v1::ClusterService::CallbackService::CloseSession;
  using v1::ClusterService::CallbackService::GetSession;
  using v1::ClusterService::CallbackService::ListSessions;
  using v1::ClusterService::CallbackService::Members;
  using v1::ClusterService::CallbackService::Metrics;
  using v1::ClusterService::CallbackService::SlowRequests;
  using v1::ClusterService::CallbackService::Status;
  using v1::ClusterService::CallbackService::TopRequests;
  using v1::ClusterService::CallbackService::TransferLeadership;
  using v1::ClusterService::CallbackService::Version;

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context,
                                   const v1::StatusRequest* request,
                                   v1::StatusResponse* response) override;
  grpc::ServerUnaryReactor* Version(grpc::CallbackServerContext* context,
                                    const v1::VersionRequest* request,
                                    v1::VersionResponse* response) override;
  grpc::ServerUnaryReactor* Members(grpc::CallbackServerContext* context,
                                    const v1::MembersRequest* request,
                                    v1::MembersResponse* response) override;
  grpc::ServerUnaryReactor* Metrics(grpc::CallbackServerContext* context,
                                    const v1::MetricsRequest* request,
                                    v1::MetricsResponse* response) override;
  grpc::ServerUnaryReactor* SlowRequests(grpc::CallbackServerContext* context,
                                         const v1::SlowRequestsRequest* request,
                                         v1::SlowRequestsResponse* response) override;
  grpc::ServerUnaryReactor* TopRequests(grpc::CallbackServerContext* context,
                                        const v1::TopRequestsRequest* request,
                                        v1::TopRequestsResponse* response) override;
  grpc::ServerUnaryReactor* TransferLeadership(grpc::CallbackServerContext* context,
                                               const v1::TransferLeadershipRequest* request,
                                               v1::TransferLeadershipResponse* response) override;
  grpc::ServerUnaryReactor* ChangeMembers(grpc::CallbackServerContext* context,
                                          const v1::ChangeMembersRequest* request,
                                          v1::ChangeMembersResponse* response) override;
  grpc::ServerWriteReactor<v1::BackupResponse>* Backup(grpc::CallbackServerContext* context,
                                                       const v1::BackupRequest* request) override;

  grpc::ServerUnaryReactor* ListSessions(grpc::CallbackServerContext* context,
                                         const v1::ListSessionsRequest* request,
                                         v1::ListSessionsResponse* response) override;
  grpc::ServerUnaryReactor* GetSession(grpc::CallbackServerContext* context,
                                       const v1::GetSessionRequest* request,
                                       v1::GetSessionResponse* response) override;
  grpc::ServerUnaryReactor* CloseSession(grpc::CallbackServerContext* context,
                                         const v1::CloseSessionRequest* request,
                                         v1::CloseSessionResponse* response) override;

  // Fills `session`, with its client if this server serves it.
  void SetSession(const tree::SessionInfo& known, v1::Session* session) const;

  // Records a call in the audit log, if there is one. `caller` is the result of AdmitCall.
  void RecordCall(const grpc::ServerContextBase& context, const absl::StatusOr<Principal>& caller,
                  std::string_view operation, std::string_view detail, AuditResult result);

  // Ends a call that AdmitCall has refused. Credentials that were refused are recorded in the audit
  // log.
  grpc::ServerUnaryReactor* Refuse(grpc::CallbackServerContext* context,
                                   const absl::StatusOr<Principal>& caller);

  v1::Role OwnRole(const ClusterView& view) const;
  // Sets the addresses of a member, which is this server if `is_self`.
  void SetAddresses(const ClusterView::Member& known, bool is_self, v1::Member* member) const;

  const Config& config_;
  rpc::Service* const service_;
  Administration* const administration_;
  Administrators* const administrators_;
  BackupSender* const backups_;
  AuditLog* audit_ = nullptr;
  MetricsText metrics_text_;
  SessionCloser* closer_ = nullptr;
  const Clock* const clock_;
  const std::chrono::steady_clock::time_point started_;

  Mutex mutex_;
  DiskUse disk_use_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quorate::rpc
