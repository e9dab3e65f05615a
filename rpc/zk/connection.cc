#include "rpc/zk/connection.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "rpc/zk/connection_loop.h"

namespace quorate::rpc::zk {
namespace {

using tree::ErrorCode;

constexpr size_t kLengthBytes = 4;
constexpr size_t kReplyZxidOffset = 8;  // after length and xid
// What one connection may have in its pipeline before no more is read from it.
constexpr size_t kPipelineRequestsMax = 4096;
constexpr size_t kHeldBytesMax = 8u << 20;
// Unsent bytes at which no more requests are answered.
constexpr size_t kUnsentBytesPause = 4u << 20;
constexpr size_t kIdentitiesMax = 128;
constexpr size_t kIdentityBytesMax = 64u << 10;
constexpr auto kHandshakeTimeout = std::chrono::seconds(30);
constexpr auto kCatchUpTimeout = std::chrono::seconds(2);

// "user:password" -> "user:" + base64(sha1("user:password")), as ZooKeeper stores it.
std::string DigestId(std::string_view credentials) {
  unsigned char hash[SHA_DIGEST_LENGTH];
  SHA1(reinterpret_cast<const unsigned char*>(credentials.data()), credentials.size(), hash);
  unsigned char text[4 * ((SHA_DIGEST_LENGTH + 2) / 3) + 1];
  EVP_EncodeBlock(text, hash, SHA_DIGEST_LENGTH);
  return std::string(credentials.substr(0, credentials.find(':'))) + ":" +
         reinterpret_cast<const char*>(text);
}

bool IsLowerCaseWord(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

}  // namespace

Connection::Connection(ConnectionLoop* loop, uint32_t tag, std::string address)
    : loop_(loop), tag_(tag), address_(std::move(address)), opened_(loop->now()) {
  identities_.push_back({"ip", address_});
}

bool Connection::HasMuchToSend() const { return out_.size() > kUnsentBytesPause; }

bool Connection::IsFull() const {
  return (state_ != State::kHandshake && state_ != State::kUp) || HasMuchToSend() ||
         pipeline_.size() >= kPipelineRequestsMax || held_bytes_ >= kHeldBytesMax;
}

bool Connection::CanContinue() const {
  if (state_ != State::kUp || HasMuchToSend()) return false;
  // A held request waits for results as long as something is before it.
  if (held_count_ > 0 && (held_paused_ || pipeline_.size() == held_count_)) return true;
  return unread_ && !IsFull();
}

absl::Status Connection::Continue() {
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
  if (state_ == State::kHandshake && bytes.size() >= kLengthBytes &&
      AnswerFourLetterWord(bytes.substr(0, kLengthBytes))) {
    state_ = State::kFinished;
    return absl::OkStatus();
  }
  unread_ = false;
  while (bytes.size() - used >= kLengthBytes) {
    if (IsFull()) {
      unread_ = true;  // Continue goes on
      break;
    }
    const int32_t length = LoadInt<std::endian::big, int32_t>(bytes.data() + used);
    if (length < 0 || length > loop_->door().config().jute_max_buffer_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("a packet claims to have ", length,
                                                     " bytes; jute.maxbuffer is ",
                                                     loop_->door().config().jute_max_buffer_bytes));
    }
    if (bytes.size() - used - kLengthBytes < static_cast<size_t>(length)) break;
    const std::string_view packet = bytes.substr(used + kLengthBytes, static_cast<size_t>(length));
    used += kLengthBytes + packet.size();
    if (absl::Status s = OnPacket(packet); !s.ok()) return s;
  }
  // What is left is an incomplete packet, or waits for Continue.
  if (in_.empty()) {
    in_.assign(bytes.substr(used));
  } else {
    in_.erase(0, used);
  }
  return absl::OkStatus();
}

absl::Status Connection::OnPacket(std::string_view packet) {
  ++packets_received_;
  touched_ = true;
  return state_ == State::kUp ? OnRequest(packet) : OnConnectRequest(packet);
}

bool Connection::AnswerFourLetterWord(std::string_view word) {
  if (!IsLowerCaseWord(word)) return false;
  out_ += loop_->door().AnswerFourLetterWord(word);
  return true;
}

// --- The session ---------------------------------------------------------------------------------

absl::Status Connection::OnConnectRequest(std::string_view packet) {
  absl::StatusOr<ConnectRequest> request = DecodeConnectRequest(packet);
  if (!request.ok()) return request.status();
  connect_ = *std::move(request);
  if (!loop_->door().service().status().in_touch) {
    return absl::UnavailableError("this server is out of touch with a majority of the servers");
  }
  if (connect_.last_zxid_seen > loop_->LockTree().last_zxid().value()) {
    state_ = State::kCatchingUp;
    return absl::OkStatus();
  }
  return BeginSession();
}

absl::Status Connection::RetryHandshake() {
  ASSERT(state_ == State::kCatchingUp);
  const tree::Zxid applied = loop_->LockTree().last_zxid();
  if (connect_.last_zxid_seen <= applied.value()) return BeginSession();
  if (loop_->now() - opened_ < kCatchUpTimeout) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the client has seen zxid ", connect_.last_zxid_seen, ", this server has only ",
                   applied.value(), "; the client will try another server"));
}

