// SPDX-License-Identifier: Apache-2.0

// The sessions of a Client, one after the other: the ordered requests, the streams to members, the
// watches, and the thread on which all of these run. No callback of the user runs on that thread: each loop
// iteration puts its notifications into a CallbackQueue together.
//
// A request stays in `pending_` until it is answered. The first `sent_` requests in it were sent on
// the current stream, and are answered in that order; when the stream breaks, all of them are sent
// again on the next one. A write gets its sequence number in the session when it is first sent, and
// keeps it.
//
// A lost session is replaced by one with another id and password, on another stream, with sequence
// numbers from 1. Nothing of the old one can be taken for the new one's: messages of streams other
// than the current one are dropped, all pending requests fail, and a request that was submitted in
// the old session and arrives later fails, too (Pending::generation). The numbers of requests go on.
//
// Thread-safety: public functions from any thread, unless they say otherwise; all others on the
// engine's thread.
#pragma once

#include <grpcpp/alarm.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <ratio>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "client/callback_queue.h"
#include "client/client.h"
#include "client/latency.h"
#include "client/notifier.h"
#include "client/presented_credentials.h"
#include "client/stream.h"
#include "rpc/proto/quorate/v1/session.pb.h"

namespace quorate::internal {

// A clock that counts the time in which the machine is suspended, as the clocks of the servers do,
// and never goes back (CLOCK_BOOTTIME).
struct BootClock {
  using rep = int64_t;
  using period = std::nano;
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept;
};

class Engine final : public CallbackThread,
                     public Stream::Owner,
                     public std::enable_shared_from_this<Engine> {
 public:
  // The outcome of a call: its delivery to the user, null if the call goes on, and its status as the
  // user gets it.
  struct Outcome {
    std::shared_ptr<Delivery> delivery;
    absl::Status status{};
  };
  // Called on the engine's thread when a call is over.
  using Done = absl::AnyInvocable<Outcome(absl::StatusOr<v1::Response>)>;
  using Clock = BootClock;

  // `members` are addresses, at least one; the rest is as in ClientOptions, without its servers.
  Engine(std::vector<std::string> members, ClientOptions options, Access access = {});
  // REQUIRES: Stop was called.
  ~Engine() override;

  // Starts the thread, which begins to look for a member.
  void Start();
  // Blocks until the session is created, and returns OK, or why it was not.
  absl::Status WaitUntilConnected(int timeout_ms);
  // Ends all calls with CANCELLED, and ends the threads. REQUIRES: not called by a callback.
  void Stop();

  // Returns a number for a new call, for Submit and Cancel.
  uint64_t NewCall() { return next_call_.fetch_add(1, std::memory_order_relaxed); }
  // Queues `request`; requests are sent in the order of their submission. `done` is called with the
  // answer if that has no error, otherwise with the status. deadline_ms 0: no deadline.
  void Submit(uint64_t call, std::unique_ptr<v1::Request> request, int deadline_ms, Done done);
  // Begins a chain: a call that consists of several requests, of which the first one is submitted
  // by Submit. A Close is not sent until all copies of the returned pointer are destroyed.
  std::shared_ptr<void> NewChain() { return chains_; }
  // Submits a further request of a chain; it is sent before a Close that waits.
  void SubmitNext(uint64_t call, std::unique_ptr<v1::Request> request, int deadline_ms, Done done);
  // Returns a number for a new watch, for SubmitWatch and RemoveWatch, or for a new listener.
  uint64_t NewWatch() { return next_watch_id_.fetch_add(1, std::memory_order_relaxed); }
  // Sets a watch. `done` is called with the answer once the watch is set, or with the status.
  void SubmitWatch(uint64_t call, uint64_t watch_id, v1::Request::Watch watch, int deadline_ms,
                   std::shared_ptr<WatchNotifier> notifier, Done done);
  void RemoveWatch(uint64_t watch_id);
  // Leaves the member that serves the session, if any, for another one.
  void ChangeMember();
  // Replaces the addresses of the members, at least one. INVALID_ARGUMENT: as Access::Check.
  absl::Status SetMembers(std::vector<std::string> members);
  void AddListener(uint64_t listener_id, std::shared_ptr<SessionNotifier> listener);
  void RemoveListener(uint64_t listener_id);
  void Cancel(uint64_t call) override;
  void Post(absl::AnyInvocable<void()> callback) override;
  // Runs `callback` on the callback thread after `delay`, or when the engine is stopped.
  void PostAfter(std::chrono::milliseconds delay, absl::AnyInvocable<void()> callback);

  Client::State state() const { return state_.load(std::memory_order_acquire); }
  int64_t session_id() const { return session_id_.load(std::memory_order_acquire); }
  // The id and the password of the session, by which a test attaches to it.
  std::pair<int64_t, std::string> session_key();
  // Returns the granted session timeout; before the session is created, the requested one.
  int session_timeout_ms() const { return session_timeout_ms_.load(std::memory_order_acquire); }
  // Returns how long ago a member was last known to serve the session.
  std::chrono::milliseconds SinceServed() const;
  bool IsInCallback() const { return callbacks_->IsRunningHere(); }

  // The credentials that streams present when they begin.
  PresentedCredentials& credentials() { return credentials_; }

 private:
  struct Pending {
    uint64_t call = 0;        // 0: a request of the engine itself, dropped when the stream ends
    uint64_t generation = 0;  // of the session in which the request was submitted
    std::unique_ptr<v1::Request> request;
    uint64_t watch_id = 0;  // 0 if the request sets no watch
    size_t bytes = 0;
    bool has_reads = false;        // a write that reads
    bool was_sent = false;         // on any stream
    bool is_continuation = false;  // a further request of a chain
    Clock::time_point deadline = Clock::time_point::max();
    int deadline_ms = 0;
    Done done;  // null: nothing waits for the answer
  };
  // A watch. Its user was notified of all events up to `position`; beyond that, of all events
  // before `event_zxid` and of the first `event_count` events of `event_zxid`.
  struct Watched {
    v1::Request::Watch watch;
    std::shared_ptr<WatchNotifier> notifier;
    int64_t position = 0;
    int64_t event_zxid = 0;
    int event_count = 0;
    int skip = 0;                 // events of event_zxid that come again and are to be dropped
    bool is_established = false;  // the request that set the watch was answered
    bool is_live = false;         // the watch is set on the current stream
    bool is_reset = false;        // events were lost; a WatchReset is due
  };
  // A call whose end is going to be reported.
  struct Traced {
    std::string name;
    Clock::time_point begun;
  };
  // An item of the inbox: a request or an action; with neither, it only wakes the thread.
  struct Posted {
    std::unique_ptr<Pending> pending;
    absl::AnyInvocable<void()> action;
  };

  // Stream::Owner.
  void OnMessage(Stream* stream, v1::SessionResponse message) override;
  void OnSent(Stream* stream) override;
  void OnEnded(Stream* stream, const grpc::Status& status) override;

  void Run();
  std::unique_ptr<Pending> NewPending(uint64_t call, std::unique_ptr<v1::Request> request,
                                      int deadline_ms, Done done);
  void Submit(std::unique_ptr<Pending> pending);
  // Takes space for a call. With WhenFull::kBlock, waits for it until the deadline of the call, while
  // the callbacks have room for answers: otherwise a callback may be waiting for the calling thread.
  // Returns why there is none. A continuation gets its space beyond the limit: its chain has begun.
  absl::Status TakeSpace(const Pending& pending);
  // Ends the waiting for space if the callbacks have no room for answers.
  void EndWaitingIfFull();
  // Returns whether there is space for a call with a request of so many bytes.
  bool HasSpace(size_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return calls_ < options_.pending_calls_max && call_bytes_ + bytes <= options_.pending_bytes_max;
  }
  // Reports the begin of a call to ClientOptions::on_call_begin, and makes its `done` report the end.
  void Trace(Pending* pending);
  // Returns `delivery` preceded by a call of ClientOptions::on_call_end. `delivery` is the delivery of
  // the outcome of a traced call, or null if the call goes on.
  std::shared_ptr<Delivery> WithEnd(uint64_t call, const absl::Status& status,
                                    std::shared_ptr<Delivery> delivery);
  bool has_chains() const { return chains_.use_count() > 1; }
  // Puts `posted` into the inbox and wakes the thread. Returns false if the thread has ended.
  bool Add(Posted posted);
  // Waits for an event of the completion queue until `until`, and handles it. Returns false if
  // there was none. An event that is ready is taken even if `until` has passed.
  bool TakeEvent(Clock::time_point until);
  void TakeInbox();
  void Begin(std::unique_ptr<Pending> pending);
  void GiveUp(uint64_t call);
  void GiveUp(std::deque<std::unique_ptr<Pending>>::iterator pending, absl::StatusCode code,
              const std::string& why);
  void CheckTime();
  // Excludes the time in which this thread stood still from the member's silence, because nothing
  // was sent to the member in that time, not even a ping. This affects only whether the member is
  // left. The session aged in that time, and the next message may have been sent before the
  // standstill, so that it does not show that the session is alive (`is_stale_`).
  void DiscountStandstill(Clock::time_point now);
  void CheckTimers(Clock::time_point now);
  void CheckDeadlines(Clock::time_point now);
  Clock::time_point NextTime() const;
  // Ends all calls; the message of a write also says whether it may be made.
  void EndCalls(const absl::Status& status);
  // Returns the end of a message about a write that ends without an answer; empty for a read.
  static absl::string_view FateOf(const Pending& pending);

  // Streams.
  void Attempt();
  void AttemptNext();
  // Plans the next attempt after a pause, which grows by ClientOptions::retry.
  void BackOff(Clock::time_point now);
  void OnOpened(const v1::SessionOpened& opened);
  // Leaves the member, and tries the next one.
  void Abandon(const absl::Status& reason);
  void OnDisconnected(const std::string& address, const absl::Status& reason);
  void EndStream();
  // Ends the session locally: all calls fail with `status`. Then begins to create another session,
  // if it may be replaced.
  void Fail(const absl::Status& status);
  // Returns whether another session is created after one that has ended with `status`.
  bool MayReplace(const absl::Status& status) const;
  void Replace(const absl::Status& status);
  void Tell(SessionEvent::Type type, const absl::Status& reason = absl::OkStatus(),
            bool is_final = false);
  void TellListeners(const SessionEvent& event);
  // Tells the listeners, but not on_session_event, that the session has ended by the user's will.
  void TellListenersOfEnd(const absl::Status& reason);
  // Returns the time at which the member has to be left unless a message from it is received.
  Clock::time_point SilenceTime() const;
  // Returns the time at which kSuspended is due even if not all members were tried yet, which is
  // before the servers can have expired the session. (A member without a leader ends the stream
  // after half of the timeout; a silent member is left after a third.) After a standstill this time
  // may have passed although no member was left.
  Clock::time_point SuspensionTime() const;
  // Returns the time after which `served_at_` no longer shows that the session is alive.
  Clock::time_point DoubtTime() const;
  // Reports kSuspended, unless it is reported already. If a stream is up, keeps it and asks its
  // member whether the session is alive.
  void Suspend(const absl::Status& reason);
  // Sends a sync to the member: a member that has missed the session's end does not answer a sync.
  void AskWhetherAlive();
  // Called when the request with the number `request_id` was answered, and the session has not
  // ended.
  void OnServed(uint64_t request_id);
  // Reports that the session is alive: kConnected or kReplaced for the first time, then
  // kReconnected.
  void Resume();
  void SetState(Client::State state);
  // Passes a line to ClientOptions::log, if there is one.
  void Log(LogLevel level, std::string line);
  // Puts the members into random order, with ClientOptions::prefer_nearest the near ones first.
  void ShuffleMembers();
  // Begins to measure the latencies of the members, if ClientOptions::prefer_nearest is set.
  void Measure();
  void OnMeasured(Latencies latencies);

  // Requests.
  void Send();
  // Adds the requests that can be sent now to `message`. Returns how many it added.
  int AddRequests(v1::SessionRequest* message);
  void AddOwn(std::unique_ptr<v1::Request> request);
  void OnResponse(v1::Response* response);
  // Allows more unanswered writes again, after enough answers, if they were reduced.
  void WidenWindow();
  // Returns whether the answer means that the request has to be sent to another member.
  bool IsRefusedByMember(const Pending& pending, const v1::Response& response);
  // `server` is the address of the member that has answered; empty if none has.
  void Complete(std::unique_ptr<Pending> pending, absl::StatusOr<v1::Response> outcome,
                const std::string& server = {});

  // Callbacks. Deliveries go to the queue with the next Flush, or earlier when there are many.
  void Deliver(std::shared_ptr<Delivery> delivery, size_t bytes);
  void Notify(WatchNotifier* notifier, WatchNotification notification);
  void Notify(SessionNotifier* notifier, const SessionEvent& event);
  // Releases an object of the user on the callback thread.
  void Dispose(std::shared_ptr<void> owned);
  void Flush();

  // Watches.
  void RewatchAll();
  // Returns whether some watches of earlier streams are not set on the current one yet. Until they
  // are, no calls are sent: the user gets an answer only after all events before it, or after the
  // WatchReset if some were lost (which follows the second request for the watch).
  bool IsRewatching();
  // Sets the position from which the watch continues. Returns false if the watch was ended.
  bool PrepareWatch(Pending* pending);
  // Handles the answer to a request for a watch. Returns true if there is nothing to complete: the
  // request is sent again, and `pending` was moved back, or the member was left.
  bool OnWatchAnswered(std::unique_ptr<Pending>* pending, const v1::Response& response);
  void OnEvent(const v1::WatchEvent& event);
  void EndWatch(uint64_t watch_id);
  // Ends all watches, without sending anything to the servers.
  void EndWatches();
  void ForgetWatch(uint64_t watch_id);
  void DetachWatches();
  // Makes each watch report a WatchReset when it is set on the next stream.
  void ResetWatches();
  void Unwatch(uint64_t watch_id);

  ClientOptions options_;
  const Access access_;
  PresentedCredentials credentials_;
  std::vector<std::string> members_;
  std::mt19937_64 random_;
  std::stop_source stop_measuring_;

  const std::shared_ptr<void> chains_ = std::make_shared<int>(0);
  std::atomic<uint64_t> next_call_{1};
  std::atomic<uint64_t> next_watch_id_{1};
  std::atomic<Client::State> state_{Client::State::kConnecting};
  std::atomic<int64_t> session_id_{0};  // 0: there is no session
  // The number of sessions that were lost. Changed on the engine's thread.
  std::atomic<uint64_t> generation_{0};
  std::atomic<int> session_timeout_ms_;
  // The last time at which a member was known to serve the session: a message from it arrived after
  // that time, and did not wait here during a standstill. Written on the engine's thread.
  std::atomic<Clock::time_point> served_at_{Clock::time_point()};

  Mutex mutex_;
  std::condition_variable state_changed_;
  // Some calls have ended, or the callbacks have no more room, while calls wait for space.
  std::condition_variable space_;
  std::vector<Posted> inbox_ ABSL_GUARDED_BY(mutex_);
  bool sleeps_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_waking_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;  // the inbox accepts nothing more
  size_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t call_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t waiting_for_space_ ABSL_GUARDED_BY(mutex_) = 0;  // threads
  // The address of the member whose answer is being completed; empty if none is.
  std::string answering_server_ ABSL_GUARDED_BY(mutex_);
  // The calls that were begun and have not ended, if there is an on_call_begin or on_call_end.
  absl::flat_hash_map<uint64_t, Traced> traced_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> member_errors_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);  // why the session ended
  std::string password_ ABSL_GUARDED_BY(mutex_);

