// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/connection.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/seeded_bug.h"
#include "base/strings.h"
#include "rpc/audit/request_audit.h"
#include "rpc/frontend/reply_bytes.h"
#include "rpc/frontend/request_limits.h"
#include "rpc/zookeeper/connection_loop.h"
#include "rpc/zookeeper/long_reads.h"

namespace quorate::rpc::zk {
namespace {

using tree::ErrorCode;

constexpr size_t kLengthBytes = 4;
constexpr size_t kHeaderBytes = 8;      // of a request: xid and operation
constexpr size_t kReplyZxidOffset = 8;  // after length and xid
// Limits of one connection's pipeline. When one of them is reached, nothing more is received.
constexpr size_t kPipelineRequestsMax = 4096;
constexpr size_t kHeldBytesMax = 8u << 20;
// The most capacity that in_ keeps after a packet that came in several parts.
constexpr size_t kInKeptBytesMax = 64u << 10;
// What is received of a client whose connect request waits for its turn.
constexpr size_t kQueuedBytesMax = 64u << 10;
// When this many bytes are unsent, no more requests are answered.
constexpr size_t kUnsentBytesPause = 4u << 20;
// The longest first packet: the session's password has 16 bytes.
constexpr int32_t kFirstPacketBytesMax = 4 << 10;
// The time within which the client has to receive the answer to a four-letter word.
constexpr auto kWordTimeout = std::chrono::seconds(60);
// When this many bytes are unsent, the next piece of such an answer waits.
constexpr size_t kWordBytesPause = 64u << 10;
// How much of the scheme of a failed authentication is logged.
constexpr size_t kSchemeBytesShown = 32;
constexpr auto kCatchUpTimeout = std::chrono::seconds(2);
constexpr tree::Zxid kNoZxid{-1};  // of an event that shows none

}  // namespace

Connection::Connection(ConnectionLoop* loop, uint32_t tag, std::string address,
                       std::shared_ptr<ConnectionStatistics> statistics)
    : loop_(loop),
      tag_(tag),
      address_(std::move(address)),
      opened_(loop->now()),
      statistics_(std::move(statistics)),
      identities_(loop->frontend().config(), address_),
      paths_(loop->frontend().config().linearizable_chroot),
      tenants_(&loop->frontend().service().tenants(), address_, /*is_connection=*/true,
               loop->now()) {}

Connection::~Connection() {
  in_.clear();
  admitted_bytes_ = 0;
  held_bytes_ = 0;
  long_read_ = nullptr;
  sasl_ = nullptr;
  CountMemory();
  if (is_of_connection_) loop_->frontend().AddReadOnlySessions(-1);
}

bool Connection::IsSettingWatches() const {
  return !pipeline_.empty() && (pipeline_.front().op == OpCode::kSetWatches ||
                                pipeline_.front().op == OpCode::kSetWatches2);
}

bool Connection::HasMuchToSend() const { return out_.size() > kUnsentBytesPause; }

bool Connection::IsFull() const {
  if (state_ == State::kUnheard) return false;
  if (state_ == State::kQueued || state_ == State::kDelayed) return in_.size() >= kQueuedBytesMax;
  return (state_ != State::kHandshake && state_ != State::kUp) || HasMuchToSend() ||
         pipeline_.size() >= kPipelineRequestsMax || held_bytes_ >= kHeldBytesMax || IsHeldBack();
}

bool Connection::CanContinue() const {
  if (state_ == State::kAnsweringWord) return out_.size() < kWordBytesPause;
  if (state_ == State::kConfirming) return confirmed_;
  if (state_ != State::kUp || HasMuchToSend()) return false;
  if (long_read_ != nullptr || reconfig_outcome_.has_value()) return true;
  // While requests before a held one are in flight, it waits for their results.
  if (held_count_ > 0 && !awaits_upgrade_ &&
      (held_paused_ ||
       (pipeline_.size() == held_count_ && loop_->IsBarrierDone(pipeline_.front().barrier)))) {
    return true;
  }
  return unread_ && !IsFull();
}

absl::Status Connection::Continue() {
  if (state_ == State::kConfirming) {
    TakeSessionOver(/*confirmed=*/true);
    if (state_ != State::kConnecting) loop_->EndHandshake(tag_);
    return absl::OkStatus();
  }
  if (state_ == State::kAnsweringWord) {
    const bool more = word_pieces_(loop_->LockTree(), &out_);
    loop_->Spend(kNodesPerHold);
    if (!more) {
      word_pieces_ = nullptr;
      state_ = State::kFinished;
    }
    return absl::OkStatus();
  }
  if (long_read_ != nullptr && !ContinueReading()) return long_read_->problem();
  if (reconfig_outcome_.has_value()) {
    if (absl::Status s = FinishReconfig(); !s.ok()) return s;
  }
  if (absl::Status s = StartHeld(); !s.ok()) return s;
  return unread_ && !IsFull() ? OnBytes({}) : absl::OkStatus();
}

absl::Status Connection::OnBytes(std::string_view bytes) {
  if (state_ == State::kFinished) return absl::OkStatus();
  if (!in_.empty()) {
    in_.append(bytes);
    bytes = in_;
  }
  size_t used = 0;
  if (state_ == State::kHandshake && TakeFourLetterWord(bytes)) return absl::OkStatus();
  unread_ = false;
  while (bytes.size() - used >= kLengthBytes || discard_bytes_ > 0) {
    const size_t discarded = std::min(discard_bytes_, bytes.size() - used);
    used += discarded;
    discard_bytes_ -= discarded;
    if (bytes.size() - used < kLengthBytes) break;
    if (IsFull() || state_ == State::kQueued || state_ == State::kDelayed) {
      unread_ = true;  // Continue parses the rest
      break;
    }
    const Reception reception = ReceptionOf(bytes.substr(used));
    if (reception == Reception::kUndecided) break;
    if (reception == Reception::kImpossible) {
      loop_->statistics().large_requests_rejected.Add(1);
      in_.clear();
      return absl::InvalidArgumentError(absl::StrCat(
          "a packet claims to have ", LoadInt<std::endian::big, int32_t>(bytes.data() + used),
          " bytes; ",
          is_newcomer() ? absl::StrCat("a connect request has at most ", kFirstPacketBytesMax)
                        : absl::StrCat("jute.maxbuffer is ",
                                       loop_->frontend().config().jute_max_buffer_bytes)));
    }
    if (reception == Reception::kDiscarded) {
      if (absl::Status s = DiscardMulti(bytes.substr(used)); !s.ok()) return s;
      continue;
    }
    std::string_view packet;
    const size_t size = TakePacket(bytes.substr(used), &packet);
    if (size == 0) {
      const auto length = LoadInt<std::endian::big, int32_t>(bytes.data() + used);
      if (length > loop_->frontend().config().jute_max_buffer_bytes) {
        admitted_bytes_ = static_cast<size_t>(length);
        CountMemory();
      }
      break;
    }
    if (tenants_.limits_requests() && !TakeToken(packet)) {
      unread_ = true;
      break;
    }
    admitted_bytes_ = 0;
    used += size;
    if (absl::Status s = OnPacket(packet); !s.ok()) {
      in_.clear();
      return s;
    }
  }
  // The rest is an incomplete packet, or packets that wait for Continue.
  if (in_.empty()) {
    in_.assign(bytes.substr(used));
  } else {
    in_.erase(0, used);
    if (in_.empty() && in_.capacity() > kInKeptBytesMax) in_.shrink_to_fit();
  }
  // Counted now, so that other connections of the tenant see it within this iteration.
  if (!pipeline_.empty()) CountMemory();
  return in_.empty() ? absl::OkStatus() : CheckIncomplete();
}

int32_t Connection::MultiBytesMax() const {
  const Config& config = loop_->frontend().config();
  return std::max(config.jute_max_buffer_bytes, config.max_multi_bytes);
}

Connection::Reception Connection::ReceptionOf(std::string_view bytes) const {
  const auto length = LoadInt<std::endian::big, int32_t>(bytes.data());
  if (is_newcomer() && length > kFirstPacketBytesMax) return Reception::kImpossible;
  if (length >= 0 && length <= loop_->frontend().config().jute_max_buffer_bytes) {
    return Reception::kWhole;
  }
  const bool has_long_multis =
      MultiBytesMax() > loop_->frontend().config().jute_max_buffer_bytes && has_session();
  if (length < 0 || !has_long_multis) return Reception::kImpossible;
  if (bytes.size() < kLengthBytes + kHeaderBytes) return Reception::kUndecided;
  const auto op = static_cast<OpCode>(
      LoadInt<std::endian::big, int32_t>(bytes.data() + kLengthBytes + kHeaderBytes / 2));
  if (op != OpCode::kMulti && op != OpCode::kMultiRead) return Reception::kImpossible;
  const MemoryBudget& memory = loop_->frontend().service().memory();
  const bool fits =
      length <= MultiBytesMax() &&
      (admitted_bytes_ > 0 || memory.has_room_for_request(static_cast<size_t>(length)));
  return fits ? Reception::kWhole : Reception::kDiscarded;
}

absl::Status Connection::DiscardMulti(std::string_view bytes) {
  const auto length = LoadInt<std::endian::big, int32_t>(bytes.data());
  discard_bytes_ = kLengthBytes + static_cast<size_t>(length);
  loop_->statistics().large_requests_rejected.Add(1);
  loop_->LogRefusedMulti(*this, length, MultiBytesMax());
  ++packets_received_;
  OnHeard();
  if (state_ != State::kUp) return absl::OkStatus();
  Pending pending;
  pending.xid = LoadInt<std::endian::big, int32_t>(bytes.data() + kLengthBytes);
  pending.op = static_cast<OpCode>(
      LoadInt<std::endian::big, int32_t>(bytes.data() + kLengthBytes + kHeaderBytes / 2));
  pending.received = loop_->now();
  // Every client knows both errors, and neither makes it connect again and send the multi again.
  pending.too_long = length > MultiBytesMax() ? ErrorCode::kBadArguments : ErrorCode::kSystemError;
  return OnRequest(std::move(pending), {});
}

size_t Connection::TakePacket(std::string_view bytes, std::string_view* packet) const {
  if (bytes.size() < kLengthBytes) return 0;
  const int32_t length = LoadInt<std::endian::big, int32_t>(bytes.data());
  bytes.remove_prefix(kLengthBytes);
  if (length < 0 || length > MultiBytesMax() || bytes.size() < static_cast<size_t>(length)) {
    return 0;
  }
  *packet = bytes.substr(0, static_cast<size_t>(length));
  return kLengthBytes + packet->size();
}

absl::Status Connection::OnPacket(std::string_view packet) {
  ++packets_received_;
  // The requests that a client has left behind must not keep its session alive. A slowed client is
  // received from slowly until its end is found; the writes that are received then are submitted at
  // once, and take tokens that are not there yet (SubmitUnanswered).
  if (!has_hung_up_) OnHeard();
  if (state_ == State::kUnheard) {
    return SubmitUnanswered(packet) ? absl::OkStatus()
                                    : absl::AbortedError("the client has closed it");
  }
  return state_ == State::kUp ? OnRequest(packet) : OnConnectRequest(packet);
}

bool Connection::TakeFourLetterWord(std::string_view bytes) {
  FourLetterWords& words = loop_->frontend().words();
  if (bytes.size() < FourLetterWords::kWordBytes) return false;
  const size_t size = words.BytesOf(bytes.substr(0, FourLetterWords::kWordBytes));
  if (size == 0) return false;
  if (bytes.size() < size) {
    if (in_.empty()) in_.assign(bytes);
    return true;
  }
  ++packets_received_;
  word_pieces_ = words.Answer(bytes.substr(0, size), &out_);
  state_ = word_pieces_ == nullptr ? State::kFinished : State::kAnsweringWord;
  return true;
}

// --- The session ---------------------------------------------------------------------------------

absl::Status Connection::OnConnectRequest(std::string_view packet) {
  absl::StatusOr<ConnectRequest> request = DecodeConnectRequest(packet);
  if (!request.ok()) return request.status();
  connect_ = *std::move(request);
  if (connect_.password.size() > tree::kPasswordBytes) {
    connect_.password.resize(tree::kPasswordBytes + 1);  // too long: never the right password
  }
  const ServerStatus status = loop_->frontend().service().status();
  if (status.read_only ? !connect_.read_only : !status.in_touch) {
    return absl::UnavailableError("this server is out of touch with a majority of the servers");
  }
  const tree::Zxid applied = loop_->LockTree().last_zxid();
  if (state_ == State::kFinished) return absl::OkStatus();  // by an item that LockTree delivered
  if (connect_.last_zxid_seen > applied.value()) {
    state_ = State::kCatchingUp;
    return absl::OkStatus();
  }
  return RequestSession();
}

absl::Status Connection::RetryHandshake() {
  ASSERT(waits_for_retry());
  if (state_ == State::kDelayed) return RequestSession();
  const tree::Zxid applied = loop_->LockTree().last_zxid();
  if (state_ == State::kFinished) return absl::OkStatus();  // by an item that LockTree delivered
  const bool is_late = loop_->now() - opened_ >= kCatchUpTimeout;
  if (connect_.last_zxid_seen <= applied.value()) {
    if (absl::Status s = RequestSession(); !s.ok()) return s;
    if (state_ != State::kCatchingUp || !is_late) return absl::OkStatus();
    return absl::UnavailableError(
        "writes of the client's local session are still not applied; the client will try again");
  }
  if (!is_late) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the client has seen zxid ", connect_.last_zxid_seen, ", this server has only ",
                   applied.value(), "; the client will try another server"));
}

