// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/session_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "rpc/frontend/listing.h"
#include "rpc/frontend/reply_bytes.h"
#include "rpc/frontend/request_limits.h"
#include "rpc/frontend/slow_requests.h"
#include "rpc/grpc/native/list_reader.h"
#include "rpc/grpc/native/message_parts.h"
#include "rpc/grpc/native/reads.h"
#include "rpc/grpc/native/stream_loop.h"
#include "rpc/grpc/native/translation.h"
#include "rpc/grpc/native/writes.h"
#include "rpc/grpc/server_info.h"
#include "rpc/proto/errors.h"
#include "rpc/proto/times.h"
#include "tree/limits.h"

namespace quorate::rpc::native {
namespace {

using Kind = v1::Request;

// The maximum number of requests that are answered while the tree is locked once.
constexpr int kAnsweredAtOnceMax = 1000;
// The approximate memory of a request in the pipeline, in bytes, without its message.
constexpr size_t kPendingBytes = 256;
// A stream that is slowed gets one request done in this part of its session timeout, even if its
// tenant has no tokens.
constexpr int kPartsOfTimeout = 4;

// Returns whether a request reads the tree or the watches as they are when the request is executed.
bool IsRead(Kind::KindCase kind) {
  switch (kind) {
    case Kind::kWrite:
    case Kind::kClose:
    case Kind::kSync:
    case Kind::kAddCredential:
      return false;
    default:
      return true;
  }
}

bool IsList(Kind::KindCase kind) { return kind == Kind::kList || kind == Kind::kListRecursive; }

bool IsLinearizable(const v1::Request& request) {
  switch (request.kind_case()) {
    case Kind::kGet:
      return request.get().linearizable();
    case Kind::kExists:
      return request.exists().linearizable();
    case Kind::kList:
      return request.list().linearizable();
    case Kind::kListRecursive:
      return request.list_recursive().linearizable();
    case Kind::kGetAcl:
      return request.get_acl().linearizable();
    default:
      return false;
  }
}

}  // namespace

SessionStream::SessionStream(StreamLoop* loop, uint32_t tag, std::string client_address)
    : Stream(loop, tag, std::move(client_address), /*is_call=*/false),
      opened_(loop->now()),
      reserved_(&loop->frontend().service().memory(), MemoryUse::kReads) {}

SessionStream::~SessionStream() {
  // Whether an earlier copy of these writes was applied is not known, and no result will tell.
  for (const Pending& pending : pipeline_) {
    if (pending.refused != v1::ERROR_CODE_UNSPECIFIED && pending.request != nullptr) Audit(pending);
  }
}

bool SessionStream::HasMuchToSend() { return outbox().bytes() >= EventFeed::kUnsentBytesMax; }

bool SessionStream::IsFull() const {
  return pipeline_.size() >= kPipelineRequestsMax || held_bytes_ >= kHeldBytesMax || IsHeldBack();
}

bool SessionStream::IsHeldBack() const {
  return !pipeline_.empty() && tenants().IsAtOutstanding(pipeline_.size());
}

bool SessionStream::TakeTouched() {
  return std::exchange(touched_, false) && (state_ == State::kAttached || state_ == State::kUp);
}

// --- Messages ------------------------------------------------------------------------------------

absl::Status SessionStream::OnMessage(std::string_view bytes) {
  touched_ = true;
  if (CountField(bytes, v1::SessionRequest::kRequestsFieldNumber) > kMessageRequestsMax) {
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS,
                    absl::StrCat("a message may have ", kMessageRequestsMax, " requests"));
  }
  if (absl::Status s = CheckParts(*v1::SessionRequest::descriptor(), bytes); !s.ok()) return s;
  v1::SessionRequest message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "a message is not a quorate.v1.SessionRequest");
  }
  if (message.has_open() != (state_ == State::kNew)) {
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS,
                    "the first message of a stream, and no other, has `open`");
  }
  acknowledged_ = std::max(acknowledged_, message.acknowledged_sequence());
  if (state_ == State::kNew) {
    if (absl::Status s = OnOpen(message.open()); !s.ok()) return s;
  }
  std::vector<v1::Request*> requests(static_cast<size_t>(message.requests_size()));
  message.mutable_requests()->ExtractSubrange(0, message.requests_size(), requests.data());
  for (v1::Request* request : requests) {
    Pending& pending = pipeline_.emplace_back();
    pending.request.reset(request);
    pending.kind = request->kind_case();
    pending.what = KindOf(*request);
    pending.has_reads = request->has_write() && HasReads(request->write());
    pending.was_alone = pipeline_.size() == 1;
    pending.received = loop_->now();
    pending.id = request->id();
    pending.bytes = kPendingBytes + DecodedBytes(*request);
    held_bytes_ += pending.bytes;
  }
  wants_to_continue_ = true;
  Begin();
  return absl::OkStatus();
}