absl::Status Connection::BeginSession() {
  const Config& config = loop_->door().config();
  timeout_ms_ =
      std::clamp(connect_.timeout_ms, config.min_session_timeout_ms, config.max_session_timeout_ms);
  std::string& to = loop_->command_bytes();
  const size_t offset = to.size();
  if (connect_.session_id == 0) {
    session_ = loop_->door().NewSessionId();
    connect_.password = loop_->door().random().Make(tree::kPasswordBytes);
    tree::AppendCreateSession(Header(tree::CommandKind::kCreateSession), timeout_ms_,
                              connect_.password, &to);
  } else {
    session_ = tree::SessionId(connect_.session_id);
    tree::AppendAttachSession(Header(tree::CommandKind::kAttachSession), timeout_ms_,
                              connect_.password, &to);
  }
  loop_->AddedCommand(offset);
  state_ = State::kConnecting;
  return absl::OkStatus();
}

absl::Status Connection::OnSessionResult(const tree::ApplyResult& result) {
  if (state_ != State::kConnecting) return absl::OkStatus();  // closed meanwhile
  ConnectResponse response;
  response.has_read_only = connect_.has_read_only;
  ++packets_sent_;
  if (result.error != ErrorCode::kOk) {
    AppendConnectResponse(response, &out_);
    state_ = State::kFinished;
    return absl::OkStatus();
  }
  attach_zxid_ = result.zxid;
  response.timeout_ms = result.timeout_ms;
  response.session_id = session_.value();
  response.password = connect_.password;
  timeout_ms_ = result.timeout_ms;
  AppendConnectResponse(response, &out_);
  state_ = State::kUp;
  touched_ = true;
  unread_ = true;  // what the client has sent on already
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

absl::Status Connection::CheckTime(std::chrono::steady_clock::time_point now,
                                   int64_t leader_contact_age_ms) {
  if (state_ == State::kHandshake && now - opened_ > kHandshakeTimeout) {
    return absl::DeadlineExceededError("no connect request came");
  }
  // The client has to learn in time that its session may end elsewhere: it looks for another server
  // when nothing comes for two thirds of the timeout.
  const int64_t limit_ms =
      std::max<int64_t>(timeout_ms_ / 2, 3 * loop_->door().config().election_timeout_ms);
  if (state_ != State::kHandshake && leader_contact_age_ms > limit_ms) {
    return absl::UnavailableError(
        absl::StrCat("no leader was heard from for ", leader_contact_age_ms, " ms"));
  }
  return absl::OkStatus();
}

tree::CommandHeader Connection::Header(tree::CommandKind kind) const {
  tree::CommandHeader header;
  header.kind = kind;
  header.origin = loop_->door().service().origin();
  header.origin_tag = tag_;
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
  if (pending.op == OpCode::kPing) {
    ReplyWriter reply(&out_, kPingXid, SeenZxid(), ErrorCode::kOk);
    ++packets_sent_;
    return absl::OkStatus();
  }
  if (pending.op == OpCode::kAuth) return OnAuth(pending.xid, reader.rest());
  if (held_count_ > 0) {
    Hold(std::move(pending), reader.rest());
    return absl::OkStatus();
  }
  absl::StatusOr<Progress> progress = Start(reader.rest(), pipeline_.empty(), &pending);
  if (!progress.ok()) return progress.status();
  if (*progress == Progress::kMustWait) {
    Hold(std::move(pending), reader.rest());
  } else if (*progress == Progress::kInFlight) {
    pending.stage = Stage::kInFlight;
    pipeline_.push_back(std::move(pending));
  }
  return absl::OkStatus();
}

void Connection::Hold(Pending pending, std::string_view body) {
  pending.stage = Stage::kHeld;
  pending.bytes.assign(body);
  held_bytes_ += body.size();
  ++held_count_;
  pipeline_.push_back(std::move(pending));
}

absl::StatusOr<Connection::Progress> Connection::Start(std::string_view body, bool alone,
                                                       Pending* pending) {
  if (IsWrite(pending->op)) return StartWrite(body, alone, pending);
  if (pending->op == OpCode::kCloseSession) {
    std::string& to = loop_->command_bytes();
    const size_t offset = to.size();
    tree::AppendCloseSession(Header(tree::CommandKind::kCloseSession), &to);
    loop_->AddedCommand(offset);
    return Progress::kInFlight;
  }
  if (pending->op == OpCode::kSync) {
    ReadRequest request;
    if (DecodeReadRequest(body, /*has_watch_flag=*/false, &request)) {
      pending->sync_id = next_sync_id_++;
      pending->bytes.assign(request.path);
      loop_->door().service().Sync(tag_, pending->sync_id);
      return Progress::kInFlight;
    }
  }
  if (!alone) return Progress::kMustWait;
  return AnswerNow(pending->xid, pending->op, body);
}

absl::StatusOr<Connection::Progress> Connection::StartWrite(std::string_view body, bool alone,
                                                            Pending* pending) {
  tree::Request request;
  const ErrorCode error = DecodeWrite(pending->op, body, &request, &pending->shapes);
  if (error != ErrorCode::kOk) {
    if (!alone) return Progress::kMustWait;  // the error has its turn
    ReplyError(pending->xid, error);
    return Progress::kAnswered;
  }
  request.identities = identities_;
  std::string& to = loop_->command_bytes();
  const size_t offset = to.size();
  tree::AppendRequest(Header(tree::CommandKind::kRequest), request, &to);
  if (to.size() - offset > kCommandBytesMax) {
    // Nothing that the log does not take may enter the queue in front of it.
    const size_t size = to.size() - offset;
    to.resize(offset);
    return absl::InvalidArgumentError(
        absl::StrCat("a write of ", size, " bytes is larger than ", kCommandBytesMax));
  }
  loop_->AddedCommand(offset);
  return Progress::kInFlight;
}

absl::StatusOr<Connection::Progress> Connection::AnswerNow(int32_t xid, OpCode op,
                                                           std::string_view body) {
  switch (op) {
    case OpCode::kExists:
    case OpCode::kGetData:
    case OpCode::kGetAcl:
    case OpCode::kGetChildren:
    case OpCode::kGetChildren2:
      Read(xid, op, body);
      break;
    case OpCode::kSetWatches:
      SetWatches(xid, body);
      break;
    case OpCode::kSync:
      ReplyError(xid, ErrorCode::kMarshallingError);  // it did not decode
      break;
    default:
      // As ZooKeeper: the client is told, and loses its connection but not its session.
      ReplyError(xid, ErrorCode::kUnimplemented);
      return absl::UnimplementedError(
          absl::StrCat("operation ", static_cast<int32_t>(op), " is not one that is served"));
  }
  return Progress::kAnswered;
}

absl::Status Connection::OnAuth(int32_t xid, std::string_view body) {
  AuthRequest request;
  const bool decodes = DecodeAuthRequest(body, &request);
  if (decodes && request.scheme == "digest" && request.credentials.find(':') != std::string::npos) {
    tree::Identity identity{"digest", DigestId(request.credentials)};
    if (std::find(identities_.begin(), identities_.end(), identity) == identities_.end()) {
      // Every write of the connection carries them all.
      if (identity_bytes_ + identity.id.size() > kIdentityBytesMax ||
          identities_.size() >= kIdentitiesMax) {
        ReplyWriter reply(&out_, xid, tree::Zxid(0), ErrorCode::kAuthFailed);
        return absl::ResourceExhaustedError(absl::StrCat("a connection may have ", kIdentitiesMax,
                                                         " identities of together ",
                                                         kIdentityBytesMax, " bytes"));
      }
      identity_bytes_ += identity.id.size();
      identities_.push_back(std::move(identity));
    }
  } else if (!decodes || request.scheme != "ip") {
    ReplyWriter reply(&out_, xid, tree::Zxid(0), ErrorCode::kAuthFailed);
    return absl::UnauthenticatedError(
        absl::StrCat("authentication failed; scheme \"", std::string(request.scheme), "\""));
  }
  ReplyWriter reply(&out_, xid, tree::Zxid(0), ErrorCode::kOk);
  ++packets_sent_;
  return absl::OkStatus();
}

void Connection::ReplyError(int32_t xid, ErrorCode error) {
  ReplyWriter reply(&out_, xid, SeenZxid(), error);
  ++packets_sent_;
}

// --- Reads ---------------------------------------------------------------------------------------

void Connection::Watch(std::string_view path, tree::WatchKind kind) {
  Watches& watches = loop_->door().watches();
  MutexLock lock(&watches.mutex);
  watches.table.Add(tag_, path, kind);
}

void Connection::Read(int32_t xid, OpCode op, std::string_view body) {
  const tree::Tree& tree = loop_->LockTree();
  ReadRequest request;
  if (!DecodeReadRequest(body, op != OpCode::kGetAcl, &request)) {
    ReplyError(xid, ErrorCode::kMarshallingError);
    return;
  }
  if (op == OpCode::kGetChildren || op == OpCode::kGetChildren2) {
    ReadChildren(xid, op, request);
    return;
  }
  tree::Stat stat;
  std::string_view data;
  bool has_data = false;
  std::vector<tree::Acl> acl;
  ErrorCode error;
  if (op == OpCode::kExists) {
    error = tree.Exists(request.path, identities_, &stat);
  } else if (op == OpCode::kGetData) {
    error = tree.GetData(request.path, identities_, &data, &has_data, &stat);
  } else {
    error = tree.GetAcl(request.path, identities_, &acl, &stat);
  }
  // exists leaves a watch for the creation of what is not there.
  if (request.watch &&
      (error == ErrorCode::kOk || (op == OpCode::kExists && error == ErrorCode::kNoNode))) {
    Watch(request.path, tree::WatchKind::kData);
  }
  ReplyWriter reply(&out_, xid, SeenZxid(), error);
  ++packets_sent_;
  if (error != ErrorCode::kOk) return;
  if (op == OpCode::kGetData) WriteData(has_data, data, reply.body());
  if (op == OpCode::kGetAcl) WriteAcl(acl, reply.body());
  WriteStat(stat, reply.body());
}

void Connection::ReadChildren(int32_t xid, OpCode op, const ReadRequest& request) {
  tree::Stat stat;
  std::string names;
  int32_t count = 0;
  BigEndianWriter names_writer(&names);
  const ErrorCode error = loop_->LockTree().GetChildren(
      request.path, identities_,
      [&](std::string_view name) {
        names_writer.String(name);
        ++count;
      },
      &stat);
  if (request.watch && error == ErrorCode::kOk) Watch(request.path, tree::WatchKind::kChild);
  ReplyWriter reply(&out_, xid, SeenZxid(), error);
  ++packets_sent_;
  if (error != ErrorCode::kOk) return;
  reply.body().Int(count);
  reply.body().Raw(names);
  if (op == OpCode::kGetChildren2) WriteStat(stat, reply.body());
}

void Connection::SetWatches(int32_t xid, std::string_view body) {
  const tree::Tree& tree = loop_->LockTree();
  SetWatchesRequest request;
  if (!DecodeSetWatches(body, &request)) {
    ReplyError(xid, ErrorCode::kMarshallingError);
    return;
  }
  // What has changed while the client was away is told now, the rest is watched again. Such events
  // carry no zxid: they stand for any number of changes.
  constexpr tree::Zxid kNone{-1};
  const tree::Zxid since(request.relative_zxid);
  tree::Stat stat;
  for (std::string_view path : request.data_watches) {
    if (!tree.FindStat(path, &stat)) {
      AppendNotification(tree::EventType::kNodeDeleted, path, kNone, &out_);
    } else if (stat.mzxid > since) {
      AppendNotification(tree::EventType::kNodeDataChanged, path, kNone, &out_);
    } else {
      Watch(path, tree::WatchKind::kData);
    }
  }
  for (std::string_view path : request.exist_watches) {
    if (tree.FindStat(path, &stat)) {
      AppendNotification(tree::EventType::kNodeCreated, path, kNone, &out_);
    } else {
      Watch(path, tree::WatchKind::kData);
    }
  }
  for (std::string_view path : request.child_watches) {
    if (!tree.FindStat(path, &stat)) {
      AppendNotification(tree::EventType::kNodeDeleted, path, kNone, &out_);
    } else if (stat.pzxid > since) {
      AppendNotification(tree::EventType::kNodeChildrenChanged, path, kNone, &out_);
    } else {
      Watch(path, tree::WatchKind::kChild);
    }
  }
  ReplyWriter reply(&out_, xid, SeenZxid(), ErrorCode::kOk);
  ++packets_sent_;
}

// --- What comes back -----------------------------------------------------------------------------

void Connection::OnWatchEvent(tree::EventType type, std::string_view path, tree::Zxid zxid) {
  AppendNotification(type, path, zxid, &out_);
  event_zxid_ = zxid;
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

absl::Status Connection::OnRequestResult(const tree::ApplyResult& result) {
  auto pending = std::find_if(pipeline_.begin(), pipeline_.end(), [](const Pending& p) {
    return p.stage == Stage::kInFlight && p.op != OpCode::kSync;
  });
  ASSERT(pending != pipeline_.end(), "results come in the order of the writes");
  if (result.error == ErrorCode::kSessionMoved) {
    return absl::AbortedError("the session has moved to another connection");
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
  loop_->door().statistics().AddLatency(
      std::chrono::duration_cast<std::chrono::milliseconds>(loop_->now() - pending->received)
          .count());
  if (result.error == ErrorCode::kSessionExpired) state_ = State::kFinished;
  SendDone();
  return absl::OkStatus();
}

void Connection::OnSyncDone(uint64_t sync_id) {
  if (state_ != State::kUp) return;
  auto pending = std::find_if(pipeline_.begin(), pipeline_.end(), [&](const Pending& p) {
    return p.stage == Stage::kInFlight && p.op == OpCode::kSync && p.sync_id == sync_id;
  });
  ASSERT(pending != pipeline_.end());
  std::string reply_bytes;
  {
    ReplyWriter reply(&reply_bytes, pending->xid, SeenZxid(), ErrorCode::kOk);
    reply.body().String(pending->bytes);  // the path as it was sent
  }
  if (pending == pipeline_.begin()) {
    out_ += reply_bytes;
  } else {
    pending->bytes = std::move(reply_bytes);
  }
  pending->stage = Stage::kDone;
  SendDone();
}

void Connection::SendDone() {
  bool first = true;  // the reply of the first one that is done is in out_ already
  while (!pipeline_.empty() && pipeline_.front().stage == Stage::kDone) {
    Pending& pending = pipeline_.front();
    if (!first) {
      // It waited for a reply with a newer zxid; a client must not see zxids go back.
      char* zxid = pending.bytes.data() + kReplyZxidOffset;
      StoreInt<std::endian::big>(
          zxid, std::max(LoadInt<std::endian::big, int64_t>(zxid), SeenZxid().value()));
      out_ += pending.bytes;
    }
    first = false;
    ++packets_sent_;
    if (pending.op == OpCode::kCloseSession) state_ = State::kFinished;
    pipeline_.pop_front();
  }
}

absl::Status Connection::StartHeld() {
  held_paused_ = false;
  while (held_count_ > 0 && state_ == State::kUp) {
    if (HasMuchToSend()) {
      held_paused_ = true;
      break;
    }
    const size_t position = pipeline_.size() - held_count_;
    Pending& pending = pipeline_[position];
    std::string body = std::move(pending.bytes);
    pending.bytes.clear();
    absl::StatusOr<Progress> progress = Start(body, position == 0, &pending);
    if (!progress.ok()) return progress.status();
    if (*progress == Progress::kMustWait) {
      pending.bytes = std::move(body);
      break;
    }
    held_bytes_ -= body.size();
    --held_count_;
    if (*progress == Progress::kInFlight) {
      pending.stage = Stage::kInFlight;
    } else {
      pipeline_.pop_front();
    }
  }
  return absl::OkStatus();
}

}  // namespace quorate::rpc::zk