absl::Status Connection::RequestSession() {
  // A read-only session needs no command in the log. It does not wait for handshakes that do, since
  // those may wait for a quorum.
  if (loop_->frontend().service().status().read_only) return BeginReadOnlySession();
  if (TakeLocalSession(/*read_only=*/false)) return absl::OkStatus();
  if (connect_.session_id == 0 && !tenants_.TakeSession(loop_->now())) return DelaySession();
  if (connect_.session_id == 0 && loop_->frontend().MakesLocalSessions()) {
    return BeginLocalSession();
  }
  if (loop_->handshakes().Begin(tag_, connect_.session_id != 0)) return Admit();
  state_ = State::kQueued;
  // Whoever proves to have a session keeps it alive while it waits.
  const tree::SessionId session(connect_.session_id);
  if (connect_.session_id != 0 && loop_->LockTree().CheckPassword(session, connect_.password)) {
    session_ = session;
    SetTouched();
  }
  return absl::OkStatus();
}

absl::Status Connection::Admit() {
  const absl::Status status = BeginSession();
  if (state_ != State::kConfirming && state_ != State::kConnecting) {
    loop_->EndHandshake(tag_);
  }
  return status;
}

absl::Status Connection::BeginSession() {
  if (loop_->frontend().service().status().read_only) return BeginReadOnlySession();
  const Config& config = loop_->frontend().config();
  timeout_ms_ =
      std::clamp(connect_.timeout_ms, config.min_session_timeout_ms, config.max_session_timeout_ms);
  LoopStatistics& statistics = loop_->statistics();
  if (connect_.session_id != 0) {
    statistics.sessions_revalidated.Add(1);
    session_ = tree::SessionId(connect_.session_id);
    TakeSessionOver(/*confirmed=*/false);
    return absl::OkStatus();
  }
  statistics.sessions_requested.Add(1);
  if (absl::Status s = CheckMemory(); !s.ok()) return s;
  session_ = loop_->frontend().NewSessionId();
  connect_.password = loop_->frontend().random().Make(tree::kPasswordBytes);
  std::string& to = loop_->command_bytes();
  const size_t offset = to.size();
  tree::AppendCreateSession(Header(tree::CommandKind::kCreateSession), timeout_ms_,
                            connect_.password, &to);
  loop_->AddedCommand(offset);
  state_ = State::kConnecting;
  return absl::OkStatus();
}