absl::Status SessionStream::OnHalfClosed() {
  if (state_ == State::kNew)
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "the stream has no message");
  half_closed_ = true;
  wants_to_continue_ = true;
  return absl::OkStatus();
}

// --- The session ---------------------------------------------------------------------------------

absl::Status SessionStream::OnOpen(const v1::OpenSession& open) {
  open_ = open;
  if (absl::Status s = CheckRevision(open.min_revision()); !s.ok()) return s;
  if (open.password().size() != tree::kPasswordBytes) {
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS,
                    absl::StrCat("a session's password has ", tree::kPasswordBytes, " bytes"));
  }
  if (!v1::ToMs(open.timeout()).has_value()) {
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "the timeout is not a valid duration");
  }
  if (absl::Status s = Authenticate(); !s.ok()) return s;
  if (absl::Status s = CheckServing(loop_->frontend().service()); !s.ok()) return s;
  state_ = State::kCatchingUp;  // Continue proceeds, while the tree is locked
  return absl::OkStatus();
}

absl::Status SessionStream::TryToBegin() {
  const tree::Zxid applied = loop_->seen_zxid();
  if (open_.last_zxid() <= applied.value()) return BeginSession();
  if (loop_->now() - opened_ < kCatchUpTimeout) return absl::OkStatus();
  return IsBehind(tree::Zxid(open_.last_zxid()), applied);
}

absl::Status SessionStream::BeginSession() {
  const Config& config = loop_->frontend().config();
  timeout_ms_ = static_cast<int32_t>(std::clamp<int64_t>(v1::ToMs(open_.timeout()).value_or(0),
                                                         config.min_session_timeout_ms,
                                                         config.max_session_timeout_ms));
  const bool is_new = open_.session_id() == 0;
  if (!is_new) {
    // Refuses an unknown session or a wrong password here, without an entry in the log.
    const tree::SessionId id(open_.session_id());
    tree::SessionInfo info;
    const bool known = loop_->tree().FindSession(id, &info);
    if (!known && confirm_barrier_ == 0) {
      state_ = State::kConfirming;
      confirm_barrier_ = loop_->JoinBarrier(tag());
      return absl::OkStatus();
    }
    if (!known || !loop_->tree().CheckPassword(id, open_.password())) {
      return ToStatus(v1::ERROR_CODE_SESSION_EXPIRED, {});
    }
  }
  if (is_new && loop_->frontend().service().memory().clients_exceed()) {
    loop_->frontend().service().memory().CountRefused();
    return ToStatus(v1::ERROR_CODE_TOO_MANY_STREAMS,
                    "this member's memory is almost used up (memoryLimitMb); try another one");
  }
  if (is_new && !tenants().TakeSession(loop_->now())) {
    if (loop_->now() - opened_ >= kCatchUpTimeout) return OnLimit(Limit::kNewSessions);
    if (!std::exchange(is_delayed_, true)) tenants().OnReached(Limit::kNewSessions, loop_->now());
    return absl::OkStatus();  // CheckTime tries again
  }
  session_ = is_new ? loop_->frontend().NewSessionId() : tree::SessionId(open_.session_id());
  std::string& to = loop_->command_bytes();
  const size_t offset = to.size();
  if (is_new) {
    tree::AppendCreateSession(Header(tree::CommandKind::kCreateSession), timeout_ms_,
                              open_.password(), &to);
  } else {
    tree::AppendAttachSession(Header(tree::CommandKind::kAttachSession), timeout_ms_,
                              open_.password(), &to);
  }
  loop_->AddedCommand(offset);
  state_ = State::kOpening;
  return absl::OkStatus();
}

