// SPDX-License-Identifier: Apache-2.0

// The calls of ClusterService about sessions.

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/strings.h"
#include "rpc/grpc/caller.h"
#include "rpc/grpc/cluster_service.h"
#include "rpc/grpc/waiting_call.h"
#include "rpc/proto/errors.h"
#include "rpc/proto/times.h"

namespace quorate::rpc {
namespace {

// The limits of a page.
constexpr size_t kSessionsMax = 1000;
// Much less than the 4 MiB that a client of gRPC accepts by default.
constexpr size_t kSessionBytesMax = size_t{2} << 20;
constexpr size_t kPathsMax = 1000;
constexpr size_t kPathBytesMax = size_t{512} << 10;
// The sessions that are read while the tree is locked once.
constexpr size_t kSessionsPerHold = 250;

v1::ClientProtocol ToProto(ClientProtocol protocol) {
  return protocol == ClientProtocol::kGrpc ? v1::CLIENT_PROTOCOL_GRPC
                                           : v1::CLIENT_PROTOCOL_ZOOKEEPER;
}

// Returns the name of a session in the audit log, as other logs show it.
std::string NameOf(int64_t session) {
  return absl::StrCat("session=0x", absl::Hex(static_cast<uint64_t>(session)));
}

}  // namespace

void ClusterService::SetSession(const tree::SessionInfo& known, v1::Session* session) const {
  session->set_id(known.id.value());
  *session->mutable_timeout() = v1::DurationOfMs(known.timeout_ms);
  session->set_member(known.member);
  session->set_attach_zxid(known.attach_zxid.value());
  session->set_ephemerals(known.ephemerals);
  const std::shared_ptr<const AttachedSession> client =
      service_->attached_sessions().Find(known.id);
  // A client whose session has moved to another member may still be connected here.
  if (client == nullptr || known.member != service_->proposer().member) return;
  v1::SessionClient* shown = session->mutable_client();
  shown->set_protocol(ToProto(client->protocol));
  shown->set_address(client->address);
  for (const std::string& identity : client->identities) shown->add_identities(identity);
  const auto age = clock_->Now() - client->since;
  *shown->mutable_attached_for() = v1::DurationOfMs(
      std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(age).count()));
  shown->set_watches(static_cast<uint64_t>(client->watches.load(std::memory_order_relaxed)));
}

grpc::ServerUnaryReactor* ClusterService::ListSessions(grpc::CallbackServerContext* context,
                                                       const v1::ListSessionsRequest* request,
                                                       v1::ListSessionsResponse* response) {
  const auto caller = AdmitCall(Operation::kClusterListSessions, *context, administrators_);
  if (!caller.ok()) return Refuse(context, caller);
  const size_t limit =
      request->limit() == 0 ? kSessionsMax : std::min<size_t>(request->limit(), kSessionsMax);
  tree::SessionId last(request->has_after_id() ? request->after_id()
                                               : std::numeric_limits<int64_t>::min());
  // One more shows whether there are more.
  std::vector<tree::SessionInfo> known;
  while (known.size() <= limit) {
    const size_t max = std::min(kSessionsPerHold, limit + 1 - known.size());
    const auto piece = service_->ReadTree()->SessionsAfter(last, max);
    known.insert(known.end(), piece.begin(), piece.end());
    if (piece.size() < max) break;
    last = piece.back().id;
  }
  response->set_more(known.size() > limit);
  if (known.size() > limit) known.pop_back();
  size_t bytes = 0;
  for (const tree::SessionInfo& session : known) {
    v1::Session* shown = response->add_sessions();
    SetSession(session, shown);
    bytes += shown->ByteSizeLong();
    if (bytes <= kSessionBytesMax || response->sessions_size() == 1) continue;
    response->mutable_sessions()->RemoveLast();
    response->set_more(true);
    break;
  }
  response->set_answered_by(service_->proposer().member);
  return FinishWith(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* ClusterService::GetSession(grpc::CallbackServerContext* context,
                                                     const v1::GetSessionRequest* request,
                                                     v1::GetSessionResponse* response) {
  const auto caller = AdmitCall(Operation::kClusterGetSession, *context, administrators_);
  if (!caller.ok()) return Refuse(context, caller);
  const tree::SessionId id(request->id());
  response->set_answered_by(service_->proposer().member);
  tree::SessionInfo known;
  {
    const GuardedTree::ReadGuard tree = service_->ReadTree();
    if (!tree->FindSession(id, &known)) return FinishWith(context, grpc::Status::OK);
    size_t bytes = 0;
    const bool begins = tree->ReadEphemerals(id, request->after_path(), [&](std::string_view path) {
      const auto count = static_cast<size_t>(response->ephemerals_size());
      bytes += path.size();
      if (count == kPathsMax || (count > 0 && bytes > kPathBytesMax)) {
        response->set_more(true);
        return false;
      }
      response->add_ephemerals(std::string(path));
      return true;
    });
    if (!begins && !request->after_path().empty()) {
      response->Clear();
      return FinishWith(context,
                        v1::ToGrpc(v1::ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS,
                                                "after_path is no ephemeral znode of the session; "
                                                "begin with the first page again")));
    }
  }
  SetSession(known, response->mutable_session());
  return FinishWith(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* ClusterService::CloseSession(grpc::CallbackServerContext* context,
                                                       const v1::CloseSessionRequest* request,
                                                       v1::CloseSessionResponse* response) {
  static constexpr char kOperation[] = "closeSession";
  const auto caller = AdmitCall(Operation::kClusterCloseSession, *context, administrators_);
  const std::string detail = NameOf(request->id());
  if (!caller.ok()) {
    RecordCall(*context, caller, kOperation, detail, AuditResult::kFailure);
    return FinishWith(context, v1::ToGrpc(caller.status()));
  }
  ASSERT(closer_ != nullptr);
  auto* call = new WaitingCall;
  const auto finish = [handle = call->handle(), audit = audit_, detail, user = caller->Name(),
                       ip = caller->address,
                       response](const absl::Status& failure, AuditResult result) {
    if (audit != nullptr) audit->RecordCall(user, ip, kOperation, detail, result);
    handle->Finish(v1::ToGrpc(failure), [response, closed = result == AuditResult::kSuccess] {
      response->set_closed(closed);
    });
  };
  // The id 0 stands for no session.
  if (request->id() == tree::kNoSession.value()) {
    finish(absl::OkStatus(), AuditResult::kFailure);
    return call;
  }
  const absl::Status begun =
      closer_->Close(tree::SessionId(request->id()), [finish](const absl::StatusOr<bool>& closed) {
        if (closed.ok()) {
          return finish(absl::OkStatus(), *closed ? AuditResult::kSuccess : AuditResult::kFailure);
        }
        // The session may be closed.
        finish(v1::ToStatus(v1::ERROR_CODE_UNAVAILABLE, ToStd(closed.status().message())),
               AuditResult::kInvoked);
      });
  if (!begun.ok()) {
    const v1::ErrorCode error =
        absl::IsUnavailable(begun) ? v1::ERROR_CODE_UNAVAILABLE : v1::ERROR_CODE_TOO_MANY_STREAMS;
    finish(v1::ToStatus(error, ToStd(begun.message())), AuditResult::kFailure);
  }
  return call;
}

}  // namespace quorate::rpc