void Connection::TakeSessionOver(bool confirmed) {
  tree::SessionInfo info;
  const tree::Tree& tree = loop_->LockTree();
  const bool known = tree.FindSession(session_, &info);
  if (!known && !confirmed && connect_.password.size() == tree::kPasswordBytes) {
    state_ = State::kConfirming;
    confirm_barrier_ = loop_->JoinBarrier(tag_);
    return;
  }
  if (!known || !tree.CheckPassword(session_, connect_.password)) {
    RefuseSession(/*read_only=*/false);
    return;
  }
  std::string& to = loop_->command_bytes();
  const size_t offset = to.size();
  tree::AppendAttachSession(Header(tree::CommandKind::kAttachSession), timeout_ms_,
                            connect_.password, &to);
  loop_->AddedCommand(offset);
  state_ = State::kConnecting;
}

void Connection::RefuseSession(bool read_only) {
  ConnectResponse refusal;
  refusal.has_read_only = connect_.has_read_only;
  refusal.read_only = read_only;
  AppendConnectResponse(refusal, &out_);
  ++packets_sent_;
  state_ = State::kFinished;
}

void Connection::BeUp(bool read_only) {
  read_only_ = read_only;
  session_is_linearizable_ = loop_->frontend().linearizable_sessions().Has(session_);
  AppendConnectResponse({.timeout_ms = timeout_ms_,
                         .session_id = session_.value(),
                         .password = connect_.password,
                         .has_read_only = connect_.has_read_only,
                         .read_only = read_only},
                        &out_);
  ++packets_sent_;
  statistics_->session_id.Set(session_.value());
  statistics_->established_ms.Set(loop_->frontend().clock().WallMs());
  statistics_->timeout_ms.Set(timeout_ms_);
  statistics_->last_operation.Set(static_cast<int64_t>(OpCode::kCreateSession));
  statistics_->last_xid.Set(0);
  RecordLastReply();
  state_ = State::kUp;
  SetTouched();
  unread_ = true;  // parse what the client has sent already
}