void SessionStream::SendOpened() {
  tree::SessionInfo info;
  // If the session does not exist any more, its end is about to be delivered.
  if (!loop_->tree().FindSession(session_, &info)) return;
  v1::SessionOpened opened;
  opened.set_session_id(session_.value());
  *opened.mutable_timeout() = v1::DurationOfMs(timeout_ms_);
  opened.set_member(loop_->frontend().service().proposer().member);
  opened.set_last_sequence(info.last_sequence);
  SetServer(loop_->frontend().service().cluster_version(), opened.mutable_server());
  AppendField(v1::SessionResponse::kOpenedFieldNumber, opened, outbox().Open());
  outbox().Close();
  state_ = State::kUp;
  touched_ = true;
  ShowSession(attach_zxid_);
}

absl::Status SessionStream::OnSessionClosed() {
  if (closing_) return absl::OkStatus();  // the client's own Close will be answered
  return ToStatus(v1::ERROR_CODE_SESSION_EXPIRED,
                  "the session has expired or was closed elsewhere");
}

absl::Status SessionStream::OnSessionAttached(tree::Zxid attach_zxid) {
  if (attach_zxid == attach_zxid_) return absl::OkStatus();
  return ToStatus(v1::ERROR_CODE_SESSION_MOVED, {});
}

absl::Status SessionStream::OnTreeReplaced() {
  return ToStatus(v1::ERROR_CODE_UNAVAILABLE,
                  "this member was far behind and has skipped events that its clients wait for; "
                  "open the session again");
}

absl::Status SessionStream::CheckTime(std::chrono::steady_clock::time_point now,
                                      int64_t leader_contact_age_ms) {
  if (state_ == State::kNew) {
    if (now - opened_ <= kOpenTimeout) return absl::OkStatus();
    return ToStatus(v1::ERROR_CODE_NO_REQUEST, "the session was not opened");
  }
  if (state_ == State::kCatchingUp) wants_to_continue_ = true;
  const std::chrono::milliseconds wait_max(timeout_ms_ / kPartsOfTimeout);
  if (is_slowed_ && tenants().EndSlowing(now, wait_max)) {
    is_slowed_ = false;
    wants_to_continue_ = true;
  }
  tenants().ForgetSlowing(now);
  const bool was_held_back = std::exchange(is_held_back_, IsHeldBack());
  if (is_held_back_ && !was_held_back) {
    tenants().OnReached(
        tenants().IsAtBytes() ? Limit::kOutstandingBytes : Limit::kOutstandingRequests, now);
  }
  // The client has to learn in time that its session may end elsewhere.
  const int64_t limit_ms =
      std::max<int64_t>(timeout_ms_ / 2, 3 * loop_->frontend().config().election_timeout_ms);
  return leader_contact_age_ms > limit_ms ? OutOfTouch() : absl::OkStatus();
}

tree::CommandHeader SessionStream::Header(tree::CommandKind kind) const {
  tree::CommandHeader header;
  header.kind = kind;
  header.proposer = loop_->frontend().service().proposer();
  header.proposer_tag = tag();
  header.session = session_;
  header.attach_zxid = attach_zxid_;
  return header;
}

// --- Requests ------------------------------------------------------------------------------------

bool SessionStream::CanBegin(const Pending& pending) {
  if (state_ != State::kUp || closing_ || finished()) return false;
  if (IsSentAgain(pending) && long_writes_ > 0) return false;
  if (pending.has_reads && long_writes_ >= LongWritesMax()) return false;
  return IsRead(pending.kind) || pending.kind == Kind::kSync || reads_begun_ == 0;
}

