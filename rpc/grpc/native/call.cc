// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/call.h"

#include <optional>
#include <utility>

#include "base/assert.h"
#include "rpc/frontend/listing.h"
#include "rpc/frontend/reply_bytes.h"
#include "rpc/frontend/request_limits.h"
#include "rpc/grpc/native/list_reader.h"
#include "rpc/grpc/native/message_parts.h"
#include "rpc/grpc/native/reads.h"
#include "rpc/grpc/native/stream_loop.h"
#include "rpc/grpc/native/translation.h"
#include "rpc/grpc/native/writes.h"
#include "rpc/proto/errors.h"
#include "tree/limits.h"

namespace quorate::rpc::native {
namespace {

constexpr char kUnknownOutcome[] =
    "the write may or may not have been made: this member lost touch with the others before it "
    "knew; read, or use a session, in which writes can be sent again";

constexpr char kRepliesExceed[] =
    "replies that clients do not fetch take too much of this member's memory (memoryLimitMb); try "
    "again, or try another one";

constexpr char kNeedsSession[] =
    "an ephemeral znode belongs to a session: create it in one, not in a call";

// A reply of at most this size is sent even if replies take too much memory.
constexpr size_t kSmallReplyBytes = 64u << 10;

using Write = v1::Request::Write;

// Return each kind of write in the form that it has in a session.
Write WriteOf(v1::CreateRequest&& request) {
  Write write;
  *write.add_operations()->mutable_create() = std::move(*request.mutable_create());
  return write;
}

Write WriteOf(v1::SetRequest&& request) {
  Write write;
  *write.add_operations()->mutable_set() = std::move(*request.mutable_set());
  return write;
}

Write WriteOf(v1::DeleteRequest&& request) {
  Write write;
  *write.add_operations()->mutable_delete_() = std::move(*request.mutable_delete_());
  return write;
}

Write WriteOf(v1::CreateIfNotExistsRequest&& request) {
  Write write;
  *write.add_operations()->mutable_create_if_not_exists() = std::move(*request.mutable_create());
  return write;
}

Write WriteOf(v1::RemoveRecursiveRequest&& request) {
  Write write;
  *write.add_operations()->mutable_remove_recursive() = std::move(*request.mutable_remove());
  return write;
}

Write WriteOf(v1::TryRemoveRequest&& request) {
  Write write;
  *write.add_operations()->mutable_try_remove() = std::move(*request.mutable_remove());
  return write;
}

Write WriteOf(v1::TxnRequest&& request) {
  Write write;
  write.mutable_operations()->Swap(request.mutable_operations());
  write.mutable_compares()->Swap(request.mutable_compares());
  write.mutable_otherwise()->Swap(request.mutable_otherwise());
  return write;
}

RequestKind KindOf(Method method) {
  switch (method) {
    case Method::kGet:
      return RequestKind::kGet;
    case Method::kExists:
      return RequestKind::kExists;
    case Method::kList:
      return RequestKind::kList;
    default:
      return RequestKind::kListRecursive;
  }
}

// Sets `*to` to the same request in a session, if it is one for a list.
void SetListRequest(const v1::ListRequest& request, v1::Request* to) {
  v1::Request::List* list = to->mutable_list();
  list->set_path(request.path());
  list->set_kind(request.kind());
  list->set_with_stats(request.with_stats());
  list->set_with_data(request.with_data());
}

void SetListRequest(const v1::ListRecursiveRequest& request, v1::Request* to) {
  v1::Request::ListRecursive* list = to->mutable_list_recursive();
  list->set_path(request.path());
  if (request.has_max()) list->set_max(request.max());
}

template <class Request>
void SetListRequest(const Request&, v1::Request*) {}

absl::Status NotARequest() {
  return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "the message is not a request of this method");
}

}  // namespace

Call::Call(StreamLoop* loop, uint32_t tag, std::string client_address, Method method)
    : Stream(loop, tag, std::move(client_address), /*is_call=*/true),
      method_(method),
      opened_(loop->now()) {}