absl::Status Connection::OnSessionResult(const tree::ApplyResult& result) {
  if (awaits_upgrade_) return FinishUpgrade(result);
  if (state_ != State::kConnecting) return absl::OkStatus();  // finished before the result
  if (result.error != ErrorCode::kOk) {
    // The random id of the new session is already in use: this tries another one.
    if (connect_.session_id == 0) return BeginSession();
    RefuseSession(/*read_only=*/false);
    return absl::OkStatus();
  }
  attach_zxid_ = result.zxid;
  timeout_ms_ = result.timeout_ms;
  tenants_.SetEphemerals(result.session_ephemerals);
  BeUp(/*read_only=*/false);
  ShowSession();
  return absl::OkStatus();
}

bool Connection::OnSessionClosed() {
  if (std::any_of(pipeline_.begin(), pipeline_.end(),
                  [](const Pending& p) { return p.op == OpCode::kCloseSession; })) {
    return false;
  }
  state_ = State::kFinished;
  return true;
}

bool Connection::IsOvertaken(tree::Zxid attach_zxid) const {
  return state_ == State::kUp && attach_zxid_ != attach_zxid;
}

absl::Status Connection::AddCertificate(const std::string& subject) {
  const bool has_room = identities_.AddCertificate(subject);
  ASSERT(has_room, "a new connection has few identities, and a subject is short");
  return JoinIdentity();
}

void Connection::SetTouched() {
  if (!std::exchange(touched_, true)) loop_->RecordTouched(tag_);
}

void Connection::OnHeard() {
  SetTouched();
  heard_ = loop_->now();
}

int64_t Connection::LeaderContactAgeMinMs(const Config& config) {
  return 3 * int64_t{config.election_timeout_ms};
}

absl::Status Connection::CheckTime(std::chrono::steady_clock::time_point now,
                                   int64_t leader_contact_age_ms) {
  const std::chrono::milliseconds first_request_timeout(
      loop_->frontend().config().first_request_timeout_ms);
  if (is_newcomer() && first_request_timeout.count() > 0 && now - opened_ > first_request_timeout) {
    loop_->statistics().handshakes_timed_out.Add(1);
    return absl::DeadlineExceededError(
        "no connect request came in time (limits.firstRequestTimeoutMs)");
  }
  if (state_ == State::kQueued && session_ != tree::kNoSession) SetTouched();
  if (read_only_ && state_ == State::kUp) {
    if (!loop_->frontend().service().status().read_only) {
      return absl::UnavailableError("the server has a quorum again, and this client may only read");
    }
    if (now - heard_ <= std::chrono::milliseconds(timeout_ms_)) return absl::OkStatus();
    return absl::DeadlineExceededError(
        "nothing was received from the client within its session timeout");
  }
  if (state_ == State::kAnsweringWord) {
    if (now - opened_ <= kWordTimeout) return absl::OkStatus();
    return absl::DeadlineExceededError("the answer to a four-letter word is not fetched");
  }
  // The client has to notice in time that its session may end elsewhere. It looks for another
  // server when it has received nothing for two thirds of the timeout.
  const int64_t limit_ms =
      std::max<int64_t>(timeout_ms_ / 2, LeaderContactAgeMinMs(loop_->frontend().config()));
  if (state_ != State::kHandshake && leader_contact_age_ms > limit_ms) {
    return absl::UnavailableError(
        absl::StrCat("no contact with a leader for ", leader_contact_age_ms, " ms"));
  }
  return absl::OkStatus();
}