bool SessionStream::IsSentAgain(const Pending& pending) const {
  return pending.kind == Kind::kWrite && pending.request->write().sequence() <= begun_sequence_;
}

size_t SessionStream::LongWritesMax() const {
  return loop_->frontend().service().memory().replies_exceed() ? 1 : kReadingWritesMax;
}

void SessionStream::Begin() {
  while (begun_ < pipeline_.size() && CanBegin(pipeline_[begun_]) && TakeToken(pipeline_[begun_])) {
    BeginOne(&pipeline_[begun_++]);
  }
}

bool SessionStream::TakeToken(const Pending& pending) {
  if (!tenants().limits_requests() || pending.kind == Kind::kClose) return true;
  if (is_slowed_) return false;
  if (tenants().TakeRequest(loop_->now())) return true;
  is_slowed_ = true;
  tenants().OnReached(Limit::kRequests, loop_->now());
  return false;
}

void SessionStream::BeginOne(Pending* pending) {
  pending->stage = Stage::kInFlight;
  switch (pending->kind) {
    case Kind::kWrite:
      BeginWrite(pending);
      return;
    case Kind::kClose: {
      std::string& to = loop_->command_bytes();
      const size_t offset = to.size();
      tree::AppendCloseSession(Header(tree::CommandKind::kCloseSession), &to);
      loop_->AddedCommand(offset);
      closing_ = true;
      return;
    }
    case Kind::kSync:
      pending->barrier = loop_->JoinBarrier(tag());
      return;
    case Kind::kAddCredential:
      DoAddCredential(pending);
      return;
    default:
      ++reads_begun_;
      if (IsLinearizable(*pending->request)) {
        pending->barrier = loop_->JoinBarrier(tag());
      } else {
        pending->stage = Stage::kReady;
      }
  }
}

void SessionStream::BeginWrite(Pending* pending) {
  const v1::Request::Write& write = pending->request->write();
  if (write.sequence() == 0) {
    Audit(*pending);
    v1::Response response;
    response.set_error(v1::ERROR_CODE_BAD_ARGUMENTS);
    Answer(std::move(response), pending);
    return;
  }
  const bool is_sent_again = IsSentAgain(*pending);
  pending->is_long = is_sent_again || pending->has_reads;
  if (pending->is_long) ++long_writes_;
  begun_sequence_ = std::max(begun_sequence_, write.sequence());
  tree::Request request;
  request.identities = identities().all();
  request.enforces_quota = loop_->frontend().config().enforce_quota;
  pending->refused =
      MakeRequest(write, loop_->frontend().config(), loop_->frontend().service(), &request);
  pending->asked = KindsOf(request);
  pending->parts = PartsOf(write);
  const size_t answer_bytes =
      is_sent_again ? tree::kAnswerBytesMax : ReadMemoryMax(request, tree::kNumberedReadCostMax);
  const uint32_t version = loop_->frontend().service().cluster_version();
  // `shown` is the error for the client, `why` the one for the tree.
  const auto refuse = [&](v1::ErrorCode shown, v1::ErrorCode why) {
    pending->refused = shown;
    MakeRefused(why, version, &request);
  };
  const size_t ephemerals =
      pending->refused == v1::ERROR_CODE_UNSPECIFIED ? EphemeralsIn(request) : 0;
  if (ephemerals > 0 && !tenants().MayCreateEphemerals(ephemerals)) {
    tenants().OnReached(Limit::kEphemerals, loop_->now());
    refuse(v1::ERROR_CODE_QUOTA_EXCEEDED, v1::ERROR_CODE_NO_SPACE);
  } else if (pending->refused != v1::ERROR_CODE_UNSPECIFIED) {
    refuse(pending->refused, pending->refused);
  } else if (ephemerals > 0) {
    pending->ephemerals = ephemerals;
    ephemerals_in_flight_ += ephemerals;
    tenants().SetEphemerals(tenants().ephemerals() + ephemerals);
  }
  std::string& to = loop_->command_bytes();
  const size_t offset = to.size();
  const tree::CommandHeader header = Header(tree::CommandKind::kSequencedRequest);
  tree::AppendSequencedRequest(header, write.sequence(), acknowledged_, request, &to);
  if (!loop_->AddedCommand(offset)) {
    refuse(v1::ERROR_CODE_TOO_LARGE, v1::ERROR_CODE_TOO_LARGE);
    tree::AppendSequencedRequest(header, write.sequence(), acknowledged_, request, &to);
    const bool added = loop_->AddedCommand(offset);
    ASSERT(added, "a request with only identities is bounded");
  }
  if (answer_bytes > 0) loop_->Reserve(tag(), write.sequence(), answer_bytes);
  // A refused write may have been applied when it was sent before. Its result tells, and only then is
  // it recorded, or not, in the audit log.
  pending->command = loop_->batch_bytes();
  pending->offset = offset;
  const bool is_audited = pending->refused != v1::ERROR_CODE_UNSPECIFIED &&
                          loop_->frontend().request_audit() != nullptr;
  if (!is_audited) Release(pending);
}