absl::Status Call::OnMessage(std::string_view bytes) {
  if (state_ != State::kNew)
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "a call has one request");
  switch (method_) {
    case Method::kGet:
      return BeginRead<v1::GetRequest>(bytes);
    case Method::kExists:
      return BeginRead<v1::ExistsRequest>(bytes);
    case Method::kList:
      return BeginRead<v1::ListRequest>(bytes);
    case Method::kListRecursive:
      return BeginRead<v1::ListRecursiveRequest>(bytes);
    case Method::kCreate:
      return BeginWrite<v1::CreateRequest>(bytes);
    case Method::kSet:
      return BeginWrite<v1::SetRequest>(bytes);
    case Method::kDelete:
      return BeginWrite<v1::DeleteRequest>(bytes);
    case Method::kCreateIfNotExists:
      return BeginWrite<v1::CreateIfNotExistsRequest>(bytes);
    case Method::kRemoveRecursive:
      return BeginWrite<v1::RemoveRecursiveRequest>(bytes);
    case Method::kTryRemove:
      return BeginWrite<v1::TryRemoveRequest>(bytes);
    case Method::kTxn:
      return BeginWrite<v1::TxnRequest>(bytes);
    default:
      break;
  }
  ASSERT(false, "other methods are not calls");
}

absl::Status Call::Admit() {
  if (absl::Status s = Authenticate(); !s.ok()) return s;
  if (!tenants().TakeRequest(loop_->now())) return OnLimit(Limit::kRequests);
  if (tenants().IsAtBytes()) return OnLimit(Limit::kOutstandingBytes);
  if (tenants().IsAtOutstanding(0)) return OnLimit(Limit::kOutstandingRequests);
  tenants().SetOutstanding(outstanding(), 0);
  received_ = loop_->now();
  return absl::OkStatus();
}

// --- Reads ---------------------------------------------------------------------------------------

template <class Request>
absl::Status Call::BeginRead(std::string_view bytes) {
  if (absl::Status s = CheckParts(*Request::descriptor(), bytes); !s.ok()) return s;
  Request request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return NotARequest();
  kind_ = KindOf(method_);
  path_ = request.path();
  if (absl::Status s = Admit(); !s.ok()) return s;
  SetListRequest(request, &list_request_);
  options_ = request.options();
  wants_to_continue_ = true;
  state_ = State::kReady;
  if (!options_.linearizable()) {
    return options_.any_state() ? absl::OkStatus()
                                : CheckFresh(loop_->status(), loop_->frontend().config());
  }
  if (!loop_->frontend().service().status().in_touch) return OutOfTouch();
  state_ = State::kWaiting;
  loop_->JoinBarrier(tag());
  return absl::OkStatus();
}

void Call::OnBarrierDone(uint64_t) {
  state_ = State::kReady;
  wants_to_continue_ = true;
}

absl::Status Call::Continue() {
  wants_to_continue_ = false;
  if (state_ != State::kReady) return absl::OkStatus();
  const tree::Zxid wanted(options_.min_zxid());
  if (wanted > loop_->seen_zxid()) {
    if (loop_->now() - opened_ < kCatchUpTimeout) return absl::OkStatus();
    return IsBehind(wanted, loop_->seen_zxid());
  }
  switch (method_) {
    case Method::kGet:
      return DoRead<v1::GetResponse>();
    case Method::kExists:
      return DoRead<v1::ExistsResponse>();
    default:
      return DoList();
  }
}

template <class Response>
absl::Status Call::DoRead() {
  Response response;
  response.set_zxid(loop_->seen_zxid().value());
  const v1::ErrorCode error = Read(loop_->tree(), path_, identities(),
                                   loop_->frontend().members_text(), response.mutable_result());
  if (error != v1::ERROR_CODE_UNSPECIFIED) return FailRead(error);
  loop_->Spend(1 + response.result().ByteSizeLong() / kBytesPerNode +
               identities().all().size() / kIdentitiesPerNode);
  return SendRead(response);
}

absl::Status Call::DoList() {
  NativeFrontend& frontend = loop_->frontend();
  if (list_ == nullptr) {
    list_ = ListReader::New(list_request_, &frontend);
  }
  const v1::ErrorCode error = list_->Read(loop_->tree(), loop_->seen_zxid(), identities());
  if (error != v1::ERROR_CODE_UNSPECIFIED) return FailRead(error);
  loop_->Spend(list_->spent());
  if (!list_->done()) {
    is_in_pieces_ = true;
    wants_to_continue_ = true;
    return absl::OkStatus();
  }
  v1::Response response;
  response.set_zxid(loop_->seen_zxid().value());
  // The rest does not need the tree. It is safe to unlock the tree, because no later event is sent
  // before the response.
  if (list_->is_long()) loop_->UnlockTree();
  list_->Finish(&response);
  return SendList(std::move(response));
}

absl::Status Call::SendList(v1::Response list) {
  if (method_ == Method::kListRecursive) {
    v1::ListRecursiveResponse response;
    response.set_zxid(list.zxid());
    response.mutable_result()->Swap(list.mutable_list_recursive());
    return SendRead(response);
  }
  v1::ListResponse response;
  response.set_zxid(list.zxid());
  response.mutable_result()->Swap(list.mutable_list());
  return SendRead(response);
}