tree::CommandHeader Connection::Header(tree::CommandKind kind) const {
  tree::CommandHeader header;
  header.kind = kind;
  header.proposer = loop_->frontend().service().proposer();
  header.proposer_tag = tag_;
  header.session = session_;
  header.attach_zxid = attach_zxid_;
  return header;
}

// --- Requests ------------------------------------------------------------------------------------

absl::Status Connection::OnRequest(std::string_view packet) {
  BigEndianReader reader(packet);
  Pending pending;
  pending.xid = reader.Int<int32_t>();
  pending.op = static_cast<OpCode>(reader.Int<int32_t>());
  pending.received = loop_->now();
  if (!reader.ok()) return absl::InvalidArgumentError("a request is shorter than its header");
  return OnRequest(std::move(pending), reader.rest());
}

absl::Status Connection::OnRequest(Pending pending, std::string_view body) {
  const size_t out_before = out_.size();
  pending.was_alone = pipeline_.empty();
  if (IsRefused(pending.op)) return RefuseUnauthenticated(pending.xid);
  if (pending.op == OpCode::kPing) {
    const tree::Zxid zxid = IsSettingWatches() ? NamedZxid() : SeenZxid();
    { ReplyWriter reply(&out_, kPingXid, zxid, ErrorCode::kOk); }
    ++packets_sent_;
    CountReply(pending, out_.size() - out_before);
    return absl::OkStatus();
  }
  paths_.Observe(pending.op, body);
  if (!read_only_ && IsLinearizable(pending.op)) pending.barrier = loop_->JoinBarrier(tag_);
  if (held_count_ > 0 || awaits_reconfig_ ||
      long_read_ != nullptr) {  // a new identity counts only for requests after it
    Hold(std::move(pending), body);
    return absl::OkStatus();
  }
  if (pending.op == OpCode::kAuth) return OnAuth(pending.xid, body);
  absl::StatusOr<Progress> progress = Start(body, pipeline_.empty(), &pending);
  if (!progress.ok()) return progress.status();
  if (*progress == Progress::kMustWait) {
    Hold(std::move(pending), body);
  } else if (*progress != Progress::kAnswered) {
    pending.stage = *progress == Progress::kInFlight ? Stage::kInFlight : Stage::kReading;
    if (pending.stage == Stage::kReading) pending.bytes = PathOfRead(pending.op, body);
    pipeline_.push_back(std::move(pending));
  } else {
    CountReply(pending, out_.size() - out_before, body);
  }
  return absl::OkStatus();
}

bool Connection::IsRefused(OpCode op) const {
  return identities_.lacks_required() && op != OpCode::kAuth && op != OpCode::kSasl;
}

bool Connection::IsLinearizable(OpCode op) const {
  return (paths_.uses_chroot() || session_is_linearizable_ ||
          loop_->frontend().config().linearizable_reads) &&
         InfoOf(op).kind == OpCodeKind::kRead && op != OpCode::kWhoAmI;
}

void Connection::Hold(Pending pending, std::string_view body) {
  pending.stage = Stage::kHeld;
  pending.bytes.assign(body);
  held_bytes_ += body.size();
  ++held_count_;
  pipeline_.push_back(std::move(pending));
}

void Connection::DropRest() {
  in_.clear();
  held_count_ = 0;
  held_bytes_ = 0;
}

bool Connection::SubmitUnanswered(Pending* pending, std::string_view body) {
  if (IsRefused(pending->op)) return false;
  paths_.Observe(pending->op, body);
  if (pending->op == OpCode::kAuth) return OnAuth(pending->xid, body).ok();
  if (pending->op == OpCode::kSasl) {
    // As in AnswerNow, because the caller may hold the tree's lock for another client.
    loop_->UnlockTree();
    return OnSasl(pending->xid, body).ok();
  }
  const bool is_end = pending->op == OpCode::kCloseSession;
  if (is_end && is_local_ && !awaits_upgrade_) {
    EndLocalSession();
    return false;
  }
  if (drops_writes_ && !is_end) return IsServed(pending->op);
  if (!is_end && !IsWrite(pending->op)) return IsServed(pending->op);
  if (IsOfKeeper(pending->op) && !ServesKeeper()) return false;
  // If the write is rejected before it goes to the log, its error is not sent.
  return Start(body, /*alone=*/false, pending).ok() && !is_end;
}

