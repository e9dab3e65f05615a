// SPDX-License-Identifier: Apache-2.0

#include "client/engine.h"

#include <algorithm>
#include <ctime>
#include <limits>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/thread.h"
#include "client/error.h"
#include "rpc/proto/errors.h"
#include "rpc/proto/times.h"

namespace quorate::internal {
namespace {

using std::chrono::milliseconds;

// Memory of a pending request besides its message.
constexpr size_t kPendingBytes = 200;
// Bounds of the time that an attempt waits for a member's answer.
constexpr milliseconds kPatienceMin{250};
constexpr milliseconds kPatienceMax{2000};
// A member that served for a shorter time counts as one that did not serve.
constexpr milliseconds kStable{1000};
// The next session after one that ended so soon is created after a pause.
constexpr milliseconds kShortLived{20};

// The most deliveries that are put into the queue together.
constexpr size_t kDeliveriesAtOnce = 1024;
// The most events of the completion queue that are handled between two checks of the inbox.
constexpr int kEventsAtOnce = 16;

std::string NewPassword() {
  constexpr size_t kPasswordBytes = 16;
  std::random_device random;
  std::string password;
  while (password.size() < kPasswordBytes) password.push_back(static_cast<char>(random()));
  return password;
}

// Returns a first time limit for attempts: long enough for a write through the log, and short
// enough that several members can be tried before a session with that timeout expires.
milliseconds FirstPatience(milliseconds timeout) {
  return std::clamp(timeout / 5, kPatienceMin, kPatienceMax);
}

class PostedCallback final : public Delivery {
 public:
  explicit PostedCallback(absl::AnyInvocable<void()> callback) : callback_(std::move(callback)) {}
  void Deliver() override { std::exchange(callback_, nullptr)(); }

 private:
  absl::AnyInvocable<void()> callback_;
};

// Keeps an object alive until all deliveries that were queued before this one have been made.
class Disposal final : public Delivery {
 public:
  explicit Disposal(std::shared_ptr<void> owned) : owned_(std::move(owned)) {}
  void Deliver() override { owned_.reset(); }

