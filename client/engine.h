// The session behind a Client: requests in their order, streams to members, watches, and the thread
// on which all of it runs. No callback of the user runs on that thread: each loop iteration puts
// its notifications into a CallbackQueue together.
//
// A request stays in `pending_` until it is answered. The first `sent_` of them were sent on the
// current stream, and answers come in that order; when the stream breaks, all of them are sent
// again on the next one. A write has its number in the session from the first time that it is sent.
//
// Thread-safety: the functions of the first part from any thread; the rest on the engine's own.
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
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "client/callback_queue.h"
#include "client/client.h"
#include "client/notifier.h"
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
  // Called on the engine's thread when a call is over. Returns what the user is to be handed, or
  // nothing.
  using Done = absl::AnyInvocable<std::shared_ptr<Delivery>(absl::StatusOr<v1::Response>)>;
  using Clock = BootClock;

  // `members` are addresses, at least one; the rest is as in ClientOptions, without its servers.
  Engine(std::vector<std::string> members, ClientOptions options);
  // REQUIRES: Stop was called.
  ~Engine() override;

  // Begins to look for a member.
  void Start();
  // The session is there, or why it is not.
  absl::Status WaitUntilConnected(int timeout_ms);
  // Ends all calls with CANCELLED, and the threads. REQUIRES: this is no callback.
  void Stop();

  // The number of a call, for Submit and Cancel.
  uint64_t NewCall() { return next_call_.fetch_add(1, std::memory_order_relaxed); }
  // `done` gets an answer without error, or the status. 0: no deadline.
  void Submit(uint64_t call, std::unique_ptr<v1::Request> request, int deadline_ms, Done done);
  // For a call that is made of several requests, of which the first one was submitted as others
  // are. A Close waits until all copies of what this returned are gone.
  std::shared_ptr<void> NewChain() { return chains_; }
  // Likewise, for another request of a chain: it goes before a Close that waits.
  void SubmitNext(uint64_t call, std::unique_ptr<v1::Request> request, int deadline_ms, Done done);
  // The number of a watch, for SubmitWatch and RemoveWatch, or of a listener.
  uint64_t NewWatch() { return next_watch_id_.fetch_add(1, std::memory_order_relaxed); }
  // `done` gets the answer when the watch stands.
  void SubmitWatch(uint64_t call, uint64_t watch_id, v1::Request::Watch watch, int deadline_ms,
                   std::shared_ptr<WatchNotifier> notifier, Done done);
  void RemoveWatch(uint64_t watch_id);
  // Goes to another member.
  void ChangeMember();
  void AddListener(uint64_t listener_id, std::shared_ptr<SessionNotifier> listener);
  void RemoveListener(uint64_t listener_id);
  void Cancel(uint64_t call) override;
  void Post(absl::AnyInvocable<void()> callback) override;
  // Runs it on the thread of callbacks after `delay`, or when the engine is stopped.
  void PostAfter(std::chrono::milliseconds delay, absl::AnyInvocable<void()> callback);

  Client::State state() const { return state_.load(std::memory_order_acquire); }
  int64_t session_id() const { return session_id_.load(std::memory_order_acquire); }
  // As granted; as wished, before there is a session.
  int session_timeout_ms() const { return session_timeout_ms_.load(std::memory_order_acquire); }
  // Returns how long ago a member was last known to serve the session.
  std::chrono::milliseconds SinceServed() const;
  bool IsInCallback() const { return callbacks_->IsRunningHere(); }

  // To be shown again on later streams. REQUIRES: on the engine's thread.
  void KeepCredential(const Credential& credential);

 private:
  struct Pending {
    uint64_t call = 0;  // 0: the engine's own, which ends with the stream
    std::unique_ptr<v1::Request> request;
    uint64_t watch_id = 0;  // of one that sets a watch, 0 of any other
    size_t bytes = 0;
    bool was_sent = false;         // on any stream
    bool is_continuation = false;  // of a chain
    Clock::time_point deadline = Clock::time_point::max();
    int deadline_ms = 0;
    Done done;  // none: nobody waits for it
  };
  // Position: all events up to `position` were told. Beyond it, `event_count` events of
  // `event_zxid` were told, and all of those before that zxid.
  struct Watched {
    v1::Request::Watch watch;
    std::shared_ptr<WatchNotifier> notifier;
    int64_t position = 0;
    int64_t event_zxid = 0;
    int event_count = 0;
    int skip = 0;                 // events of event_zxid that are told again first
    bool is_established = false;  // the user knows of it
    bool is_live = false;         // on this stream
    bool is_reset = false;        // events were lost, which is to be told
  };
  // One of the two, or neither, to wake the thread.
  struct Posted {
    std::unique_ptr<Pending> pending;
    absl::AnyInvocable<void()> action;
  };

  // Of the stream.
  void OnMessage(Stream* stream, v1::SessionResponse message) override;
  void OnSent(Stream* stream) override;
  void OnEnded(Stream* stream, const grpc::Status& status) override;

  void Run();
  std::unique_ptr<Pending> NewPending(uint64_t call, std::unique_ptr<v1::Request> request,
                                      int deadline_ms, Done done);
  void Submit(std::unique_ptr<Pending> pending);
  bool has_chains() const { return chains_.use_count() > 1; }
  // Puts it into the inbox and wakes the thread. False if that has ended.
  bool Add(Posted posted);
  // Waits for an event of the queue, and handles it. False if there was none until then; what is
  // there is taken even if that time is over.
  bool TakeEvent(Clock::time_point until);
  void TakeInbox();
  void Begin(std::unique_ptr<Pending> pending);
  void GiveUp(uint64_t call);
  void GiveUp(std::deque<std::unique_ptr<Pending>>::iterator pending, absl::StatusCode code,
              const std::string& why);
  void CheckTime();
  // Takes time in which this thread stood still off the silence of the member, which was asked for
  // nothing meanwhile: no ping left either. That decides only whether the member is left. The
  // session grew older, and what comes next may have been sent before the standstill, so that it
  // does not show that the session lives.
  void DiscountStandstill(Clock::time_point now);
  void CheckTimers(Clock::time_point now);
  void CheckDeadlines(Clock::time_point now);
  Clock::time_point NextTime() const;
  void EndCalls(const absl::Status& status);

  // Streams.
  void Attempt();
  void AttemptNext();
  void OnOpened(const v1::SessionOpened& opened);
  // Leaves the member.
  void Abandon(const absl::Status& reason);
  void OnDisconnected(const std::string& address, const absl::Status& reason);
  void EndStream();
  // The session is over.
  void Fail(const absl::Status& status);
  void Tell(SessionEvent::Type type, const absl::Status& reason = absl::OkStatus());
  void TellListeners(const SessionEvent& event);
  // When the member has to be left if nothing was heard from it.
  Clock::time_point SilenceTime() const;
  // When it has to be told that no member serves, also if not all of them were tried yet: before
  // the servers can have ended the session. A member that has no leader leaves a stream after half
  // of the timeout, one that is silent is left after a third. After a standstill that time may have
  // come although no member was left.
  Clock::time_point SuspensionTime() const;
  // The time after which `served_at_` does not show any more that the session lives.
  Clock::time_point DoubtTime() const;
  // If a stream is up, asks its member whether the session lives, and stays with it.
  void Suspend(const absl::Status& reason);
  // Asks the member for a sync, whose answer no member gives that has missed the session's end.
  void AskWhetherAlive();
  // The request with the number `request_id` was answered, and the session has not ended.
  void OnServed(uint64_t request_id);
  // The session is known to live.
  void Resume();
  void SetState(Client::State state);
  void ShuffleMembers();

  // Requests.
  void Send();
  // Adds what can be sent now. Returns how many were.
  int AddRequests(v1::SessionRequest* message);
  void AddOwn(std::unique_ptr<v1::Request> request);
  void OnResponse(v1::Response* response);
  // Whether the answer means that another member has to be asked.
  bool IsRefusedByMember(const Pending& pending, const v1::Response& response);
  void Complete(std::unique_ptr<Pending> pending, absl::StatusOr<v1::Response> outcome);

  // Callbacks. What is delivered goes to the queue with the next Flush, or when there is much of
  // it.
  void Deliver(std::shared_ptr<Delivery> delivery, size_t bytes);
  void Notify(WatchNotifier* notifier, WatchNotification notification);
  void Notify(SessionNotifier* notifier, const SessionEvent& event);
  // Lets what belongs to the user be destroyed where callbacks run.
  void Dispose(std::shared_ptr<void> owned);
  void Flush() { callbacks_->Add(&to_deliver_); }

  // Watches.
  void RewatchAll();
  // Whether the current stream does not have all the watches yet that there were before it. Until
  // then no calls are sent: who hears an answer has been told all events before it, or that some
  // are lost, which is told only when the watch has been asked for a second time.
  bool IsRewatching();
  bool PrepareWatch(Pending* pending);
  // Takes the pending request, if it has to be sent again.
  bool OnWatchAnswered(std::unique_ptr<Pending>* pending, const v1::Response& response);
  void OnEvent(const v1::WatchEvent& event);
  void EndWatch(uint64_t watch_id);
  // All of them, without a word to the servers.
  void EndWatches();
  void ForgetWatch(uint64_t watch_id);
  void DetachWatches();
  void Unwatch(uint64_t watch_id);

  ClientOptions options_;
  std::vector<std::string> members_;
  std::mt19937_64 random_;
  std::string password_;

  const std::shared_ptr<void> chains_ = std::make_shared<int>(0);
  std::atomic<uint64_t> next_call_{1};
  std::atomic<uint64_t> next_watch_id_{1};
  std::atomic<Client::State> state_{Client::State::kConnecting};
  std::atomic<int64_t> session_id_{0};
  std::atomic<int> session_timeout_ms_;
  // The last time at which a member was known to serve the session: what it sent came later, and
  // did not wait here during a standstill. Written on the engine's thread.
  std::atomic<Clock::time_point> served_at_{Clock::time_point()};

  Mutex mutex_;
  std::condition_variable state_changed_;
  std::vector<Posted> inbox_ ABSL_GUARDED_BY(mutex_);
  bool sleeps_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_waking_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;  // nothing is taken any more
  size_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t call_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::string> member_errors_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);  // why the session is over

  const std::shared_ptr<CallbackQueue> callbacks_;
  grpc::CompletionQueue queue_;
  grpc::Alarm alarm_;
  std::thread thread_;

  // --- On the engine's thread --------------------------------------------------------------------
  bool is_stopping_ = false;
  bool is_closing_ = false;  // its Close was begun
  bool is_over_ = false;     // closed, or failed
  absl::Status end_status_;  // of calls from then on

  absl::flat_hash_map<Stream*, std::unique_ptr<Stream>> streams_;  // also those that are ending
  Stream* stream_ = nullptr;                                       // the current one
  bool is_open_sent_ = false;
  bool is_up_ = false;
  bool was_up_ = false;  // ever
  bool is_suspended_ = false;
  // The thread stood still since the stream began, and nothing came since then that is known to be
  // newer: only the answer to a request with the number fresh_from_id_ or a later one is.
  bool is_stale_ = false;
  uint64_t fresh_from_id_ = 0;
  bool is_rewatching_ = false;  // maybe: IsRewatching() looks
  size_t attempts_ = 0;         // of this round through the members
  Clock::time_point up_since_;
  Clock::time_point disconnected_;  // since then no member has served
  Clock::time_point attempt_deadline_ = Clock::time_point::max();
  Clock::time_point next_attempt_ = Clock::time_point::max();
  std::chrono::milliseconds back_off_;
  Clock::time_point last_received_;
  Clock::time_point checked_at_;    // when CheckTime() ran last
  Clock::time_point sleeps_until_;  // since then, the thread meant to sleep until then at most
  Clock::time_point last_sent_;
  std::chrono::milliseconds timeout_;
  // Of an attempt. It grows with rounds in which a member did not answer in time, for it may be
  // slow.
  std::chrono::milliseconds patience_;
  bool was_silent_ = false;  // a member, in this round

  std::deque<std::unique_ptr<Pending>> pending_;
  size_t sent_ = 0;
  size_t writes_sent_ = 0;
  size_t write_window_;
  std::set<std::pair<Clock::time_point, Pending*>> deadlines_;
  uint64_t next_id_ = 1;
  uint64_t next_sequence_ = 1;
  uint64_t acknowledged_ = 0;
  int64_t last_zxid_ = 0;
  int64_t stream_zxid_ = 0;

  std::map<uint64_t, Watched> watches_;
  std::map<uint64_t, std::shared_ptr<SessionNotifier>> listeners_;
  std::shared_ptr<SessionNotifier> session_listener_;  // of the options, or none
  std::multimap<Clock::time_point, std::shared_ptr<Delivery>> timers_;
  std::vector<CallbackQueue::Item> to_deliver_;
};

}  // namespace quorate::internal