bool Connection::SubmitUnanswered(std::string_view packet) {
  BigEndianReader reader(packet);
  Pending pending;
  pending.xid = reader.Int<int32_t>();
  pending.op = static_cast<OpCode>(reader.Int<int32_t>());
  if (!reader.ok()) return false;
  if (IsWrite(pending.op) && tenants_.limits_requests()) tenants_.TakeRequestAnyway(loop_->now());
  return SubmitUnanswered(&pending, reader.rest());
}

bool Connection::SubmitReceived() {
  CountUnanswered();
  long_read_ = nullptr;
  awaits_reconfig_ = false;
  drops_writes_ |= awaits_upgrade_;
  std::deque<Pending> pipeline = std::exchange(pipeline_, {});
  const size_t held = std::exchange(held_count_, 0);
  held_bytes_ = 0;
  for (size_t i = pipeline.size() - held; i < pipeline.size(); ++i) {
    const std::string body = std::exchange(pipeline[i].bytes, {});
    if (!SubmitUnanswered(&pipeline[i], body)) return false;
  }
  size_t used = 0;
  std::string_view packet;
  while (const size_t size = TakePacket(std::string_view(in_).substr(used), &packet)) {
    used += size;
    ++packets_received_;
    if (!SubmitUnanswered(packet)) return false;
  }
  in_.erase(0, used);
  return true;
}

void Connection::StopAnswering() {
  if (state_ != State::kUp || read_only_) return;
  state_ = State::kUnheard;
  if (!SubmitReceived()) state_ = State::kFinished;
}

void Connection::SetFinished() {
  long_read_ = nullptr;
  if (state_ == State::kConfirming) loop_->EndHandshake(tag_);
  has_rest_ |= (state_ == State::kUp || state_ == State::kUnheard) && !read_only_;
  state_ = State::kFinished;
}

void Connection::SubmitRest() {
  if (std::exchange(has_rest_, false)) SubmitReceived();
}

absl::StatusOr<Connection::Progress> Connection::TryToStart(std::string_view body, bool alone,
                                                            Pending* pending) {
  if (read_only_ && RefuseReadOnly(*pending)) return Progress::kAnswered;
  if (pending->too_long != ErrorCode::kOk) {
    if (!alone) return Progress::kMustWait;
    ReplyError(pending->xid, pending->too_long);
    return Progress::kAnswered;
  }
  const bool is_served = !IsOfKeeper(pending->op) || ServesKeeper();
  if (IsWrite(pending->op) && is_served) return StartWrite(body, alone, pending);
  if (pending->op == OpCode::kCloseSession && is_local_ && !awaits_upgrade_) {
    if (!alone) return Progress::kMustWait;
    EndLocalSession();
    ReplyError(pending->xid, ErrorCode::kOk);
    state_ = State::kFinished;
    return Progress::kAnswered;
  }
  if (pending->op == OpCode::kCloseSession) {
    std::string& to = loop_->command_bytes();
    const size_t offset = to.size();
    tree::AppendCloseSession(Header(tree::CommandKind::kCloseSession), &to);
    loop_->AddedCommand(offset);
    KeepCommand(offset, pending);
    return Progress::kInFlight;
  }
  if (pending->op == OpCode::kSync) {
    ReadRequest request;
    if (DecodeReadRequest(body, /*has_watch_flag=*/false, &request)) {
      pending->barrier = loop_->JoinBarrier(tag_);
      pending->has_path = request.has_path;
      pending->bytes.assign(request.path);
      return Progress::kInFlight;
    }
  }
  if (pending->op == OpCode::kReconfig) return StartReconfig(body, alone, *pending);
  if (!alone || !loop_->IsBarrierDone(pending->barrier)) return Progress::kMustWait;
  return AnswerNow(pending->xid, pending->op, body);
}

bool Connection::RefuseReadOnly(const Pending& pending) {
  if (InfoOf(pending.op).quorum == Quorum::kNo && !IsLinearizable(pending.op)) return false;
  // Only a majority can end a session that other servers know.
  const bool ends = pending.op == OpCode::kCloseSession && (is_of_connection_ || is_local_);
  if (ends && is_local_) EndLocalSession();
  ReplyError(pending.xid, ends ? ErrorCode::kOk : ErrorCode::kNotReadOnly);
  if (ends) state_ = State::kFinished;
  return true;
}