 private:
  std::shared_ptr<void> owned_;
};

// Returns the approximate size of the part of an answer that the user receives.
size_t BytesOf(const v1::Response& response) {
  if (response.has_get()) return response.get().data().size();
  return response.has_list() || response.has_get_acl() ? response.ByteSizeLong() : 0;
}

absl::Status NoMember() { return absl::UnavailableError("no member serves"); }

gpr_timespec ToDeadline(Engine::Clock::time_point time) {
  if (time == Engine::Clock::time_point::max()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  const auto left = std::max(time - Engine::Clock::now(), Engine::Clock::duration::zero());
  const int64_t left_us = std::chrono::ceil<std::chrono::microseconds>(left).count();
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_micros(left_us, GPR_TIMESPAN));
}

bool HasReads(const v1::Request::Write& write) {
  const auto reads = [](const auto& operations) {
    return std::ranges::any_of(operations, [](const v1::Operation& operation) {
      return operation.has_get() || operation.has_exists() || operation.has_list();
    });
  };
  return reads(write.operations()) || reads(write.otherwise());
}

}  // namespace

BootClock::time_point BootClock::now() noexcept {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return time_point(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

Engine::Engine(std::vector<std::string> members, ClientOptions options, Access access)
    : options_(std::move(options)),
      access_(std::move(access)),
      members_(std::move(members)),
      random_(std::random_device{}()),
      session_timeout_ms_(options_.session_timeout_ms),
      password_(NewPassword()),
      callbacks_(std::make_shared<CallbackQueue>(options_.executor,
                                                 [this] {
                                                   Add({nullptr, nullptr});
                                                 })),
      back_off_(options_.retry.pause_min_ms),
      timeout_(options_.session_timeout_ms),
      patience_(FirstPatience(timeout_)),
      write_window_(kWritesSentMax) {
  ASSERT(!members_.empty());
  if (options_.on_session_event != nullptr) {
    session_listener_ = std::make_shared<SessionNotifier>(options_.on_session_event);
  }
}

Engine::~Engine() { ASSERT(!thread_.joinable(), "it was stopped"); }

void Engine::Start() {
  ShuffleMembers();
  thread_ = StartThread("quorate-client", [this] { Run(); });
}

absl::Status Engine::WaitUntilConnected(int timeout_ms) {
  const Clock::time_point end = Clock::now() + milliseconds(timeout_ms);
  std::unique_lock<std::mutex> lock(mutex_.native());
  while (state() == Client::State::kConnecting) {
    if (state_changed_.wait_until(lock, end) == std::cv_status::timeout) break;
  }
  const auto result = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::Status {
    if (state() == Client::State::kLost) return failure_;
    if (state() != Client::State::kConnecting) return absl::OkStatus();
    std::string members;
    for (const std::string& member : members_) {
      const auto error = member_errors_.find(member);
      absl::StrAppend(&members, "\n  ", member, ": ",
                      error == member_errors_.end() ? "no answer" : error->second);
    }
    return absl::DeadlineExceededError(members);
  }();
  if (result.code() != absl::StatusCode::kDeadlineExceeded) return result;
  return absl::DeadlineExceededError(
      absl::StrCat("no member gave a session within ", timeout_ms, " ms:", result.message()));
}

void Engine::Stop() {
  ASSERT(!IsInCallback(), "a Client is not destroyed by one of its own callbacks");
  if (!thread_.joinable()) return;
  Add({nullptr, [this] {
         is_stopping_ = true;
         const absl::Status destroyed = absl::CancelledError("the client was destroyed");
         if (!is_over_) TellListenersOfEnd(destroyed);
         EndCalls(destroyed);
         EndStream();
         EndWatches();
         is_over_ = true;
         next_attempt_ = Clock::time_point::max();
       }});
  stop_measuring_.request_stop();
  thread_.join();
  if (meter_.joinable()) meter_.join();
  callbacks_->Stop();
}

// --- From other threads --------------------------------------------------------------------------

bool Engine::Add(Posted posted) {
  MutexLock lock(&mutex_);
  if (is_stopped_) return false;
  inbox_.push_back(std::move(posted));
  if (std::exchange(sleeps_, false) && !is_waking_) {
    is_waking_ = true;
    alarm_.Set(&queue_, gpr_inf_past(GPR_CLOCK_MONOTONIC), &alarm_);
  }
  return true;
}

void Engine::Post(absl::AnyInvocable<void()> callback) {
  auto posted = std::make_shared<PostedCallback>(std::move(callback));
  if (!callbacks_->Post(posted)) posted->Deliver();
  EndWaitingIfFull();
}

void Engine::PostAfter(milliseconds delay, absl::AnyInvocable<void()> callback) {
  auto posted = std::make_shared<PostedCallback>(std::move(callback));
  const auto start = [this, posted, at = Clock::now() + delay] { timers_.emplace(at, posted); };
  if (!Add({nullptr, start}) && !callbacks_->Post(posted)) posted->Deliver();
}

void Engine::Submit(uint64_t call, std::unique_ptr<v1::Request> request, int deadline_ms,
                    Done done) {
  Submit(NewPending(call, std::move(request), deadline_ms, std::move(done)));
}

void Engine::SubmitNext(uint64_t call, std::unique_ptr<v1::Request> request, int deadline_ms,
                        Done done) {
  auto pending = NewPending(call, std::move(request), deadline_ms, std::move(done));
  pending->is_continuation = true;
  Submit(std::move(pending));
}

std::unique_ptr<Engine::Pending> Engine::NewPending(uint64_t call,
                                                    std::unique_ptr<v1::Request> request,
                                                    int deadline_ms, Done done) {
  auto pending = std::make_unique<Pending>();
  pending->call = call;
  pending->generation = generation_.load(std::memory_order_acquire);
  pending->watch_id = request->watch().watch_id();
  pending->bytes = kPendingBytes + request->ByteSizeLong();
  pending->has_reads = request->has_write() && HasReads(request->write());
  pending->request = std::move(request);
  pending->deadline_ms = deadline_ms;
  if (deadline_ms > 0) pending->deadline = Clock::now() + milliseconds(deadline_ms);
  pending->done = std::move(done);
  return pending;
}

void Engine::Cancel(uint64_t call) {
  Add({nullptr, [this, call] { GiveUp(call); }});
}

void Engine::ChangeMember() {
  Add({nullptr, [this] {
         if (!is_up_) return;
         up_since_ = Clock::now() - kStable;  // so that a new round begins, with this member last
         Abandon(absl::UnavailableError("ChangeMember asked the client to leave"));
       }});
}

std::pair<int64_t, std::string> Engine::session_key() {
  MutexLock lock(&mutex_);
  return {session_id(), password_};
}

absl::Status Engine::SetMembers(std::vector<std::string> members) {
  ASSERT(!members.empty());
  if (absl::Status s = access_.Check(members); !s.ok()) return s;
  Add({nullptr, [this, members = std::move(members)]() mutable {
         members_ = std::move(members);
         refused_by_.clear();
         attempts_ = 0;
         ShuffleMembers();
         if (is_over_) return;
         Measure();
         if (stream_ == nullptr) {
           next_attempt_ = Clock::now();
         } else if (std::find(members_.begin(), members_.end(), stream_->address()) ==
                    members_.end()) {
           Abandon(absl::UnavailableError("SetServers has taken the member out of the list"));
         }
       }});
  return absl::OkStatus();
}

void Engine::Log(LogLevel level, std::string line) {
  if (options_.log == nullptr || !callbacks_->has_room_for_events()) return;
  Deliver(std::make_shared<PostedCallback>(
              [this, level, line = std::move(line)] { options_.log(level, line); }),
          0);
}

void Engine::SetState(Client::State state) {
  MutexLock lock(&mutex_);
  state_.store(state, std::memory_order_release);
  state_changed_.notify_all();
}

// --- The thread ----------------------------------------------------------------------------------

void Engine::Run() {
  if (options_.prefer_nearest) {
    awaits_measurement_ = true;
    next_attempt_ = Clock::now() + milliseconds(options_.nearest_patience_ms);
    Measure();
  } else {
    Attempt();
  }
  for (;;) {
    TakeInbox();
    CheckTime();
    Flush();
    Send();
    if (is_stopping_ && streams_.empty()) break;
    bool is_busy = false;
    {
      MutexLock lock(&mutex_);
      is_busy = !inbox_.empty();
      sleeps_ = !is_busy;
    }
    if (!is_busy) {
      sleeps_until_ = NextTime();
      TakeEvent(sleeps_until_);
      continue;
    }
    // Other threads may fill the inbox as fast as it is emptied; answers must be handled even so.
    for (int i = 0; i < kEventsAtOnce && TakeEvent(Clock::time_point()); ++i) {
    }
  }
  {
    MutexLock lock(&mutex_);
    is_stopped_ = true;
    space_.notify_all();
  }
  TakeInbox();  // takes the items that were added before is_stopped_ was set
  for (auto& [at, posted] : timers_) Deliver(std::move(posted), 0);
  timers_.clear();
  Flush();
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

bool Engine::TakeEvent(Clock::time_point until) {
  void* tag = nullptr;
  bool ok = false;
  const auto outcome = queue_.AsyncNext(&tag, &ok, ToDeadline(until));
  const bool has_event = outcome == grpc::CompletionQueue::GOT_EVENT;
  {
    MutexLock lock(&mutex_);
    sleeps_ = false;
    if (has_event && tag == &alarm_) is_waking_ = false;
  }
  if (has_event && tag != &alarm_) Stream::Handle(tag, ok);
  return has_event;
}

void Engine::TakeInbox() {
  std::vector<Posted> inbox;
  {
    MutexLock lock(&mutex_);
    inbox.swap(inbox_);
  }
  for (Posted& posted : inbox) {
    if (posted.pending != nullptr) {
      Begin(std::move(posted.pending));
    } else if (posted.action != nullptr) {
      posted.action();
    }
  }
}

void Engine::Begin(std::unique_ptr<Pending> pending) {
  if (is_over_) return Complete(std::move(pending), end_status_);
  if (is_closing_ && !pending->is_continuation) {
    return Complete(std::move(pending), absl::FailedPreconditionError("the client was closed"));
  }
  // A Close is for whatever session there is; all else is for the session in which it was submitted.
  if (pending->generation != generation_.load(std::memory_order_relaxed) &&
      !pending->request->has_close()) {
    return Complete(std::move(pending),
                    MakeError(v1::ERROR_CODE_SESSION_EXPIRED,
                              "the session has ended before the call was sent"));
  }
  if (pending->deadline != Clock::time_point::max()) {
    deadlines_.insert({pending->deadline, pending.get()});
  }
  // A Close stays the last request, and is not sent while there are chains.
  const auto place = is_closing_ ? pending_.end() - 1 : pending_.end();
  is_closing_ |= pending->request->has_close();
  pending_.insert(place, std::move(pending));
}

void Engine::Complete(std::unique_ptr<Pending> pending, absl::StatusOr<v1::Response> outcome,
                      const std::string& server) {
  if (pending->deadline != Clock::time_point::max()) {
    deadlines_.erase({pending->deadline, pending.get()});
  }
  if (pending->call != 0) {
    MutexLock lock(&mutex_);
    --calls_;
    call_bytes_ -= pending->bytes;
    if (waiting_for_space_ > 0) space_.notify_all();
  }
  if (pending->done == nullptr) return;
  if (outcome.ok() && outcome->error() != v1::ERROR_CODE_UNSPECIFIED) {
    outcome = MakeError(outcome->error(), Describe(*pending->request), &*outcome);
  }
  const size_t bytes = outcome.ok() ? BytesOf(*outcome) : 0;
  if (options_.on_call_end != nullptr) {
    MutexLock lock(&mutex_);
    answering_server_ = server;
  }
  Deliver(pending->done(std::move(outcome)).delivery, bytes);
  if (options_.on_call_end != nullptr) {
    MutexLock lock(&mutex_);
    answering_server_.clear();
  }
}

void Engine::GiveUp(uint64_t call) {
  const auto found = std::find_if(pending_.begin(), pending_.end(),
                                  [call](const auto& p) { return p->call == call; });
  if (found == pending_.end()) return;
  GiveUp(found, absl::StatusCode::kCancelled, "the call was cancelled");
}

void Engine::GiveUp(std::deque<std::unique_ptr<Pending>>::iterator found, absl::StatusCode code,
                    const std::string& why) {
  Pending& pending = **found;
  if (pending.deadline != Clock::time_point::max()) {
    deadlines_.erase({pending.deadline, &pending});
    pending.deadline = Clock::time_point::max();
  }
  const uint64_t watch_id = pending.watch_id;
  Done done = std::move(pending.done);
  pending.done = nullptr;
  const absl::Status status(code,
                            absl::StrCat(Describe(*pending.request), ": ", why, FateOf(pending)));
  // A request that was sent keeps its place, and a write its number, until it is answered.
  if (!pending.was_sent) {
    std::unique_ptr<Pending> owner = std::move(*found);
    pending_.erase(found);
    is_closing_ &= !owner->request->has_close();
    Complete(std::move(owner), status);
  }
  if (watch_id != 0) EndWatch(watch_id);
  if (done == nullptr) return;
  std::shared_ptr<Delivery> delivery = done(status).delivery;
  // This outcome reveals no state of the tree, so a blocked caller gets it before earlier callbacks
  // have run.
  if (delivery != nullptr && delivery->DeliverWithoutCallback()) return;
  Deliver(std::move(delivery), 0);
}

absl::string_view Engine::FateOf(const Pending& pending) {
  if (!pending.request->has_write()) return {};
  return pending.was_sent ? "; it was sent, and may or may not be made"
                          : "; it was not sent, and will not be made";
}

void Engine::CheckDeadlines(Clock::time_point now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const Pending* pending = deadlines_.begin()->second;
    const auto found = std::find_if(pending_.begin(), pending_.end(),
                                    [pending](const auto& p) { return p.get() == pending; });
    ASSERT(found != pending_.end());
    GiveUp(found, absl::StatusCode::kDeadlineExceeded,
           absl::StrCat("no answer within ", pending->deadline_ms, " ms"));
  }
}

void Engine::DiscountStandstill(Clock::time_point now) {
  const Clock::time_point planned = std::max(checked_at_, std::min(sleeps_until_, now));
  const bool is_first = checked_at_ == Clock::time_point();
  checked_at_ = sleeps_until_ = now;
  const auto late = now - planned;
  if (is_first || stream_ == nullptr || late < timeout_ / 24) return;
  is_stale_ = true;
  fresh_from_id_ = next_id_;
  if (late < timeout_ / 6) return;
  last_received_ += late;
  if (!is_up_) attempt_deadline_ += late;
}

void Engine::CheckTime() {
  const Clock::time_point now = Clock::now();
  DiscountStandstill(now);
  // Messages that arrived while this thread, or the process, stood still show that the member was
  // not silent. gRPC needs more than one poll of its sockets to deliver them.
  constexpr milliseconds kLook{20};
  while (now >= SilenceTime()) {
    if (!TakeEvent(now + kLook)) break;
  }
  CheckDeadlines(now);
  CheckTimers(now);
  if (now >= give_up_at_) {
    Fail(absl::UnavailableError(absl::StrCat("no session could be created within ",
                                             options_.retry.give_up_after_ms,
                                             " ms after one was lost")));
  }
  if (now >= SuspensionTime()) {
    Suspend(is_up_ ? absl::UnavailableError(absl::StrCat("nothing was received from a member for ",
                                                         SinceServed().count(), " ms"))
                   : NoMember());
  }
  if (now >= next_attempt_) Attempt();
  if (now < SilenceTime()) return;
  if (!is_up_) {
    was_silent_ = true;
    Abandon(absl::UnavailableError("the member did not answer in time"));
  } else {
    Abandon(absl::UnavailableError(
        absl::StrCat("nothing was received from the member for ", timeout_.count() / 3, " ms")));
  }
}

void Engine::CheckTimers(Clock::time_point now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Deliver(std::move(timers_.begin()->second), 0);
    timers_.erase(timers_.begin());
  }
}

Engine::Clock::time_point Engine::SilenceTime() const {
  if (stream_ == nullptr) return Clock::time_point::max();
  return is_up_ ? last_received_ + timeout_ / 3 : attempt_deadline_;
}

Engine::Clock::time_point Engine::SuspensionTime() const {
  if (!was_up_ || is_suspended_ || is_over_) return Clock::time_point::max();
  return is_up_ ? DoubtTime() : std::min(disconnected_ + timeout_ / 4, DoubtTime());
}

Engine::Clock::time_point Engine::DoubtTime() const {
  return served_at_.load(std::memory_order_relaxed) + timeout_ * 7 / 12;
}

milliseconds Engine::SinceServed() const {
  const Clock::time_point served_at = served_at_.load(std::memory_order_relaxed);
  return std::chrono::duration_cast<milliseconds>(Clock::now() - served_at);
}

void Engine::Suspend(const absl::Status& reason) {
  if (std::exchange(is_suspended_, true)) return;
  SetState(Client::State::kSuspended);
  Tell(SessionEvent::Type::kSuspended, reason);
  if (is_up_) AskWhetherAlive();
}

void Engine::AskWhetherAlive() {
  // No request may follow a Close, and the answer to the Close shows whether the session is alive,
  // too.
  if (sent_ > 0 && pending_[sent_ - 1]->request->has_close()) return;
  auto request = std::make_unique<v1::Request>();
  request->mutable_sync();
  AddOwn(std::move(request));
}

void Engine::OnServed(uint64_t request_id) {
  if (!is_stale_ || request_id < fresh_from_id_) return;
  is_stale_ = false;
  served_at_.store(last_received_, std::memory_order_relaxed);
}

void Engine::Resume() {
  is_suspended_ = false;
  SetState(Client::State::kConnected);
  const bool is_replacement = std::exchange(is_replacing_, false);
  give_up_at_ = Clock::time_point::max();
  Log(LogLevel::kInfo, absl::StrCat("connected server=", stream_->address(), " session=0x",
                                    absl::Hex(session_id())));
  if (std::exchange(was_up_, true)) return Tell(SessionEvent::Type::kReconnected);
  Tell(is_replacement ? SessionEvent::Type::kReplaced : SessionEvent::Type::kConnected);
}

Engine::Clock::time_point Engine::NextTime() const {
  Clock::time_point next = std::min({next_attempt_, SuspensionTime(), SilenceTime(), give_up_at_});
  if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->first);
  if (!timers_.empty()) next = std::min(next, timers_.begin()->first);
  if (stream_ == nullptr || !is_up_ || !stream_->ready()) return next;
  return std::min(next, last_sent_ + timeout_ / 6);
}

void Engine::EndCalls(const absl::Status& status) {
  if (!is_over_) end_status_ = status;
  std::deque<std::unique_ptr<Pending>> pending;
  pending.swap(pending_);
  sent_ = writes_sent_ = reading_writes_sent_ = 0;
  for (auto& each : pending) {
    const absl::Status with_fate = WithText(status, FateOf(*each));
    Complete(std::move(each), with_fate);
  }
}

// --- Streams -------------------------------------------------------------------------------------

void Engine::ShuffleMembers() {
  std::shuffle(members_.begin(), members_.end(), random_);
  const auto rank = [this](const std::string& member) {
    const auto found = latencies_.find(member);
    return found == latencies_.end() ? std::numeric_limits<int>::max() : RankOf(found->second);
  };
  std::ranges::stable_sort(members_, {}, rank);
}

void Engine::Measure() {
  if (!options_.prefer_nearest || is_stopping_) return;
  if (std::exchange(is_measuring_, true)) {
    measures_again_ = true;
    return;
  }
  if (meter_.joinable()) meter_.join();  // it has posted its result, and ends
  meter_ = StartThread("quorate-meter", [this, members = members_] {
    auto measured = MeasureLatencies(access_, members, milliseconds(options_.nearest_patience_ms),
                                     stop_measuring_.get_token());
    Add({nullptr,
         [this, measured = std::move(measured)]() mutable { OnMeasured(std::move(measured)); }});
  });
}

void Engine::OnMeasured(Latencies latencies) {
  is_measuring_ = false;
  latencies_ = std::move(latencies);
  if (std::exchange(measures_again_, false)) Measure();
  if (!std::exchange(awaits_measurement_, false) || is_over_) return;
  ShuffleMembers();
  next_attempt_ = Clock::now();
}

void Engine::Attempt() {
  next_attempt_ = Clock::time_point::max();
  awaits_measurement_ = false;
  const std::string& member = members_[attempts_++];
  auto stream = std::make_unique<Stream>(access_, credentials_.Texts(), member, &queue_, this);
  stream_ = stream.get();
  streams_[stream_] = std::move(stream);
  is_open_sent_ = false;
  is_stale_ = false;
  attempt_deadline_ = Clock::now() + patience_;
}

void Engine::AttemptNext() {
  // A client that has had a session is given up only if every member refuses it: one that could not be
  // reached may accept it.
  const bool have_all_refused = std::ranges::all_of(
      members_, [this](const std::string& member) { return refused_by_.contains(member); });
  if (attempts_ >= members_.size() && !refused_by_.empty() &&
      ((!was_up_ && !is_replacing_) || have_all_refused)) {
    return Fail(refusal_);
  }
  if (attempts_ < members_.size()) return Attempt();
  attempts_ = 0;
  if (std::exchange(was_silent_, false)) patience_ = std::min(patience_ * 2, kPatienceMax);
  ShuffleMembers();
  if (was_up_) Suspend(NoMember());
  BackOff(Clock::now());
}

void Engine::BackOff(Clock::time_point now) {
  // A random pause, so that not all clients try at the same time.
  const auto half = static_cast<uint64_t>(back_off_.count()) / 2;
  next_attempt_ = now + milliseconds(static_cast<int64_t>(half + random_() % (half + 1)));
  back_off_ = std::min(back_off_ * 2, milliseconds(options_.retry.pause_max_ms));
}

void Engine::OnSent(Stream* stream) {
  if (stream != stream_ || is_open_sent_) return;
  is_open_sent_ = true;
  v1::SessionRequest message;
  v1::OpenSession* open = message.mutable_open();
  const auto [id, password] = session_key();
  open->set_session_id(id);
  open->set_password(password);
  *open->mutable_timeout() = v1::DurationOfMs(options_.session_timeout_ms);
  open->set_last_zxid(last_zxid_);
  message.set_acknowledged_sequence(acknowledged_);
  stream->Send(message);
  last_sent_ = Clock::now();
}

void Engine::OnOpened(const v1::SessionOpened& opened) {
  if (opened.last_sequence() < acknowledged_) {
    return Fail(absl::DataLossError(
        absl::StrCat("member ", opened.member(), " knows the session's writes up to number ",
                     opened.last_sequence(), ", and number ", acknowledged_, " was acknowledged")));
  }
  is_up_ = true;
  refused_by_.clear();
  up_since_ = last_received_;
  if (!was_up_ || !is_stale_) served_at_.store(last_received_, std::memory_order_relaxed);
  const int64_t timeout_ms = v1::ToMs(opened.timeout()).value_or(0);
  timeout_ = milliseconds(std::clamp<int64_t>(timeout_ms, 1, INT32_MAX));
  patience_ = FirstPatience(timeout_);
  session_timeout_ms_.store(static_cast<int32_t>(timeout_.count()), std::memory_order_release);
  session_id_.store(opened.session_id(), std::memory_order_release);
  {
    MutexLock lock(&mutex_);
    member_errors_.clear();
  }
  stream_zxid_ = 0;
  RewatchAll();
  if (!was_up_ || last_received_ < DoubtTime()) return Resume();
  // The member opened the stream before a standstill, at an unknown time.
  if (is_suspended_) return AskWhetherAlive();
  Suspend(NoMember());
}

void Engine::OnMessage(Stream* stream, v1::SessionResponse message) {
  if (stream != stream_) return;
  const Clock::time_point now = Clock::now();
  // The time of the last check, read before DiscountStandstill sets it to now: the message may have
  // waited since then, while this thread stood still.
  const Clock::time_point looked_at = checked_at_;
  DiscountStandstill(now);
  last_received_ = now;
  // The message arrived after the last poll of the sockets, and perhaps long before now.
  if (is_up_ && !is_stale_ && looked_at > served_at_.load(std::memory_order_relaxed)) {
    served_at_.store(looked_at, std::memory_order_relaxed);
  }
  if (message.has_opened() == is_up_) {
    return Abandon(absl::InternalError("the first message, and no other, must be `opened`"));
  }
  if (message.has_opened()) OnOpened(message.opened());
  for (v1::SessionItem& item : *message.mutable_items()) {
    if (stream != stream_) return;
    if (item.has_event()) {
      OnEvent(item.event());
    } else {
      OnResponse(item.mutable_response());
    }
  }
  if (stream != stream_) return;
  stream_zxid_ = std::max(stream_zxid_, message.zxid());
  last_zxid_ = std::max(last_zxid_, message.zxid());
}

void Engine::OnEnded(Stream* stream, const grpc::Status& grpc_status) {
  const auto found = streams_.find(stream);
  const std::unique_ptr<Stream> owner = std::move(found->second);
  streams_.erase(found);
  if (stream != stream_) return;
  EndStream();
  absl::Status status = v1::FromGrpc(grpc_status);
  if (status.code() == absl::StatusCode::kUnauthenticated && !ErrorOf(status).has_value()) {
    status = MakeError(v1::ERROR_CODE_SESSION_EXPIRED, std::string(status.message()));
  }
  // Every other member would refuse the session, too. Credentials are another matter: a member may
  // not know a new token yet, or still know an old one.
  const bool is_for_credentials = status.code() == absl::StatusCode::kUnauthenticated &&
                                  ErrorOf(status) != ErrorCode::kSessionExpired;
  if (is_for_credentials) {
    refused_by_.insert(stream->address());
    refusal_ = status;
  } else if (status.code() == absl::StatusCode::kUnauthenticated ||
             status.code() == absl::StatusCode::kInvalidArgument) {
    return Fail(status);
  }
  if (status.ok()) status = absl::UnavailableError("the member ended the stream");
  OnDisconnected(stream->address(), status);
}

void Engine::Abandon(const absl::Status& reason) {
  const std::string address = stream_->address();
  EndStream();
  OnDisconnected(address, reason);
}

void Engine::EndStream() {
  if (stream_ == nullptr) return;
  stream_->Cancel();
  stream_ = nullptr;
  DetachWatches();
  // The engine's own requests end with the stream.
  std::erase_if(pending_, [](const auto& pending) { return pending->call == 0; });
  sent_ = writes_sent_ = reading_writes_sent_ = 0;
}

void Engine::OnDisconnected(const std::string& address, const absl::Status& reason) {
  const Clock::time_point now = Clock::now();
  {
    MutexLock lock(&mutex_);
    member_errors_[address] = reason.ToString(absl::StatusToStringMode::kWithNoExtraData);
  }
  Log(LogLevel::kWarning, absl::StrCat(is_up_ ? "disconnected" : "no connection",
                                       " server=", address, " reason=\"", reason.message(), "\""));
  if (is_up_) disconnected_ = now;
  // Begins a new round, in which the member that was left comes last.
  if (std::exchange(is_up_, false) && now - up_since_ >= kStable) {
    attempts_ = 0;
    back_off_ = milliseconds(options_.retry.pause_min_ms);
    ShuffleMembers();
    const auto left = std::find(members_.begin(), members_.end(), address);
    if (left != members_.end()) std::rotate(left, left + 1, members_.end());
    Measure();
  }
  AttemptNext();
}

void Engine::Fail(const absl::Status& status) {
  EndStream();
  is_up_ = false;
  if (was_up_) {
    Log(LogLevel::kWarning, absl::StrCat("session lost session=0x", absl::Hex(session_id()),
                                         " reason=\"", status.message(), "\""));
  }
  next_attempt_ = Clock::time_point::max();
  const bool is_expired = ErrorOf(status) == ErrorCode::kSessionExpired;
  // The Close was executed, and its answer was lost.
  if (is_closing_ && is_expired && !pending_.empty() && pending_.back()->request->has_close() &&
      pending_.back()->was_sent) {
    std::unique_ptr<Pending> close = std::move(pending_.back());
    pending_.pop_back();
    TellListenersOfEnd(status);
    EndCalls(status);
    is_over_ = true;
    SetState(Client::State::kClosed);
    return Complete(std::move(close), v1::Response());
  }
  if (MayReplace(status)) return Replace(status);
  give_up_at_ = Clock::time_point::max();
  {
    MutexLock lock(&mutex_);
    failure_ = status;
  }
  SetState(Client::State::kLost);
  if (was_up_ || is_replacing_) Tell(SessionEvent::Type::kLost, status, /*is_final=*/true);
  EndCalls(status);
  is_over_ = true;
  EndWatches();
}

bool Engine::MayReplace(const absl::Status& status) const {
  return options_.on_session_loss == SessionLoss::kReplace &&
         ErrorOf(status) == ErrorCode::kSessionExpired && (was_up_ || is_replacing_) &&
         !is_closing_ && !is_stopping_;
}

void Engine::Replace(const absl::Status& status) {
  const Clock::time_point now = Clock::now();
  SetState(Client::State::kConnecting);
  is_suspended_ = false;
  if (was_up_) Tell(SessionEvent::Type::kLost, status);
  // From here on, requests are for the next session.
  session_id_.store(0, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_acq_rel);
  {
    MutexLock lock(&mutex_);
    password_ = NewPassword();
  }
  EndCalls(status);
  ResetWatches();
  next_sequence_ = 1;
  acknowledged_ = 0;
  write_window_ = kWritesSentMax;
  writes_in_window_ = 0;
  writes_to_widen_ = kWritesToWiden;
  attempts_ = 0;
  ShuffleMembers();
  is_replacing_ = true;
  // Servers that end each session at once must not be flooded with new ones.
  if (std::exchange(was_up_, false) && now - up_since_ >= kShortLived) {
    back_off_ = milliseconds(options_.retry.pause_min_ms);
    next_attempt_ = now;
  } else {
    BackOff(now);
  }
  const int give_up_after_ms = options_.retry.give_up_after_ms;
  if (give_up_after_ms > 0 && give_up_at_ == Clock::time_point::max()) {
    give_up_at_ = now + milliseconds(give_up_after_ms);
  }
}

void Engine::Tell(SessionEvent::Type type, const absl::Status& reason, bool is_final) {
  const SessionEvent event{type, is_up_ && !is_suspended_ ? stream_->address() : "", reason,
                           session_id(), is_final};
  if (session_listener_ != nullptr) Notify(session_listener_.get(), event);
  TellListeners(event);
}

// --- Listeners; added and removed only between two events ----------------------------------------

void Engine::AddListener(uint64_t listener_id, std::shared_ptr<SessionNotifier> listener) {
  Add({nullptr, [this, listener_id, listener = std::move(listener)]() mutable {
         if (is_over_) {
           Notify(listener.get(),
                  {SessionEvent::Type::kLost, "", end_status_, session_id(), /*is_final=*/true});
         } else if (is_suspended_ || is_replacing_) {
           Notify(listener.get(), {SessionEvent::Type::kSuspended, "",
                                   absl::UnavailableError(is_suspended_ ? "no member serves"
                                                                        : "there is no session"),
                                   session_id()});
         }
         listeners_[listener_id] = std::move(listener);
       }});
}

void Engine::RemoveListener(uint64_t listener_id) {
  Add({nullptr, [this, listener_id] {
         const auto found = listeners_.find(listener_id);
         if (found == listeners_.end()) return;
         Dispose(std::move(found->second));
         listeners_.erase(found);
       }});
}

void Engine::TellListeners(const SessionEvent& event) {
  for (auto& [listener_id, listener] : listeners_) Notify(listener.get(), event);
}

void Engine::TellListenersOfEnd(const absl::Status& reason) {
  TellListeners({SessionEvent::Type::kLost, "", reason, session_id(), /*is_final=*/true});
}

// --- Callbacks -----------------------------------------------------------------------------------

void Engine::Deliver(std::shared_ptr<Delivery> delivery, size_t bytes) {
  if (delivery == nullptr) return;
  to_deliver_.push_back({std::move(delivery), bytes});
  // One message can hold many events, and the queue has to know of them to limit further ones.
  if (to_deliver_.size() >= kDeliveriesAtOnce) Flush();
}

void Engine::Flush() {
  if (to_deliver_.empty()) return;
  callbacks_->Add(&to_deliver_);
  EndWaitingIfFull();
}

void Engine::Notify(WatchNotifier* notifier, WatchNotification notification) {
  const Event* event = std::get_if<Event>(&notification);
  const size_t bytes = event == nullptr ? 0 : event->path.size();
  Deliver(notifier->Add(std::move(notification), callbacks_->has_room_for_events()), bytes);
}

void Engine::Notify(SessionNotifier* notifier, const SessionEvent& event) {
  Deliver(notifier->Add(event, callbacks_->has_room_for_events()), 0);
}

void Engine::Dispose(std::shared_ptr<void> owned) {
  Deliver(std::make_shared<Disposal>(std::move(owned)), 0);
}

}  // namespace quorate::internal