absl::Status Call::SendRead(const google::protobuf::MessageLite& response) {
  MemoryBudget& memory = loop_->frontend().service().memory();
  if (memory.replies_exceed() && response.ByteSizeLong() > kSmallReplyBytes) {
    memory.CountRefused();
    return ToStatus(v1::ERROR_CODE_UNAVAILABLE, kRepliesExceed);
  }
  Send(response);
  return absl::OkStatus();
}

absl::Status Call::FailRead(v1::ErrorCode code) const {
  v1::ErrorDetail detail;
  detail.set_path(path_);
  detail.set_zxid(loop_->seen_zxid().value());
  return ToStatus(code, {}, std::move(detail));
}

// --- Writes --------------------------------------------------------------------------------------

template <class Request>
absl::Status Call::BeginWrite(std::string_view bytes) {
  if (absl::Status s = CheckParts(*Request::descriptor(), bytes); !s.ok()) return s;
  Request message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return NotARequest();
  const Write write = WriteOf(std::move(message));
  kind_ = KindOf(write);
  const auto add_paths = [this](const auto& parts) {
    for (const auto& part : parts) paths_.emplace_back(PathOf(part));
  };
  add_paths(write.operations());
  add_paths(write.otherwise());
  add_paths(write.compares());
  if (absl::Status s = Admit(); !s.ok()) return s;
  return BeginWrite(write);
}

absl::Status Call::BeginWrite(const Write& write) {
  const absl::Status status = TryToWrite(write);
  if (!status.ok()) {
    RecordRefused(loop_->frontend().request_audit(), tree::kNoSession, identities().shown(), write);
  }
  return status;
}

absl::Status Call::TryToWrite(const Write& write) {
  Service& service = loop_->frontend().service();
  if (absl::Status s = CheckServing(service); !s.ok()) return s;
  if (service.congested()) {
    return ToStatus(v1::ERROR_CODE_UNAVAILABLE,
                    "this member has too much to do; the write was not made: try again");
  }
  MemoryBudget& memory = service.memory();
  // The answer cannot be refused once the write is submitted.
  const bool reads = HasReads(write);
  if (reads && memory.replies_exceed()) {
    memory.CountRefused();
    return ToStatus(v1::ERROR_CODE_UNAVAILABLE, kRepliesExceed);
  }
  tree::Request request;
  request.identities = identities().all();
  request.enforces_quota = loop_->frontend().config().enforce_quota;
  const v1::ErrorCode refused = MakeRequest(write, loop_->frontend().config(), service, &request);
  if (refused != v1::ERROR_CODE_UNSPECIFIED) {
    return Fail(refused, {}, ReasonOf(refused, request, service.cluster_version()));
  }
  // The tree would refuse an ephemeral without a session only if its branch is taken.
  if (request.has_branches && EphemeralsIn(request) > 0) {
    return Fail(v1::ERROR_CODE_BAD_ARGUMENTS, {}, kNeedsSession);
  }
  asked_ = KindsOf(request);
  tree::CommandHeader header;
  header.kind = tree::CommandKind::kRequest;
  header.proposer = service.proposer();
  header.proposer_tag = tag();
  std::string& to = loop_->command_bytes();
  const size_t offset = to.size();
  tree::AppendRequest(header, request, &to);
  if (!loop_->AddedCommand(offset)) return Fail(v1::ERROR_CODE_TOO_LARGE, {});
  if (reads) loop_->Reserve(tag(), 0, ReadMemoryMax(request, tree::kReadCostMax));
  state_ = State::kInFlight;
  return absl::OkStatus();
}

absl::Status Call::OnResult(tree::ApplyResult result) {
  ASSERT(state_ == State::kInFlight);
  sequence_ = result.header.sequence;
  zxid_ = result.zxid;
  v1::TxnResponse response;
  response.set_zxid(result.zxid.value());
  v1::ErrorCode failed = ToProto(result.error);
  if (failed == v1::ERROR_CODE_UNSPECIFIED)
    failed = ToProto(result.ops, result.branch, asked_, response.mutable_results());
  response.set_branch(ToProto(result.branch));
  if (failed != v1::ERROR_CODE_UNSPECIFIED) {
    v1::ErrorDetail detail;
    detail.set_zxid(response.zxid());
    detail.set_branch(response.branch());
    detail.mutable_results()->Swap(response.mutable_results());
    return Fail(failed, std::move(detail));
  }
  if (method_ == Method::kTxn) {
    Send(response);
  } else {
    SendOnly(response.zxid(), response.mutable_results(0));
  }
  return absl::OkStatus();
}