  const std::shared_ptr<CallbackQueue> callbacks_;
  grpc::CompletionQueue queue_;
  grpc::Alarm alarm_;
  std::thread thread_;
  std::thread meter_;  // measures latencies; started by the engine's thread

  // --- On the engine's thread --------------------------------------------------------------------
  bool is_stopping_ = false;
  bool is_closing_ = false;  // a Close is pending
  bool is_over_ = false;     // closed, or failed
  absl::Status end_status_;  // the status of calls after the end

  absl::flat_hash_map<Stream*, std::unique_ptr<Stream>> streams_;  // also those that are ending
  Stream* stream_ = nullptr;                                       // the current one
  bool is_open_sent_ = false;
  bool is_up_ = false;
  bool was_up_ = false;        // whether any stream of the session was ever up
  bool is_replacing_ = false;  // a session was lost, and the one in its place is not created yet
  bool is_suspended_ = false;
  // Whether the thread has stood still since the stream began, and no message received since is
  // known to have been sent after the standstill. Only an answer to a request numbered
  // fresh_from_id_ or later is known to be.
  bool is_stale_ = false;
  uint64_t fresh_from_id_ = 0;
  bool is_rewatching_ = false;  // may be out of date if true; IsRewatching() checks
  size_t attempts_ = 0;         // attempts in this round through the members
  // The members that have refused the client's credentials since one has served it, and the last
  // refusal.
  std::set<std::string> refused_by_;
  absl::Status refusal_;
  Clock::time_point up_since_;
  Clock::time_point disconnected_;  // when the last stream that was up ended
  Clock::time_point attempt_deadline_ = Clock::time_point::max();
  Clock::time_point next_attempt_ = Clock::time_point::max();
  std::chrono::milliseconds back_off_;
  // When the client stops trying to replace a lost session.
  Clock::time_point give_up_at_ = Clock::time_point::max();
  Clock::time_point last_received_;
  Clock::time_point checked_at_;    // when DiscountStandstill() ran last
  Clock::time_point sleeps_until_;  // until when, at most, the thread planned to sleep after that
  Clock::time_point last_sent_;
  std::chrono::milliseconds timeout_;
  // The time limit of an attempt. It grows after each round in which a member did not answer in
  // time, because that member may be slow.
  std::chrono::milliseconds patience_;
  bool was_silent_ = false;  // some member did not answer in this round