absl::StatusOr<Connection::Progress> Connection::StartWrite(std::string_view body, bool alone,
                                                            Pending* pending) {
  tree::Request request;
  pending->shapes.clear();  // set by an earlier try, if its error had to wait
  ErrorCode error = DecodeWrite(pending->op, body, &request, &pending->shapes);
  if (error == ErrorCode::kOk && is_local_ && NeedsUpgrade(request)) return Progress::kMustWait;
  const auto data_bytes_max = static_cast<size_t>(loop_->frontend().config().jute_max_buffer_bytes);
  for (tree::Op& op : request.ops) {
    if (error == ErrorCode::kOk &&
        (!paths_.ToTree(&op.path) || op.data.size() > data_bytes_max || IsVirtual(op.path))) {
      error = ErrorCode::kBadArguments;
    }
  }
  const uint32_t version = loop_->frontend().service().cluster_version();
  if (error == ErrorCode::kOk && tree::VersionNeeded(request) >= tree::kVersionKeeper &&
      !ServesKeeper()) {
    error = ErrorCode::kMarshallingError;  // a multi with an operation that may not be in it
  }
  if (error == ErrorCode::kOk && tree::VersionNeeded(request) > version &&
      !SeededBug("commands of Keeper before their version")) {
    error = ErrorCode::kUnimplemented;
  }
  if (error == ErrorCode::kOk && request.multi && ResultBytesMax(request) > ReplyBytesMax()) {
    error = kReplyTooLarge;
  }
  if (error == ErrorCode::kOk && !AclsFit(request, identities_.all())) {
    error = ErrorCode::kInvalidAcl;
  }
  if (error == ErrorCode::kOk && !ChecksFit(request.ops.size(), identities_.all().size())) {
    error = kReplyTooLarge;
  }
  // Every client knows this error, and it ends neither the session nor the connection.
  if (error == ErrorCode::kOk && tree::AddsData(request) &&
      (loop_->frontend().service().refuses_data() || !TakeEphemerals(request, pending))) {
    error = ErrorCode::kSystemError;
  }
  if (error != ErrorCode::kOk) {
    if (!alone) return Progress::kMustWait;  // the error is sent in the order of the requests
    ReplyError(pending->xid, error);
    return Progress::kAnswered;
  }
  identities_.ResolveAuth(&request);
  request.identities = identities_.all();
  request.enforces_quota =
      loop_->frontend().config().enforce_quota && version >= tree::kVersionExpiry;
  std::string& to = loop_->command_bytes();
  const size_t offset = to.size();
  tree::AppendRequest(Header(tree::CommandKind::kRequest), request, &to);
  const size_t size = to.size() - offset;
  if (loop_->AddedCommand(offset)) {
    if (is_local_) ++local_in_flight_;
    KeepCommand(offset, pending);
    return Progress::kInFlight;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a write of ", size, " bytes is larger than ", kCommandBytesMax));
}

absl::Status Connection::OnAuth(int32_t xid, std::string_view body) {
  AuthRequest request;
  if (!DecodeAuthRequest(body, &request)) {
    return absl::InvalidArgumentError("an authentication request does not decode");
  }
  absl::Status status;
  // What the client's certificate proves was added when it connected.
  const bool is_of_certificate =
      request.scheme == "x509" &&
      std::ranges::any_of(identities_.all(),
                          [](const tree::Identity& one) { return one.scheme == "x509"; });
  if (request.scheme == "digest" && request.has_credentials) {
    status =
        identities_.AddDigest(request.credentials, loop_->frontend().service().super_failures());
    if (status.ok()) {
      if (absl::Status s = JoinIdentity(); !s.ok()) return s;
    }
  } else if (request.scheme != "ip" && !is_of_certificate) {
    status = absl::UnauthenticatedError(
        absl::StrCat("authentication failed; scheme \"",
                     absl::CHexEscape(ToAbsl(request.scheme.substr(0, kSchemeBytesShown))), "\""));
  }
  if (absl::IsUnauthenticated(status) || absl::IsUnavailable(status)) {
    RecordFailedAuthentication(request.scheme);
  }
  ReplyWriter reply(&out_, xid, tree::Zxid(0),
                    status.ok() ? ErrorCode::kOk : ErrorCode::kAuthFailed);
  ++packets_sent_;
  return status;
}

void Connection::RecordFailedAuthentication(std::string_view reason) {
  loop_->statistics().auth_failures.Add(1);
  if (RequestAudit* audit = loop_->frontend().request_audit()) {
    audit->OnFailedAuthentication(session_, identities_.shown(), reason);
  }
}

void Connection::ReplyError(int32_t xid, ErrorCode error) {
  ReplyWriter reply(&out_, xid, SeenZxid(), error);
  ++packets_sent_;
}

// --- Results and events --------------------------------------------------------------------------

void Connection::OnWatchEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                              const Readers& readers) {
  has_fewer_watches_ = true;  // even if the client does not get the event
  if (long_read_ != nullptr && long_read_->TakesEvent(type, path)) return;
  if (!identities_.MayRead(readers)) return;
  const size_t out_before = out_.size();
  AppendEvent(type, path, IsSettingWatches() ? kNoZxid : zxid);
  unsent_event_bytes_ += out_.size() - out_before;
  event_zxid_ = zxid;
  if (long_read_ != nullptr) long_read_->OnEvent(type, path);
}

void Connection::AppendEvent(tree::EventType type, std::string_view path, tree::Zxid zxid) {
  std::string storage;
  AppendNotification(type, paths_.ToClient(path, &storage), zxid, &out_);
  ++packets_sent_;
}

tree::Zxid Connection::SeenZxid() const { return std::max(loop_->seen_zxid(), event_zxid_); }

absl::Status Connection::OnResult(tree::ApplyResult result) {
  const tree::CommandKind kind = result.header.kind;
  if (kind == tree::CommandKind::kCreateSession || kind == tree::CommandKind::kAttachSession) {
    return OnSessionResult(result);
  }
  if (state_ != State::kUp) return absl::OkStatus();
  return OnRequestResult(result);
}