void SessionStream::Audit(const Pending& pending) const {
  RecordRefused(loop_->frontend().request_audit(), session_, identities().shown(),
                pending.request->write());
}

void SessionStream::DoAddCredential(Pending* pending) {
  v1::Response response;
  if (!AddCredential(pending->request->add_credential()).ok()) {
    response.set_error(v1::ERROR_CODE_AUTH_FAILED);
  } else if (absl::Status s = JoinIdentity(); !s.ok()) {
    Finish(s);
  }
  response.set_zxid(loop_->seen_zxid().value());
  Answer(std::move(response), pending);
}

void SessionStream::Answer(v1::Response response, Pending* pending) {
  v1::SessionItem item;
  item.mutable_response()->Swap(&response);
  item.mutable_response()->set_id(pending->id);
  AppendField(v1::SessionResponse::kItemsFieldNumber, item, &pending->answer);
  pending->stage = Stage::kDone;
  if (const auto request = Release(pending)) pending->path = TakePath(request.get());
}

std::unique_ptr<v1::Request> SessionStream::Release(Pending* pending) {
  held_bytes_ -= std::exchange(pending->bytes, 0);
  return std::move(pending->request);
}

// --- Results and events --------------------------------------------------------------------------

absl::Status SessionStream::OnResult(tree::ApplyResult result) {
  const tree::CommandKind kind = result.header.kind;
  wants_to_continue_ = true;
  if (kind == tree::CommandKind::kCreateSession || kind == tree::CommandKind::kAttachSession) {
    if (result.error != tree::ErrorCode::kOk) {
      // The id of the new session is in use, because ids are random: tries another one.
      if (open_.session_id() == 0) {
        state_ = State::kCatchingUp;  // Continue chooses another id
        return absl::OkStatus();
      }
      return ToStatus(v1::ERROR_CODE_SESSION_EXPIRED, {});
    }
    attach_zxid_ = result.zxid;
    timeout_ms_ = result.timeout_ms;
    tenants().SetEphemerals(result.session_ephemerals);
    state_ = State::kAttached;
    return absl::OkStatus();
  }
  auto pending = std::find_if(pipeline_.begin(), pipeline_.end(), [](const Pending& p) {
    return p.stage == Stage::kInFlight && p.barrier == 0;
  });
  ASSERT(pending != pipeline_.end(), "results come in the order of the writes");
  if (result.error == tree::ErrorCode::kSessionMoved ||
      result.error == tree::ErrorCode::kSessionExpired) {
    return ToStatus(ToProto(result.error), {});
  }
  pending->sequence = result.repeated ? 0 : result.header.sequence;
  pending->zxid = result.zxid;
  ephemerals_in_flight_ -= std::exchange(pending->ephemerals, 0);
  tenants().SetEphemerals(result.session_ephemerals + ephemerals_in_flight_);
  const bool was_applied_before =
      result.repeated || result.error == tree::ErrorCode::kAlreadyAcknowledged;
  if (pending->refused != v1::ERROR_CODE_UNSPECIFIED && pending->request != nullptr &&
      !was_applied_before) {
    Audit(*pending);
  }
  v1::Response response;
  response.set_zxid(result.zxid.value());
  response.set_error(ToProto(result.error));
  if (pending->kind == Kind::kWrite && result.error == tree::ErrorCode::kOk) {
    // A write that is refused now may have been applied when it was sent before. Then it has the
    // same response as before.
    if (result.repeated) ExpandRepeated(std::max<size_t>(pending->parts, 1), &result);
    if (IsRefusal(result, pending->asked, pending->refused != v1::ERROR_CODE_UNSPECIFIED)) {
      // No operation of the client has failed, so that there are no results.
      const tree::ErrorCode why = result.ops[0].error;
      const bool has_no_reason =
          loop_->frontend().service().cluster_version() < tree::kVersionCheckCreated;
      response.set_error(has_no_reason && why == tree::ErrorCode::kBadArguments &&
                                 pending->refused != v1::ERROR_CODE_UNSPECIFIED
                             ? pending->refused
                             : ToProto(why));
    } else {
      v1::Response::WriteResult* write = response.mutable_write();
      write->set_branch(ToProto(result.branch));
      response.set_error(
          ToProto(result.ops, result.branch, pending->asked, write->mutable_results()));
    }
    if (pending->refused == v1::ERROR_CODE_QUOTA_EXCEEDED &&
        response.error() == v1::ERROR_CODE_NO_SPACE) {
      response.set_error(v1::ERROR_CODE_QUOTA_EXCEEDED);
    }
    if (response.error() == v1::ERROR_CODE_TOO_LARGE) {
      response.set_data_bytes_max(loop_->frontend().config().jute_max_buffer_bytes);
    }
  }
  Answer(std::move(response), &*pending);
  if (pending->is_long) reserved_.Set(reserved_.bytes() + pending->answer.size());
  if (paused_ || feed_.lagging() || &*pending != &pipeline_.front()) DropCommand(&*pending);
  return absl::OkStatus();
}