  std::deque<std::unique_ptr<Pending>> pending_;
  size_t sent_ = 0;
  // The most unanswered writes on a stream. The servers keep 1,024 answers of a session.
  static constexpr size_t kWritesSentMax = 512;
  static constexpr uint64_t kWritesToWiden = 1000;
  static constexpr uint64_t kWritesToWidenMax = 1u << 30;
  size_t writes_sent_ = 0;
  size_t reading_writes_sent_ = 0;  // of those, how many have reads
  size_t write_window_;             // the most writes that are sent and not answered
  size_t writes_in_window_ = 0;     // writes answered since the window was changed
  // After so many answered writes, a few more may be unanswered at a time.
  uint64_t writes_to_widen_ = kWritesToWiden;
  std::set<std::pair<Clock::time_point, Pending*>> deadlines_;
  uint64_t next_id_ = 1;
  uint64_t next_sequence_ = 1;
  uint64_t acknowledged_ = 0;
  int64_t last_zxid_ = 0;
  int64_t stream_zxid_ = 0;

  Latencies latencies_;
  bool is_measuring_ = false;
  bool measures_again_ = false;      // the members have changed since the measurement began
  bool awaits_measurement_ = false;  // the first attempt waits for it, until next_attempt_

  std::map<uint64_t, Watched> watches_;
  std::map<uint64_t, std::shared_ptr<SessionNotifier>> listeners_;
  std::shared_ptr<SessionNotifier> session_listener_;  // ClientOptions::on_session_event, or none
  std::multimap<Clock::time_point, std::shared_ptr<Delivery>> timers_;
  std::vector<CallbackQueue::Item> to_deliver_;
};

}  // namespace quorate::internal