absl::Status Connection::OnRequestResult(tree::ApplyResult& result) {
  auto pending = std::find_if(pipeline_.begin(), pipeline_.end(), [](const Pending& p) {
    return p.stage == Stage::kInFlight && p.op != OpCode::kSync;
  });
  ASSERT(pending != pipeline_.end(), "results come in the order of the writes");
  if (result.error == ErrorCode::kSessionMoved) {
    return absl::AbortedError("the session has moved to another connection");
  }
  CountEphemerals(&*pending, result);
  const size_t out_before = out_.size();
  // Syncs in flight before this write are answered now: everything that was committed when they
  // came is applied with the write. A later reply to them would have a newer zxid, but would be
  // sent before the write's reply, so that the client would see zxids go back.
  for (auto before = pipeline_.begin(); before != pending; ++before) {
    if (before->stage == Stage::kInFlight) FinishSync(*before);
  }
  if (paths_.uses_chroot()) {
    std::string storage;
    for (tree::OpResult& op : result.ops) {
      if (!op.path.empty()) op.path = std::string(paths_.ToClient(op.path, &storage));
    }
  }
  std::string* to = pending == pipeline_.begin() ? &out_ : &pending->bytes;
  const bool multi = pending->op == OpCode::kMulti;
  ErrorCode error = result.error;
  if (error == ErrorCode::kOk && !multi && !result.ops.empty()) error = result.ops[0].error;
  {
    ReplyWriter reply(to, pending->xid, result.zxid, error);
    if (error == ErrorCode::kOk && multi) {
      WriteMultiResult(pending->shapes, result.ops, reply.body());
    } else if (error == ErrorCode::kOk && !result.ops.empty()) {
      WriteOpResult(pending->op, result.ops[0], reply.body());
    }
  }
  pending->stage = Stage::kDone;
  pending->sequence = result.header.sequence;
  pending->zxid = result.zxid;
  if (result.error == ErrorCode::kSessionExpired) state_ = State::kFinished;
  SendDone(out_.size() - out_before);
  return absl::OkStatus();
}

void Connection::OnBarrierDone(uint64_t barrier) {
  if (state_ == State::kConfirming) {
    confirmed_ |= confirm_barrier_ <= barrier;  // Continue proceeds when the tree is locked
    return;
  }
  if (state_ != State::kUp) return;
  const size_t out_before = out_.size();
  for (Pending& pending : pipeline_) {
    if (pending.stage == Stage::kInFlight && pending.op == OpCode::kSync &&
        pending.barrier <= barrier) {
      FinishSync(pending);
    }
  }
  SendDone(out_.size() - out_before);
}

void Connection::FinishSync(Pending& sync) {
  std::string bytes;
  {
    ReplyWriter reply(&bytes, sync.xid, SeenZxid(), ErrorCode::kOk);
    WriteData(sync.has_path, sync.bytes, reply.body());  // the path as it was sent
  }
  if (&sync == &pipeline_.front()) {
    out_ += bytes;
  } else {
    sync.bytes = std::move(bytes);
  }
  sync.stage = Stage::kDone;
}

void Connection::SendDone(size_t sent) {
  bool first = true;  // the first reply that is done is in out_ already
  while (!pipeline_.empty() && pipeline_.front().stage == Stage::kDone) {
    Pending& pending = pipeline_.front();
    if (!first) {
      // The reply to a sync may have waited behind a write's reply with a newer zxid, and a client
      // must not see zxids go back.
      char* zxid = pending.bytes.data() + kReplyZxidOffset;
      StoreInt<std::endian::big>(
          zxid, std::max(LoadInt<std::endian::big, int64_t>(zxid), SeenZxid().value()));
      out_ += pending.bytes;
    }
    CountReply(pending, first ? sent : pending.bytes.size());
    first = false;
    ++packets_sent_;
    if (pending.op == OpCode::kCloseSession) state_ = State::kFinished;
    pipeline_.pop_front();
  }
}

absl::Status Connection::StartHeld() {
  held_paused_ = false;
  while (held_count_ > 0 && state_ == State::kUp && long_read_ == nullptr && !awaits_reconfig_ &&
         !awaits_upgrade_) {
    if (HasMuchToSend()) {
      held_paused_ = true;
      break;
    }
    const size_t position = pipeline_.size() - held_count_;
    Pending& pending = pipeline_[position];
    std::string body = std::move(pending.bytes);
    pending.bytes.clear();
    if (pending.op == OpCode::kAuth) {
      const int32_t xid = pending.xid;
      held_bytes_ -= body.size();
      --held_count_;
      pipeline_.erase(pipeline_.begin() + static_cast<ptrdiff_t>(position));
      absl::Status status = OnAuth(xid, body);
      if (status.ok()) continue;
      DropRest();
      return status;
    }
    const size_t out_before = out_.size();
    absl::StatusOr<Progress> progress = Start(body, position == 0, &pending);
    if (!progress.ok()) {
      DropRest();
      return progress.status();
    }
    if (*progress == Progress::kMustWait) {
      pending.bytes = std::move(body);
      break;
    }
    held_bytes_ -= body.size();
    --held_count_;
    if (*progress == Progress::kInFlight) {
      pending.stage = Stage::kInFlight;
    } else if (*progress == Progress::kReading) {
      pending.stage = Stage::kReading;
      pending.bytes = PathOfRead(pending.op, body);
    } else {
      CountReply(pending, out_.size() - out_before, body);
      pipeline_.pop_front();
    }
  }
  return absl::OkStatus();
}

}  // namespace quorate::rpc::zk