void SessionStream::CorrectEphemerals() {
  if (session_ == tree::kNoSession) return;
  tenants().SetEphemerals(loop_->tree().EphemeralCount(session_) + ephemerals_in_flight_);
}

void SessionStream::OnEphemerals(size_t count) {
  tenants().SetEphemerals(count + ephemerals_in_flight_);
}

void SessionStream::OnBarrierDone(uint64_t barrier) {
  if (state_ == State::kConfirming && confirm_barrier_ <= barrier) state_ = State::kCatchingUp;
  for (Pending& pending : pipeline_) {
    if (pending.stage == Stage::kInFlight && pending.barrier != 0 && pending.barrier <= barrier) {
      pending.stage = Stage::kReady;
    }
  }
  wants_to_continue_ = true;
}

void SessionStream::OnEvent(uint64_t number, const Event& event) {
  if (state_ != State::kUp || !feed_.Takes(number, outbox().bytes())) return;
  SendIfSeen(event);
}

void SessionStream::SendIfSeen(const Event& event) {
  std::vector<uint64_t> watch_ids;
  watches_.Find(event.path, &watch_ids);
  if (resumption_.has_value()) std::erase_if(watch_ids, [&](uint64_t id) { return !IsLive(id); });
  SendEvent(event, &watch_ids);
}

