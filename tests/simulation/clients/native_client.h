// SPDX-License-Identifier: Apache-2.0

// A simulated client of the native protocol: one session after another, each on one stream after
// another. Does what client libraries do: numbers its writes, sends unanswered ones again on the
// next stream, sets its watches again with the zxid up to which their events have come, and sends a
// keepalive when idle. It chooses its operations at random. Reports all that it sends and receives
// to the NativeChecker.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/proto/quorate/v1/session.pb.h"
#include "tests/simulation/checkers/history.h"
#include "tests/simulation/checkers/native_checker.h"
#include "tests/simulation/clients/native_wire.h"
#include "tests/simulation/sim_environment.h"

namespace quorate::simulation {

struct NativeSettings {
  size_t number = 0;  // among all clients of the run
  size_t place = 0;   // among the native clients
  size_t count = 1;   // of native clients
  int32_t timeout_ms = 4000;
  double operation_rate = 20;  // a second
  size_t outstanding_max = 20;
  // Whether a new session sends the last zxid of the session before, so that it cannot see less.
  bool remembers_zxid = false;
  bool makes_transactions = false;  // with compares, reads and missing parents
};

class NativeClient : public ConnectionHandler {
 public:
  enum class QuietStage : uint8_t { kWorking, kProving, kProved, kReading, kDone };

  // The objects behind pointers must outlive the client, and the client the simulation. `endpoint`
  // is that of the servers' native ports.
  NativeClient(SimEnvironment* environment, Endpoint* endpoint, History* history,
               NativeChecker* checker, const NativeSettings& settings);

  // Begins to connect and to work.
  void Start();
  // Starts no new operations any more.
  void BeginQuiet() { quiet_ = true; }
  // Advances one stage towards kDone, if possible; beyond kProved only with `all_proved`.
  void StepQuiet(bool all_proved);
  QuietStage quiet_stage() const;

  // Whether it ever had a session: before that, servers may still know of members with an old
  // version.
  bool has_had_session() const { return has_had_session_; }
  // 0 if there is no session now.
  int64_t session() const { return session_; }
  // Describes the state in one line.
  std::string Describe() const;

  void OnOpen(ConnectionId connection) override;
  void OnBytes(ConnectionId connection, std::string_view bytes) override;
  void OnClosed(ConnectionId connection) override;

 private:
  enum class State : uint8_t {
    kWaiting,  // before the next attempt to connect
    kOpening,  // until the session is open
    kUp,
    kClosing,  // Close is under way
  };
  struct Sent {
    v1::Request request;
    int64_t sent_us = 0;
    int64_t newest_seen = 0;
    bool proves = false;  // its answer completes the current stage of the quiet
  };
  struct Watch {
    std::string path;
    v1::WatchScope scope = v1::WATCH_SCOPE_NODE;
    int64_t after = 0;  // events have come up to this zxid; 0: it was never answered
    bool set = false;   // on this stream
  };

  void ConnectLater(int64_t delay_us);
  void Connect();
  // Drops the connection, if there is one; the session stays.
  void Disconnect();
  void Reconnect(int64_t delay_us_max);
  void EndSession();
  // Adds the requests that a new stream has to repeat.
  void AddUnanswered(v1::SessionRequest* message);
  void SendOpen();
  void Add(v1::Request request, v1::SessionRequest* message, bool proves = false);
  void Send(v1::SessionRequest message);
  void SendOne(v1::Request request, bool proves = false);

  void OnMessage(const v1::SessionResponse& message);
  void OnOpened(const v1::SessionOpened& opened);
  void OnResponse(const v1::Response& response);
  void OnWatchAnswered(const v1::Request::Watch& request, const v1::Response& response);
  void OnStatus(std::string_view payload);
  void KeepAlive();

  void ActLater();
  void Act();
  void AddWrite(v1::SessionRequest* message);
  // Draws the parts of a transaction with branches.
  void DrawTransaction(v1::Request::Write* write);
  v1::Compare DrawCompare();
  // Draws a read, a create with its parents, or an operation of any write.
  v1::Operation DrawPart();
  void AddRead(v1::SessionRequest* message);
  void AddOrDropWatch(v1::SessionRequest* message);
  v1::Operation DrawOperation();
  std::string DrawPath();
  bool DrawDeparture();

  SimEnvironment* const environment_;
  Endpoint* const endpoint_;
  History* const history_;
  NativeChecker* const checker_;
  const NativeSettings settings_;
  Random& random_;

  State state_ = State::kWaiting;
  uint64_t epoch_ = 0;  // grows with each change of state; a task scheduled before is outdated
  size_t member_ = 0;
  ConnectionId connection_ = 0;
  NativeFrameReader reader_;
  int64_t sent_us_ = 0;
  int64_t heard_us_ = 0;
  uint64_t next_id_ = 1;
  std::deque<Sent> outstanding_;  // on this stream

  int64_t session_ = 0;
  std::string password_;
  int64_t timeout_ms_ = 0;
  int64_t last_zxid_ = 0;
  uint64_t last_sequence_ = 0;
  uint64_t acknowledged_ = 0;
  std::deque<v1::Request::Write> writes_;  // not answered yet
  std::map<uint64_t, Watch> watches_;
  uint64_t next_watch_id_ = 1;
  std::vector<std::string> created_;  // whose numbers servers have given

  bool has_had_session_ = false;
  bool quiet_ = false;
  QuietStage quiet_stage_ = QuietStage::kWorking;
  uint64_t quiet_epoch_ = 0;  // the stream on which that stage was reached
};

}  // namespace quorate::simulation