void Call::SendOnly(int64_t zxid, v1::OperationResult* result) {
  switch (method_) {
    case Method::kCreate:
      return SendCreated(v1::CreateResponse(), zxid, result);
    case Method::kCreateIfNotExists:
      return SendCreated(v1::CreateIfNotExistsResponse(), zxid, result);
    case Method::kSet: {
      v1::SetResponse set;
      set.set_zxid(zxid);
      set.mutable_stat()->Swap(result->mutable_stat());
      return Send(set);
    }
    case Method::kRemoveRecursive:
      return SendRemoved(v1::RemoveRecursiveResponse(), zxid, *result);
    case Method::kTryRemove:
      return SendRemoved(v1::TryRemoveResponse(), zxid, *result);
    default:
      return SendRemoved(v1::DeleteResponse(), zxid, *result);
  }
}

template <class Response>
void Call::SendCreated(Response response, int64_t zxid, v1::OperationResult* result) {
  response.set_zxid(zxid);
  response.set_path(std::move(*result->mutable_path()));
  if (result->has_stat()) response.mutable_stat()->Swap(result->mutable_stat());
  Send(response);
}

template <class Response>
void Call::SendRemoved(Response response, int64_t zxid, const v1::OperationResult& result) {
  response.set_zxid(zxid);
  response.set_removed(result.removed());
  Send(response);
}

size_t Call::FirstPathOf(v1::Branch branch) const {
  // The paths are in the order of operations, otherwise, compares.
  if (branch == v1::BRANCH_OTHERWISE) return asked_.then_count;
  return branch == v1::BRANCH_COMPARES ? asked_.kinds.size() : 0;
}

absl::Status Call::Fail(v1::ErrorCode code, v1::ErrorDetail detail,
                        std::string_view message) const {
  const std::optional<uint32_t> failed = v1::FailedIndexOf(detail.results());
  if (method_ != Method::kTxn) {
    detail.set_path(paths_.front());
    detail.clear_results();
  } else if (failed.has_value()) {
    const size_t at = FirstPathOf(detail.branch()) + *failed;
    if (at < paths_.size()) detail.set_path(paths_[at]);
    detail.set_operation_index(*failed);
  }
  if (code == v1::ERROR_CODE_TOO_LARGE) {
    detail.set_data_bytes_max(loop_->frontend().config().jute_max_buffer_bytes);
  }
  return ToStatus(code, message, std::move(detail));
}

absl::Status Call::OnTreeReplaced() {
  // The pieces of the list that were read are from the old tree: starts the list again.
  if (std::exchange(list_, nullptr) != nullptr) wants_to_continue_ = true;
  if (state_ != State::kInFlight) return absl::OkStatus();
  return ToStatus(v1::ERROR_CODE_UNAVAILABLE, kUnknownOutcome);
}

absl::Status Call::CheckTime(std::chrono::steady_clock::time_point now,
                             int64_t leader_contact_age_ms) {
  if (state_ == State::kNew && now - opened_ > kOpenTimeout) {
    return ToStatus(v1::ERROR_CODE_NO_REQUEST, "no request was received");
  }
  if (state_ == State::kReady) wants_to_continue_ = true;
  if (leader_contact_age_ms <= kLeaderlessCallMs) return absl::OkStatus();
  if (state_ == State::kInFlight) return ToStatus(v1::ERROR_CODE_UNAVAILABLE, kUnknownOutcome);
  return state_ == State::kWaiting ? OutOfTouch() : absl::OkStatus();
}

// --- Statistics ----------------------------------------------------------------------------------

RequestRecord Call::Record() const {
  RequestRecord record;
  record.kind = kind_;
  record.received = *received_;
  record.sequence = sequence_;
  record.zxid = zxid_;
  record.waited_for_barrier = options_.linearizable();
  record.is_in_pieces = is_in_pieces_;
  record.path = paths_.empty() ? std::string_view(path_) : std::string_view(paths_.front());
  return record;
}

void Call::OnFinish() {
  if (received_.has_value()) loop_->CountAnswered(*this, Record());
}

void Call::CountUnanswered() const {
  if (received_.has_value() && !finished()) loop_->CountUnanswered(Record());
}

void Call::Send(const google::protobuf::MessageLite& response) {
  response.AppendToString(outbox().Open());
  outbox().Close();
  Finish(absl::OkStatus());
}

}  // namespace quorate::rpc::native