void SessionStream::SendEvent(const Event& event, std::vector<uint64_t>* watch_ids) {
  if (watch_ids->empty()) return;
  const bool may_read = identities().MayRead(event.readers);
  const bool may_list = event.changes_children() && identities().MayRead(event.parent_readers);
  if (!may_read && !may_list) return;
  if (!may_read || (event.changes_children() && !may_list)) {
    std::erase_if(*watch_ids, [&](uint64_t id) {
      const WatchPlace& place = watch_places_.at(id);
      return !IsTold(place.scope, place.path, event, may_read, may_list);
    });
    if (watch_ids->empty()) return;
  }
  v1::SessionItem item;
  v1::WatchEvent* told = item.mutable_event();
  told->mutable_watch_ids()->Add(watch_ids->begin(), watch_ids->end());
  ToProto(event, told->mutable_event());
  AppendField(v1::SessionResponse::kItemsFieldNumber, item, outbox().Open());
  outbox().Close();
  if (list_ != nullptr) list_->OnEvent(event);
}

void SessionStream::OnRoom() {
  wants_to_continue_ |= (paused_ || feed_.lagging()) && !HasMuchToSend();
}

absl::Status SessionStream::Continue() {
  wants_to_continue_ = false;
  if (state_ == State::kCatchingUp) return TryToBegin();
  if (state_ == State::kAttached) SendOpened();
  if (state_ != State::kUp) return absl::OkStatus();
  paused_ = false;
  // Events are sent before any response that could show their change.
  absl::Status caught_up = feed_.CatchUp(
      loop_->frontend().history(),
      [this] { return !HasMuchToSend() && !loop_->has_spent_enough(); },
      [this](uint64_t, const Event& event) {
        loop_->Spend(1);
        SendIfSeen(event);
      });
  if (!caught_up.ok()) return caught_up;
  if (feed_.lagging()) {
    DropCommandOfFirst();
    wants_to_continue_ = !HasMuchToSend();
    return absl::OkStatus();
  }
  Begin();
  for (int answered = 0; !wants_to_continue_; ++answered) {
    paused_ = HasMuchToSend();
    if (paused_ || !AnswerFirst()) break;
    Begin();
    wants_to_continue_ |= answered == kAnsweredAtOnceMax || loop_->has_spent_enough();
  }
  if (paused_) DropCommandOfFirst();
  if (half_closed_ && pipeline_.empty()) Finish(absl::OkStatus());
  return absl::OkStatus();
}

bool SessionStream::AnswerFirst() {
  if (pipeline_.empty()) return false;
  Pending& first = pipeline_.front();
  if (list_ != nullptr || (first.stage == Stage::kReady && IsList(first.kind))) {
    DoList(&first);
  } else if (resumption_.has_value() ||
             (first.stage == Stage::kReady && first.kind == Kind::kWatch)) {
    DoWatches();
  } else if (first.stage == Stage::kReady) {
    DoRead(&first);
  }
  if (first.stage != Stage::kDone || resumption_.has_value()) return false;
  outbox().Open()->append(first.answer);
  outbox().Close();
  loop_->CountAnswered(*this, RecordOf(first));
  if (first.kind == Kind::kClose) Finish(absl::OkStatus());
  if (first.is_long) {
    --long_writes_;
    reserved_.Set(reserved_.bytes() - first.answer.size());
  }
  pipeline_.pop_front();
  --begun_;
  return !finished();
}

void SessionStream::DoRead(Pending* pending) {
  const std::unique_ptr<v1::Request> request = Release(pending);
  v1::Response response;
  response.set_zxid(loop_->seen_zxid().value());
  switch (pending->kind) {
    case Kind::kGet:
      DoRead(request->get().path(), response.mutable_get(), &response);
      break;
    case Kind::kExists:
      DoRead(request->exists().path(), response.mutable_exists(), &response);
      break;
    case Kind::kGetAcl:
      DoRead(request->get_acl().path(), response.mutable_get_acl(), &response);
      break;
    case Kind::kUnwatch:
      DoUnwatch(request->unwatch().watch_id());
      break;
    case Kind::kWhoAmI:
      DoWhoAmI(&response);
      break;
    case Kind::kSync:
      break;
    default:
      response.set_error(v1::ERROR_CODE_BAD_ARGUMENTS);  // a kind of a later version, or no kind
  }
  pending->path = TakePath(request.get());
  AnswerRead(std::move(response), pending);
}

