// SPDX-License-Identifier: Apache-2.0

// Checks what clients of the native protocol receive against the committed log, replayed by the
// reference model:
//
//   Writes   A numbered write takes effect once, however often and through however many servers it
//            was sent, and every answer to it is the first one.
//   Reads    A read shows the tree of its zxid; zxids of a session never go back, also when it
//            moves to another server; a read sees the writes before it in its pipeline and none
//            behind it. A sync, or a linearizable read, sees all that any client had seen before it
//            began.
//   Watches  Each event of a watch comes once, in the order of zxids, and before anything that
//            shows a later state; none is lost, also not while the session moves.
//   Sessions What a server reports about a session agrees with the log, and a session whose client
//            sends messages does not expire once all servers work.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/grpc/native/scope.h"
#include "rpc/proto/quorate/v1/session.pb.h"
#include "tests/simulation/checkers/history.h"
#include "tests/simulation/checkers/model.h"
#include "tests/simulation/checkers/replay_checker.h"
#include "tests/simulation/sim_environment.h"

namespace quorate::simulation {

class NativeChecker : public HistoryListener, public LogListener {
 public:
  // Adds itself to the history and to the replay, which must outlive the run. `clock_drift_max` is
  // as for SessionChecker.
  NativeChecker(History* history, ReplayChecker* replay, double clock_drift_max);

  // Called when all servers work from now on; see SessionChecker::BeginSteadyPeriod.
  void BeginSteadyPeriod(int64_t settle_us);

  // --- From the clients, in the order of the events ----------------------------------------------
  // Called when the session's stream is open at `member`. REQUIRES, for all functions below:
  // OnOpened was called for the session.
  void OnOpened(size_t client, size_t member, const v1::SessionOpened& opened, bool resumed);
  void OnStreamClosed(int64_t session);
  // Called when the client has received a message on the session's stream.
  void OnHeard(int64_t session);
  // Called when the client sends the write, for the first time or again.
  void OnWriteSent(int64_t session, const v1::Request::Write& write);
  // Called when the client sets a watch, on a stream that has no watch of that id.
  void OnWatchSent(int64_t session, const v1::Request::Watch& watch);
  void OnUnwatchSent(int64_t session, uint64_t watch_id);
  void OnCloseSent(int64_t session);
  // The newest zxid that any client has seen so far: a linearizable read that begins now must see
  // it.
  int64_t newest_seen() const { return newest_seen_; }
  // Called when `request` is answered. `newest_seen`: newest_seen() when the request was sent.
  void OnAnswered(int64_t session, const v1::Request& request, int64_t newest_seen,
                  const v1::Response& response);
  void OnWatchEvent(int64_t session, const v1::WatchEvent& event);
  // Called with SessionResponse.zxid, up to which all events have been sent.
  void OnAllSentUpTo(int64_t session, int64_t zxid);

  // HistoryListener
  void OnAnswered(const Operation& operation) override;
  // LogListener
  void OnEntry(const consensus::Entry& entry, const Model::Applied& applied) override;

 private:
  using Scope = rpc::native::Scope;
  struct Write {
    v1::Request::Write sent;
    int64_t sent_us = 0;   // the first time
    int64_t zxid = 0;      // where it had its effect; 0: it is not in the log yet
    bool refused = false;  // it only used up its number
    tree::Branch branch = tree::Branch::kNone;
    std::vector<StepResult> results;
  };
  struct Watch {
    std::string path;
    Scope scope = Scope::kNode;
    bool set = false;      // answered, on the stream that is open
    bool leaving = false;  // unwatch is sent and not answered yet
    int64_t after = 0;
    // The place in events_ of the first event that has not come yet, and the events behind it that
    // have come.
    size_t next = 0;
    std::set<size_t> came;
  };
  struct Session {
    size_t client = 0;
    bool close_sent = false;
    bool up = false;
    int64_t opened_us = 0;
    int64_t heard_us = 0;
    int64_t timeout_ms = 0;
    int64_t seen_zxid = 0;
    int64_t last_write_zxid = 0;
    uint64_t answered = 0;  // writes up to this number
    uint64_t sent = 0;
    std::map<uint64_t, Write> writes;  // not answered yet
    std::map<uint64_t, Watch> watches;
  };
  struct Event {
    int64_t zxid;
    tree::EventType type;
    std::string path;
  };

  [[noreturn]] void Fail(std::string_view invariant, int64_t session,
                         const std::string& details) const;
  Session& Find(int64_t session);
  void FindWrite(const Model::Applied& applied);
  void CheckExpiry(const Model::Applied& applied);
  void CheckWrite(int64_t id, Session* session, const v1::Request::Write& write,
                  const v1::Response& response);
  void CheckResults(int64_t id, const Write& write, const v1::Response& response) const;
  void CheckRead(int64_t id, Session* session, const v1::Request& request, int64_t newest_seen,
                 const v1::Response& response);
  void CheckContent(int64_t id, const v1::Request& request, const v1::Response& response) const;
  void AnswerWatch(int64_t id, Session* session, const v1::Request::Watch& request,
                   const v1::Response& response);
  void TakeEvent(int64_t id, const v1::Event& event, uint64_t watch_id, Watch* watch);
  // The index of the first event after `zxid` in events_.
  size_t EventsAfter(int64_t zxid) const;
  // Moves `next` to the first event of the watch that has not come.
  void Advance(Watch* watch) const;
  void CheckNothingDue(int64_t id, uint64_t watch_id, Watch* watch, int64_t zxid);
  void CheckNothingDue(int64_t id, Session* session, int64_t zxid);
  void See(Session* session, int64_t zxid);
  void CheckCommitted(int64_t id, int64_t zxid) const;

  History* const history_;
  const ReplayChecker* const replay_;
  SimEnvironment& environment_;
  const double clock_drift_max_;
  int64_t steady_from_us_ = INT64_MAX;
  int64_t newest_seen_ = 0;
  std::map<int64_t, Session> sessions_;
  std::vector<Event> events_;  // of the whole log
};

}  // namespace quorate::simulation
