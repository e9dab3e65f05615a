// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/cluster_service.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/escape.h"
#include "base/strings.h"
#include "base/version.h"
#include "rpc/grpc/caller.h"
#include "rpc/grpc/server_info.h"
#include "rpc/grpc/waiting_call.h"
#include "rpc/proto/errors.h"
#include "rpc/proto/times.h"

namespace quorate::rpc {
namespace {

using consensus::MemberId;

std::string Address(const std::string& host, uint16_t port) {
  if (host.empty() || port == 0) return "";
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                      : absl::StrCat(host, ":", port);
}

void SetSlowRequest(const SlowRequest& from, v1::SlowRequest* to) {
  *to->mutable_answer_time() = v1::TimestampOfMs(from.answered_ms);
  to->set_operation(std::string(from.operation));
  to->set_path(from.path);
  to->set_session(from.session);
  to->set_client(from.client);
  to->set_zxid(from.zxid);
  *to->mutable_duration() = v1::DurationOfUs(from.us);
  for (size_t i = 0; i < kRequestStages; ++i) {
    const auto stage = static_cast<RequestStage>(i);
    const int64_t us = from.stages.us(stage);
    if (us < 0) continue;
    v1::StageTime* time = to->add_stages();
    time->set_stage(std::string(NameOf(stage)));
    *time->mutable_duration() = v1::DurationOfUs(us);
  }
  to->set_longest_stage(std::string(NameOf(from.stages.longest())));
}

// The entries of each kind that TopRequests returns unless the caller asks for another number.
constexpr size_t kTopRequests = 10;

// The most members that a request may name.
constexpr int kMembersMax = 254;

absl::StatusOr<ServerLines> ParseMembers(const v1::ChangeMembersRequest& request) {
  ServerLines members;
  if (request.members_size() > kMembersMax) {
    return v1::ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "there are more than 254 members");
  }
  for (const v1::MemberLine& member : request.members()) {
    const std::string name = absl::StrCat("server.", member.id(), ": ");
    if (member.id() < 1 || member.id() > kMembersMax) {
      return v1::ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS,
                          name + "the number of a member is 1 to 254");
    }
    absl::StatusOr<ServerLine> line = ParseServerLine(member.server_line());
    if (!line.ok()) {
      return v1::ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS,
                          name + std::string(line.status().message()));
    }
    if (!members.emplace(member.id(), *std::move(line)).second) {
      return v1::ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, name + "the member is named twice");
    }
  }
  return members;
}

// Returns the error of a call of ChangeMembers for one of Administration::ChangeMembers.
absl::Status ChangeError(const absl::Status& error) {
  const v1::ErrorCode code = absl::IsInvalidArgument(error) ? v1::ERROR_CODE_BAD_ARGUMENTS
                             : absl::IsAborted(error)       ? v1::ERROR_CODE_MEMBERS_CHANGED
                             : absl::IsUnavailable(error)   ? v1::ERROR_CODE_UNAVAILABLE
                                                            : v1::ERROR_CODE_CANNOT_CHANGE_MEMBERS;
  return v1::ToStatus(code, ToStd(error.message()));
}

void SetChange(const ClusterView::Change& change, v1::MemberChange* to) {
  using State = ClusterView::Change::State;
  switch (change.state) {
    case State::kNone:
      break;
    case State::kRunning:
      to->set_state(v1::MEMBER_CHANGE_STATE_RUNNING);
      break;
    case State::kDone:
      to->set_state(v1::MEMBER_CHANGE_STATE_DONE);
      break;
    case State::kFailed:
      to->set_state(v1::MEMBER_CHANGE_STATE_FAILED);
      break;
  }
  to->set_what(change.what);
  to->set_detail(change.detail);
}

void SetVersions(const ClusterView& view, v1::StatusResponse* response) {
  response->set_cluster_version(view.cluster_version);
  response->set_newest_version(view.newest_version);
  response->set_program_version(view.program_version);
  if (!view.is_leader || view.cluster_version >= view.newest_version) return;
  for (const ClusterView::Member& member : view.members) {
    if (member.newest_version >= view.newest_version) continue;
    response->add_held_back_by(member.id.value());
  }
}

}  // namespace