void SessionStream::DoList(Pending* pending) {
  NativeFrontend& frontend = loop_->frontend();
  if (list_ == nullptr) {
    const std::unique_ptr<v1::Request> request = Release(pending);
    list_ = ListReader::New(*request, &frontend);
    pending->path = TakePath(request.get());
  }
  v1::Response response;
  response.set_zxid(loop_->seen_zxid().value());
  const v1::ErrorCode error = list_->Read(loop_->tree(), loop_->seen_zxid(), identities());
  loop_->Spend(list_->spent());
  if (error == v1::ERROR_CODE_UNSPECIFIED && !list_->done()) {
    pending->is_in_pieces = true;
    wants_to_continue_ = true;
    return;
  }
  response.set_error(error);
  // The rest does not need the tree. It is safe to unlock the tree, because no later event is sent
  // before the response.
  if (list_->is_long()) {
    loop_->UnlockTree();
    wants_to_continue_ = true;
  }
  if (error == v1::ERROR_CODE_UNSPECIFIED) list_->Finish(&response);
  list_ = nullptr;
  AnswerRead(std::move(response), pending);
}

void SessionStream::AnswerRead(v1::Response response, Pending* pending) {
  if (IsRead(pending->kind)) --reads_begun_;
  Answer(std::move(response), pending);
}

template <class Result>
void SessionStream::DoRead(const std::string& path, Result* result, v1::Response* response) {
  const v1::ErrorCode error =
      Read(loop_->tree(), path, identities(), loop_->frontend().members_text(), result);
  loop_->Spend(1 + result->ByteSizeLong() / kBytesPerNode +
               identities().all().size() / kIdentitiesPerNode);
  if (error == v1::ERROR_CODE_UNSPECIFIED) return;
  response->clear_kind();
  response->set_error(error);
}

void SessionStream::DoWhoAmI(v1::Response* response) {
  for (const tree::Identity& identity : identities().shown()) {
    v1::Response::WhoAmIResult::Identity* shown = response->mutable_who_am_i()->add_identities();
    ToProto(identity, shown->mutable_scheme(), shown->mutable_id());
  }
  if (token().empty()) return;
  v1::Response::WhoAmIResult::Identity* shown = response->mutable_who_am_i()->add_identities();
  shown->set_scheme("token");
  shown->set_id(token());
}

// --- Statistics ----------------------------------------------------------------------------------

RequestRecord SessionStream::RecordOf(const Pending& pending) {
  RequestRecord record;
  record.kind = pending.what;
  record.received = pending.received;
  record.sequence = pending.sequence;
  record.zxid = pending.zxid;
  record.waited_for_barrier = pending.barrier != 0;
  record.was_alone = pending.was_alone;
  record.is_in_pieces = pending.is_in_pieces;
  record.command = pending.command.get();
  record.offset = pending.offset;
  record.path = pending.path;
  return record;
}

void SessionStream::DropCommand(Pending* pending) {
  if (pending->command == nullptr) return;
  const std::string_view command = std::string_view(*pending->command).substr(pending->offset);
  // One byte more than is shown, by which a longer path is known.
  pending->path = tree::FirstPathOf(command).substr(0, SlowRequests::kPathBytesMax + 1);
  pending->command = nullptr;
}

void SessionStream::DropCommandOfFirst() {
  if (!pipeline_.empty() && pipeline_.front().stage == Stage::kDone) {
    DropCommand(&pipeline_.front());
  }
}

void SessionStream::CountUnanswered() const {
  for (const Pending& pending : pipeline_) loop_->CountUnanswered(RecordOf(pending));
}

void SessionStream::Complete(std::string* message) {
  if (state_ != State::kUp || feed_.lagging()) return;
  AppendField(v1::SessionResponse::kZxidFieldNumber, loop_->seen_zxid().value(), message);
}

}  // namespace quorate::rpc::native
