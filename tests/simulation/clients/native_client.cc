// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/clients/native_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "rpc/proto/times.h"

namespace quorate::simulation {
namespace {

constexpr int64_t kMsToUs = 1000;
constexpr int64_t kRetryUsMax = 300'000;
constexpr int64_t kOpenUsMax = 3'000'000;
constexpr size_t kPasswordBytes = 16;
constexpr size_t kWatchesMax = 4;
constexpr size_t kNames = 6;
constexpr size_t kCreatedMax = 50;

}  // namespace

NativeClient::NativeClient(SimEnvironment* environment, Endpoint* endpoint, History* history,
                           NativeChecker* checker, const NativeSettings& settings)
    : environment_(environment),
      endpoint_(endpoint),
      history_(history),
      checker_(checker),
      settings_(settings),
      random_(environment->random("native clients")) {}

void NativeClient::Start() {
  member_ = random_.Below(environment_->member_count());
  ConnectLater(random_.Between(0, kRetryUsMax));
  ActLater();
}

NativeClient::QuietStage NativeClient::quiet_stage() const {
  // A stage reached on an earlier stream does not count.
  return quiet_epoch_ == epoch_ && state_ == State::kUp ? quiet_stage_ : QuietStage::kWorking;
}

std::string NativeClient::Describe() const {
  return absl::StrCat("native client ", settings_.number, " at server ", member_ + 1, " state ",
                      static_cast<int>(state_), " session ", session_, ", ", outstanding_.size(),
                      " unanswered, stage ", static_cast<int>(quiet_stage()));
}

// --- Streams -------------------------------------------------------------------------------------

void NativeClient::ConnectLater(int64_t delay_us) {
  const uint64_t epoch = ++epoch_;
  environment_->After(delay_us, [this, epoch] {
    if (epoch == epoch_) Connect();
  });
}

void NativeClient::Connect() {
  state_ = State::kOpening;
  reader_.Clear();
  connection_ = endpoint_->Connect(member_, this);
  const uint64_t epoch = ++epoch_;
  environment_->After(kOpenUsMax, [this, epoch] {
    if (epoch == epoch_) Reconnect(kRetryUsMax);
  });
}

void NativeClient::Disconnect() {
  if (connection_ != 0) endpoint_->Close(connection_);
  connection_ = 0;
  if (state_ == State::kUp || state_ == State::kClosing) checker_->OnStreamClosed(session_);
  state_ = State::kWaiting;
  ++epoch_;
  outstanding_.clear();
  for (auto& [id, watch] : watches_) watch.set = false;
}

void NativeClient::Reconnect(int64_t delay_us_max) {
  const bool closing = state_ == State::kClosing;
  Disconnect();
  if (closing) {
    // The session has ended, or is about to, or its Close was lost.
    history_->AbandonSession(settings_.number, session_);
    EndSession();
  }
  member_ = random_.Below(environment_->member_count());
  ConnectLater(random_.Between(0, delay_us_max));
}

void NativeClient::EndSession() {
  session_ = 0;
  last_sequence_ = acknowledged_ = 0;
  writes_.clear();
  watches_.clear();
  if (!settings_.remembers_zxid) last_zxid_ = 0;
}

void NativeClient::OnOpen(ConnectionId connection) {
  if (connection == connection_) SendOpen();
}

void NativeClient::SendOpen() {
  v1::SessionRequest message;
  v1::OpenSession& open = *message.mutable_open();
  if (session_ == 0) {
    password_.clear();
    for (size_t i = 0; i < kPasswordBytes; ++i) {
      password_.push_back(static_cast<char>(random_.Next()));
    }
  }
  open.set_session_id(session_);
  open.set_password(password_);
  *open.mutable_timeout() = v1::DurationOfMs(settings_.timeout_ms);
  open.set_last_zxid(last_zxid_);
  // Unanswered requests may already be repeated in the first message.
  if (session_ != 0 && random_.Chance(0.5)) AddUnanswered(&message);
  Send(std::move(message));
}

void NativeClient::AddUnanswered(v1::SessionRequest* message) {
  for (const v1::Request::Write& write : writes_) {
    v1::Request request;
    *request.mutable_write() = write;
    Add(std::move(request), message);
  }
  for (const auto& [id, watch] : watches_) {
    v1::Request request;
    request.mutable_watch()->set_watch_id(id);
    request.mutable_watch()->set_path(watch.path);
    request.mutable_watch()->set_scope(watch.scope);
    request.mutable_watch()->set_after_zxid(watch.after);
    Add(std::move(request), message);
  }
}

void NativeClient::Add(v1::Request request, v1::SessionRequest* message, bool proves) {
  request.set_id(next_id_++);
  if (request.has_write()) checker_->OnWriteSent(session_, request.write());
  if (request.has_watch()) checker_->OnWatchSent(session_, request.watch());
  if (request.has_unwatch()) checker_->OnUnwatchSent(session_, request.unwatch().watch_id());
  if (request.has_close()) checker_->OnCloseSent(session_);
  *message->add_requests() = request;
  outstanding_.push_back(
      {std::move(request), environment_->now_us(), checker_->newest_seen(), proves});
}

void NativeClient::Send(v1::SessionRequest message) {
  if (random_.Chance(0.5)) message.set_acknowledged_sequence(acknowledged_);
  std::string bytes;
  AppendNativeFrame(NativeFrame::kMessage, message.SerializeAsString(), &bytes);
  sent_us_ = environment_->now_us();
  endpoint_->Send(connection_, std::move(bytes));
}

void NativeClient::SendOne(v1::Request request, bool proves) {
  v1::SessionRequest message;
  Add(std::move(request), &message, proves);
  Send(std::move(message));
}

void NativeClient::OnClosed(ConnectionId connection) {
  if (connection != connection_) return;
  connection_ = 0;
  Reconnect(kRetryUsMax);
}

void NativeClient::OnBytes(ConnectionId connection, std::string_view bytes) {
  if (connection != connection_) return;
  reader_.Add(bytes);
  NativeFrame kind;
  std::string payload;
  while (connection == connection_ && reader_.Next(&kind, &payload)) {
    if (kind == NativeFrame::kStatus) return OnStatus(payload);
    v1::SessionResponse message;
    if (!message.ParseFromString(payload)) {
      environment_->Fail("clients can decode the messages that they receive",
                         "a message is no SessionResponse");
    }
    OnMessage(message);
  }
}

void NativeClient::OnStatus(std::string_view payload) {
  const auto code = static_cast<v1::ErrorCode>(payload.at(0));
  environment_->Count(absl::StrCat("native: a stream ended with ", v1::ErrorCode_Name(code)));
  switch (code) {
    case v1::ERROR_CODE_SESSION_EXPIRED:
      if (session_ != 0 && state_ != State::kClosing) {
        history_->RefuseSession(settings_.number, session_);
        Disconnect();
        EndSession();
      }
      break;
    case v1::ERROR_CODE_UNSPECIFIED:
    case v1::ERROR_CODE_UNAVAILABLE:
    case v1::ERROR_CODE_SESSION_MOVED:
    case v1::ERROR_CODE_TOO_MANY_STREAMS:
    case v1::ERROR_CODE_NO_REQUEST:
      break;
    default:
      environment_->Fail("a stream ends only for a reason that applies to its client",
                         absl::StrCat(Describe(), ": ", std::string(payload.substr(1))));
  }
  Reconnect(kRetryUsMax);
}

void NativeClient::OnMessage(const v1::SessionResponse& message) {
  heard_us_ = environment_->now_us();
  const ConnectionId connection = connection_;
  if (message.has_opened() != (state_ == State::kOpening)) {
    environment_->Fail("the first message of a stream, and no other, says that the session is open",
                       Describe());
  }
  if (message.has_opened()) OnOpened(message.opened());
  if (connection != connection_) return;  // a request in the first message has waited too long
  checker_->OnHeard(session_);
  for (const v1::SessionItem& item : message.items()) {
    if (item.has_event()) {
      checker_->OnWatchEvent(session_, item.event());
      last_zxid_ = std::max(last_zxid_, item.event().event().zxid());
    } else {
      OnResponse(item.response());
      if (connection != connection_) return;
    }
  }
  if (message.zxid() == 0) return;
  checker_->OnAllSentUpTo(session_, message.zxid());
  last_zxid_ = std::max(last_zxid_, message.zxid());
  for (auto& [id, watch] : watches_) {
    if (watch.set) watch.after = message.zxid();
  }
}

void NativeClient::OnOpened(const v1::SessionOpened& opened) {
  const bool resumed = session_ != 0;
  if (opened.session_id() == 0 || (resumed && opened.session_id() != session_)) {
    environment_->Fail("a session that is opened is the one that was asked for",
                       absl::StrCat(Describe(), ": ", opened.ShortDebugString()));
  }
  environment_->Count(resumed ? "native: session resumed" : "native: session created");
  session_ = opened.session_id();
  timeout_ms_ = v1::ToMs(opened.timeout()).value_or(0);
  has_had_session_ = true;
  state_ = State::kUp;
  ++epoch_;
  // The first message may have repeated the unanswered requests; if not, they are sent now.
  const bool asked_again = !outstanding_.empty();
  checker_->OnOpened(settings_.number, member_, opened, resumed);
  if (!asked_again && (!writes_.empty() || !watches_.empty())) {
    v1::SessionRequest message;
    AddUnanswered(&message);
    Send(std::move(message));
  }
  KeepAlive();
}

void NativeClient::OnResponse(const v1::Response& response) {
  if (outstanding_.empty() || outstanding_.front().request.id() != response.id()) {
    environment_->Fail("requests of a stream are answered in their order",
                       absl::StrCat(Describe(), ": ", response.ShortDebugString()));
  }
  const Sent sent = std::move(outstanding_.front());
  outstanding_.pop_front();
  const v1::Request& request = sent.request;
  checker_->OnAnswered(session_, request, sent.newest_seen, response);
  environment_->Mix(static_cast<uint64_t>(response.zxid()));
  last_zxid_ = std::max(last_zxid_, response.zxid());
  if (request.has_write()) {
    ASSERT(writes_.front().sequence() == request.write().sequence());
    writes_.pop_front();
    acknowledged_ = request.write().sequence();
    for (const v1::OperationResult& result : response.write().results()) {
      if (!result.path().empty() && created_.size() < kCreatedMax) {
        created_.push_back(result.path());
      }
    }
  } else if (request.has_watch()) {
    OnWatchAnswered(request.watch(), response);
  } else if (request.has_close()) {
    environment_->Count("native: session closed");
    Disconnect();
    EndSession();
    return Reconnect(kRetryUsMax);
  }
  if (sent.proves && quiet_epoch_ == epoch_) {
    quiet_stage_ = quiet_stage_ == QuietStage::kProving ? QuietStage::kProved : QuietStage::kDone;
  }
}

void NativeClient::OnWatchAnswered(const v1::Request::Watch& request,
                                   const v1::Response& response) {
  const auto found = watches_.find(request.watch_id());
  if (found == watches_.end()) return;  // it was removed meanwhile
  Watch& watch = found->second;
  if (response.error() == v1::ERROR_CODE_UNSPECIFIED) {
    watch.set = true;
    watch.after = std::max(watch.after, response.zxid());
    return;
  }
  // The server can no longer supply its events: a new watch replaces it.
  const Watch again{watch.path, watch.scope};
  watches_.erase(found);
  v1::Request next;
  next.mutable_watch()->set_watch_id(next_watch_id_);
  next.mutable_watch()->set_path(again.path);
  next.mutable_watch()->set_scope(again.scope);
  watches_[next_watch_id_++] = again;
  SendOne(std::move(next));
}

void NativeClient::KeepAlive() {
  const int64_t timeout_us = timeout_ms_ * kMsToUs;
  const int64_t now_us = environment_->now_us();
  if (!outstanding_.empty() && now_us - outstanding_.front().sent_us > timeout_us * 2 / 3) {
    environment_->Count("native: server is silent");
    return Reconnect(kRetryUsMax);
  }
  if (now_us - sent_us_ >= timeout_us / 3) {
    // An empty message is a keepalive, too, but is not answered.
    v1::Request request;
    request.mutable_exists()->set_path("/");
    if (state_ == State::kClosing || random_.Chance(0.3)) {
      Send(v1::SessionRequest());
    } else {
      SendOne(std::move(request));
    }
  }
  const uint64_t epoch = epoch_;
  environment_->After(timeout_us / 9, [this, epoch] {
    if (epoch == epoch_) KeepAlive();
  });
}

// --- Requests ------------------------------------------------------------------------------------

void NativeClient::ActLater() {
  const auto mean_us = static_cast<int64_t>(1e6 / settings_.operation_rate);
  environment_->After(1 + random_.LongTail(mean_us), [this] {
    if (quiet_) return;
    Act();
    ActLater();
  });
}

void NativeClient::Act() {
  if (state_ != State::kUp || outstanding_.size() >= settings_.outstanding_max) return;
  if (random_.Chance(0.05) && DrawDeparture()) return;
  v1::SessionRequest message;
  const uint64_t requests = 1 + (random_.Chance(0.2) ? random_.Below(4) : 0);
  for (uint64_t i = 0; i < requests; ++i) {
    const uint64_t dice = random_.Below(100);
    if (dice < 50) {
      AddWrite(&message);
    } else if (dice < 92) {
      AddRead(&message);
    } else {
      AddOrDropWatch(&message);
    }
  }
  Send(std::move(message));
}

bool NativeClient::DrawDeparture() {
  const uint64_t dice = random_.Below(100);
  if (dice < 75) {
    environment_->Count("native: client moves");
    Reconnect(kRetryUsMax);
  } else if (dice < 85) {
    environment_->Count("native: client sleeps");
    Reconnect(2 * timeout_ms_ * kMsToUs);
  } else if (dice < 93) {
    v1::Request request;
    request.mutable_close();
    SendOne(std::move(request));
    state_ = State::kClosing;
  } else {
    environment_->Count("native: session abandoned");
    history_->AbandonSession(settings_.number, session_);
    Disconnect();
    EndSession();
    Reconnect(kRetryUsMax);
  }
  return true;
}

std::string NativeClient::DrawPath() {
  const std::string top = absl::StrCat("/n", random_.Below(settings_.count));
  const uint64_t dice = random_.Below(10);
  if (dice == 0) return top;
  if (dice == 1 && !created_.empty()) return created_[random_.Below(created_.size())];
  return absl::StrCat(top, "/k", random_.Below(kNames));
}

v1::Operation NativeClient::DrawOperation() {
  v1::Operation operation;
  const uint64_t dice = random_.Below(100);
  const std::string data = absl::StrCat(settings_.number, ":", last_sequence_);
  if (last_sequence_ == 0 || dice < 3) {
    operation.mutable_create()->set_path(absl::StrCat("/n", settings_.place));
  } else if (dice < 35) {
    operation.mutable_create()->set_path(DrawPath());
    operation.mutable_create()->set_data(data);
    operation.mutable_create()->set_mode(static_cast<v1::CreateMode>(1 + random_.Below(4)));
  } else if (dice < 75) {
    operation.mutable_set()->set_path(DrawPath());
    operation.mutable_set()->set_data(data);
    if (random_.Chance(0.1)) {
      operation.mutable_set()->set_version(static_cast<int32_t>(random_.Below(5)));
    }
  } else if (dice < 95) {
    operation.mutable_delete_()->set_path(DrawPath());
  } else {
    operation.mutable_check()->set_path(DrawPath());
  }
  return operation;
}

void NativeClient::DrawTransaction(v1::Request::Write* write) {
  for (uint64_t i = 1 + random_.Below(2); i > 0; --i) *write->add_compares() = DrawCompare();
  for (uint64_t i = random_.Below(4); i > 0; --i) *write->add_operations() = DrawPart();
  for (uint64_t i = random_.Below(3); i > 0; --i) *write->add_otherwise() = DrawPart();
}

v1::Compare NativeClient::DrawCompare() {
  v1::Compare compare;
  // A path that is not legal fails the transaction.
  compare.set_path(random_.Chance(0.03) ? "no/path" : DrawPath());
  const auto small = static_cast<int32_t>(random_.Below(4));
  const int64_t zxid =
      random_.Chance(0.5) ? 0 : last_zxid_ - static_cast<int64_t>(random_.Below(40));
  switch (random_.Below(8)) {
    case 0:
      compare.set_exists(random_.Chance(0.5));
      compare.set_relation(static_cast<v1::CompareRelation>(1 + random_.Below(2)));
      return compare;
    case 1:
      compare.set_created_zxid(zxid);
      break;
    case 2:
      compare.set_modified_zxid(zxid);
      break;
    case 3:
      compare.set_children_modified_zxid(zxid);
      break;
    case 4:
      compare.set_version(small);
      break;
    case 5:
      compare.set_children_version(small);
      break;
    case 6:
      compare.set_acl_version(small);
      break;
    default:
      compare.set_data(absl::StrCat(random_.Below(8), ":", random_.Below(1 + last_sequence_)));
  }
  compare.set_relation(static_cast<v1::CompareRelation>(random_.Below(5)));
  return compare;
}

v1::Operation NativeClient::DrawPart() {
  v1::Operation operation;
  switch (random_.Below(8)) {
    case 0:
      operation.mutable_get()->set_path(DrawPath());
      break;
    case 1:
    case 2:
      operation.mutable_exists()->set_path(DrawPath());
      break;
    case 3:
      operation.mutable_list()->set_path(absl::StrCat("/n", random_.Below(settings_.count)));
      break;
    case 4:
      operation.mutable_create()->set_path(
          absl::StrCat("/n", settings_.place, "/p", random_.Below(kNames), "/q",
                       random_.Below(kNames), "/r", random_.Below(2)));
      operation.mutable_create()->set_mode(static_cast<v1::CreateMode>(1 + random_.Below(4)));
      operation.mutable_create()->set_with_parents(true);
      break;
    case 5:
      operation.mutable_delete_()->set_path(absl::StrCat(
          "/n", settings_.place, "/p", random_.Below(kNames), "/q", random_.Below(kNames)));
      break;
    default:
      return DrawOperation();
  }
  return operation;
}

void NativeClient::AddWrite(v1::SessionRequest* message) {
  v1::Request::Write write;
  if (settings_.makes_transactions && last_sequence_ > 0 && random_.Chance(0.4)) {
    DrawTransaction(&write);
  } else {
    const uint64_t operations = random_.Chance(0.2) ? 2 + random_.Below(2) : 1;
    for (uint64_t i = 0; i < operations; ++i) *write.add_operations() = DrawOperation();
  }
  write.set_sequence(++last_sequence_);
  writes_.push_back(write);
  v1::Request request;
  *request.mutable_write() = std::move(write);
  Add(std::move(request), message);
}

void NativeClient::AddRead(v1::SessionRequest* message) {
  v1::Request request;
  const bool linearizable = random_.Chance(0.3);
  switch (random_.Below(4)) {
    case 0:
      request.mutable_get()->set_path(DrawPath());
      request.mutable_get()->set_linearizable(linearizable);
      break;
    case 1:
      request.mutable_exists()->set_path(DrawPath());
      request.mutable_exists()->set_linearizable(linearizable);
      break;
    case 2:
      request.mutable_list()->set_path(absl::StrCat("/n", random_.Below(settings_.count)));
      request.mutable_list()->set_linearizable(linearizable);
      break;
    default:
      request.mutable_sync();
  }
  Add(std::move(request), message);
}

void NativeClient::AddOrDropWatch(v1::SessionRequest* message) {
  v1::Request request;
  if (watches_.size() >= kWatchesMax) {
    const auto dropped = watches_.begin();
    // While the watch is unanswered, it is not known whether it is set.
    if (!dropped->second.set) return AddRead(message);
    request.mutable_unwatch()->set_watch_id(dropped->first);
    watches_.erase(dropped);
  } else {
    Watch& watch = watches_[next_watch_id_];
    watch.path = random_.Chance(0.1) ? "/" : DrawPath();
    watch.scope = static_cast<v1::WatchScope>(1 + random_.Below(3));
    request.mutable_watch()->set_watch_id(next_watch_id_++);
    request.mutable_watch()->set_path(watch.path);
    request.mutable_watch()->set_scope(watch.scope);
  }
  Add(std::move(request), message);
}

void NativeClient::StepQuiet(bool all_proved) {
  if (state_ != State::kUp || !outstanding_.empty()) return;
  const QuietStage stage = quiet_stage();
  if (stage == QuietStage::kWorking) {
    quiet_stage_ = QuietStage::kProving;
    quiet_epoch_ = epoch_;
    v1::Request request;
    v1::Request::Write& write = *request.mutable_write();
    write.add_operations()->mutable_set()->set_path(absl::StrCat("/n", settings_.place));
    write.set_sequence(++last_sequence_);
    writes_.push_back(write);
    SendOne(std::move(request), /*proves=*/true);
  } else if (stage == QuietStage::kProved && all_proved) {
    // The answer shows that all events up to its zxid have come.
    quiet_stage_ = QuietStage::kReading;
    v1::Request request;
    request.mutable_sync();
    SendOne(std::move(request), /*proves=*/true);
  }
}

}  // namespace quorate::simulation