ClusterService::ClusterService(const Config& config, rpc::Service* service,
                               Administration* administration, Administrators* administrators,
                               BackupSender* backups, const Clock* clock)
    : config_(config),
      service_(service),
      administration_(administration),
      administrators_(administrators),
      backups_(backups),
      clock_(clock),
      started_(clock->Now()) {}

void ClusterService::SetDiskUse(DiskUse use) {
  MutexLock lock(&mutex_);
  disk_use_ = use;
}

v1::Role ClusterService::OwnRole(const ClusterView& view) const {
  if (view.is_leader) return v1::ROLE_LEADER;
  if (view.leader == consensus::kNoMember || view.leader == view.self) return v1::ROLE_LOOKING;
  for (const ClusterView::Member& member : view.members) {
    if (member.id == view.self && member.observer) return v1::ROLE_OBSERVER;
  }
  return v1::ROLE_FOLLOWER;
}

grpc::ServerUnaryReactor* ClusterService::Status(grpc::CallbackServerContext* context,
                                                 const v1::StatusRequest* /*request*/,
                                                 v1::StatusResponse* response) {
  const auto caller = AdmitCall(Operation::kClusterStatus, *context, administrators_);
  if (!caller.ok()) return Refuse(context, caller);
  const bool is_whole = administrators_->IsAdministrator(*caller);
  const ClusterView view = administration_->cluster_view();
  response->set_member(view.self.value());
  response->set_role(OwnRole(view));
  response->set_serving(service_->status().serving());
  response->set_leader(view.leader.value());
  response->set_term(view.term.value());
  response->set_commit_index(view.commit_index.value());
  response->set_applied_index(view.applied_index.value());
  response->set_reduced(!is_whole);
  SetVersions(view, response);
  {
    const GuardedTree::ReadGuard tree = service_->ReadTree();
    response->set_zxid(tree->last_zxid().value());
    response->set_sessions(tree->session_count());
    response->set_nodes(tree->node_count());
    if (is_whole) {
      response->set_digest(tree->digest());
      response->set_data_bytes(tree->data_bytes());
    }
  }
  if (is_whole) {
    response->set_cluster_id(view.cluster_id);
    response->set_checkpoint_zxid(administration_->checkpoint_zxid().value());
    MutexLock lock(&mutex_);
    response->set_disk_used_bytes(disk_use_.used);
    response->set_disk_free_bytes(disk_use_.free);
  }
  response->set_version(kProgramVersion);
  *response->mutable_uptime() = v1::DurationOfMs(
      std::chrono::duration_cast<std::chrono::milliseconds>(clock_->Now() - started_).count());
  return FinishWith(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* ClusterService::Version(grpc::CallbackServerContext* context,
                                                  const v1::VersionRequest* /*request*/,
                                                  v1::VersionResponse* response) {
  const auto caller = AdmitCall(Operation::kClusterVersion, *context, administrators_);
  if (!caller.ok()) return Refuse(context, caller);
  SetServer(service_->cluster_version(), response->mutable_server());
  return FinishWith(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* ClusterService::Members(grpc::CallbackServerContext* context,
                                                  const v1::MembersRequest* /*request*/,
                                                  v1::MembersResponse* response) {
  const auto caller = AdmitCall(Operation::kClusterMembers, *context, administrators_);
  if (!caller.ok()) return Refuse(context, caller);
  const bool is_whole = administrators_->IsAdministrator(*caller);
  response->set_reduced(!is_whole);
  const ClusterView view = administration_->cluster_view();
  response->set_from_leader(view.is_leader);
  response->set_answered_by(view.self.value());
  response->set_leader(view.leader.value());
  response->set_term(view.term.value());
  response->set_changing(view.changing);
  response->set_membership_index(view.membership_index.value());
  if (is_whole && view.is_leader) SetChange(view.change, response->mutable_change());
  for (const ClusterView::Member& known : view.members) {
    v1::Member* member = response->add_members();
    member->set_id(known.id.value());
    member->set_reachable(known.reachable);
    // It names addresses.
    if (is_whole) member->set_problem(known.problem);
    member->set_in_sync(known.in_sync);
    member->set_match_index(known.match_index.value());
    if (known.id == view.self) {
      member->set_role(OwnRole(view));
    } else if (known.observer) {
      member->set_role(v1::ROLE_OBSERVER);
    } else if (known.id == view.leader) {
      member->set_role(v1::ROLE_LEADER);
    } else if (view.is_leader && known.reachable) {
      member->set_role(v1::ROLE_FOLLOWER);
    }
    if (is_whole) SetAddresses(known, known.id == view.self, member);
  }
  return FinishWith(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* ClusterService::Metrics(grpc::CallbackServerContext* context,
                                                  const v1::MetricsRequest* request,
                                                  v1::MetricsResponse* response) {
  const auto caller = AdmitCall(Operation::kClusterMetrics, *context, administrators_);
  if (!caller.ok()) return Refuse(context, caller);
  ASSERT(metrics_text_);
  response->set_text(metrics_text_({request->names().begin(), request->names().end()}));
  return FinishWith(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* ClusterService::SlowRequests(grpc::CallbackServerContext* context,
                                                       const v1::SlowRequestsRequest* request,
                                                       v1::SlowRequestsResponse* response) {
  const auto caller = AdmitCall(Operation::kClusterSlowRequests, *context, administrators_);
  if (!caller.ok()) return Refuse(context, caller);
  const rpc::SlowRequests& slow = service_->slow_requests();
  response->set_member(administration_->cluster_view().self.value());
  *response->mutable_threshold() = v1::DurationOfMs(slow.threshold_ms());
  uint64_t count = 0;
  for (const auto& [operation, of_operation] : slow.counts()) {
    count += static_cast<uint64_t>(of_operation);
  }
  response->set_count(count);
  response->set_not_kept(static_cast<uint64_t>(slow.not_kept()));
  const size_t count_max = request->count_max() == 0 ? SIZE_MAX : request->count_max();
  for (const SlowRequest& one : slow.Last(count_max)) SetSlowRequest(one, response->add_requests());
  return FinishWith(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* ClusterService::TopRequests(grpc::CallbackServerContext* context,
                                                      const v1::TopRequestsRequest* request,
                                                      v1::TopRequestsResponse* response) {
  const auto caller = AdmitCall(Operation::kClusterTopRequests, *context, administrators_);
  if (!caller.ok()) return Refuse(context, caller);
  const RequestStatistics& requests = service_->requests();
  const auto now = clock_->Now();
  const WindowLatencies all = requests.SumRecent(LoopTopRequests::kWindow, now).all();
  const size_t count_max = request->count_max() == 0 ? kTopRequests : request->count_max();
  response->set_member(administration_->cluster_view().self.value());
  response->set_per_second(all.PerSecond(all.count()));
  const auto add = [&](RequestKey key, google::protobuf::RepeatedPtrField<v1::RequestRate>* to) {
    for (const TopEntry& entry : requests.Top(key, now, count_max)) {
      v1::RequestRate* rate = to->Add();
      rate->set_name(Escape(entry.text));
      rate->set_session(entry.session);
      rate->set_per_second(all.PerSecond(entry.count));
    }
  };
  add(RequestKey::kClient, response->mutable_clients());
  add(RequestKey::kIdentity, response->mutable_identities());
  add(RequestKey::kPath, response->mutable_paths());
  add(RequestKey::kOperation, response->mutable_operations());
  return FinishWith(context, grpc::Status::OK);
}

void ClusterService::SetAddresses(const ClusterView::Member& known, bool is_self,
                                  v1::Member* member) const {
  const std::optional<ServerLine>& server = known.addresses;
  if (server.has_value()) {
    member->set_peer_address(Address(server->host, server->peer_port));
    member->set_client_address(Address(server->host, server->client_port));
    member->set_server_line(FormatServerLine(*server));
  }
  // A server knows its own client port, even if its server line has none.
  if (!is_self || !member->client_address().empty()) return;
  const bool is_plain = config_.client_port != 0;
  const bool is_everywhere =
      is_plain ? config_.ListensForClientsEverywhere() : config_.secure_client_address.empty();
  const uint16_t port = is_plain ? config_.client_port : config_.secure_client_port;
  member->set_client_address(!server.has_value() || !is_everywhere ? config_.ClientEndpoint()
                                                                   : Address(server->host, port));
}

void ClusterService::RecordCall(const grpc::ServerContextBase& context,
                                const absl::StatusOr<Principal>& caller, std::string_view operation,
                                std::string_view detail, AuditResult result) {
  if (audit_ == nullptr) return;
  if (caller.ok()) {
    audit_->RecordCall(caller->Name(), caller->address, operation, detail, result);
  } else {
    audit_->RecordCall(/*user=*/{}, AddressOf(context.peer()), operation, detail, result);
  }
}

grpc::ServerUnaryReactor* ClusterService::Refuse(grpc::CallbackServerContext* context,
                                                 const absl::StatusOr<Principal>& caller) {
  if (absl::IsUnauthenticated(caller.status())) {
    RecordCall(*context, caller, "authenticate", "authorization", AuditResult::kFailure);
  }
  return FinishWith(context, v1::ToGrpc(caller.status()));
}

grpc::ServerUnaryReactor* ClusterService::TransferLeadership(
    grpc::CallbackServerContext* context, const v1::TransferLeadershipRequest* request,
    v1::TransferLeadershipResponse* /*response*/) {
  const auto caller = AdmitCall(Operation::kClusterTransferLeadership, *context, administrators_);
  const MemberId target(request->member());
  std::string detail;
  if (target != consensus::kNoMember) detail = absl::StrCat("member=", target.value());
  if (!caller.ok()) {
    RecordCall(*context, caller, "transferLeadership", detail, AuditResult::kFailure);
    return FinishWith(context, v1::ToGrpc(caller.status()));
  }
  auto* call = new WaitingCall;
  administration_->TransferLeadership(
      target, [handle = call->handle(), audit = audit_, detail, user = caller->Name(),
               ip = caller->address](const absl::Status& begun) {
        if (audit != nullptr) {
          audit->RecordCall(user, ip, "transferLeadership", detail,
                            begun.ok() ? AuditResult::kSuccess : AuditResult::kFailure);
        }
        handle->Finish(begun.ok() ? grpc::Status::OK
                                  : v1::ToGrpc(v1::ToStatus(v1::ERROR_CODE_CANNOT_TRANSFER,
                                                            ToStd(begun.message()))));
      });
  return call;
}

grpc::ServerUnaryReactor* ClusterService::ChangeMembers(grpc::CallbackServerContext* context,
                                                        const v1::ChangeMembersRequest* request,
                                                        v1::ChangeMembersResponse* /*response*/) {
  const auto caller = AdmitCall(Operation::kClusterChangeMembers, *context, administrators_);
  const absl::StatusOr<ServerLines> members =
      caller.ok() ? ParseMembers(*request) : absl::StatusOr<ServerLines>(caller.status());
  // A request that is refused may be of any size.
  std::string detail = members.ok() ? "" : absl::StrCat("members=", request->members_size());
  if (members.ok()) {
    for (const auto& [id, line] : *members) {
      absl::StrAppend(&detail, detail.empty() ? "" : " ", "server.", id, "=",
                      FormatServerLine(line));
    }
  }
  if (!members.ok()) {
    RecordCall(*context, caller, "changeMembers", detail, AuditResult::kFailure);
    return FinishWith(context, v1::ToGrpc(members.status()));
  }
  auto* call = new WaitingCall;
  administration_->ChangeMembers(
      *members, consensus::Index(request->membership_index()),
      [handle = call->handle(), audit = audit_, detail, user = caller->Name(),
       ip = caller->address](const absl::Status& outcome) {
        if (audit != nullptr) {
          audit->RecordCall(user, ip, "changeMembers", detail,
                            outcome.ok()                ? AuditResult::kSuccess
                            : IsUnknownOutcome(outcome) ? AuditResult::kInvoked
                                                        : AuditResult::kFailure);
        }
        handle->Finish(outcome.ok() ? grpc::Status::OK : v1::ToGrpc(ChangeError(outcome)));
      });
  return call;
}

grpc::ServerWriteReactor<v1::BackupResponse>* ClusterService::Backup(
    grpc::CallbackServerContext* context, const v1::BackupRequest* request) {
  const auto caller = AdmitCall(Operation::kClusterBackup, *context, administrators_);
  const bool serves = service_->status().serving();
  RecordCall(*context, caller, "backup", /*detail=*/{},
             caller.ok() && serves ? AuditResult::kInvoked : AuditResult::kFailure);
  if (!caller.ok()) return BackupSender::Refuse(caller.status());
  if (!serves) {
    return BackupSender::Refuse(
        v1::ToStatus(v1::ERROR_CODE_UNAVAILABLE, "this member has no leader; try another one"));
  }
  return backups_->Open(context, *request);
}

}  // namespace quorate::rpc
