// A simulated client of the native protocol: one session after another, each on one stream after
// another. It does what client libraries do: numbers its writes, sends those without an answer
// again on the next stream, sets its watches again with the zxid up to which their events have
// come, and shows signs of life when it has nothing to say. What it asks for it draws by lot.
// Reports all that it does and hears to the NativeChecker.
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
  size_t place = 0;   // among those of the native protocol
  size_t count = 1;   // of those
  int32_t timeout_ms = 4000;
  double operation_rate = 20;  // a second
  size_t outstanding_max = 20;
  // Whether a new session may not see less than the one before.
  bool remembers_zxid = false;
};

class NativeClient : public ConnectionHandler {
 public:
  enum class QuietStage : uint8_t { kWorking, kProving, kProved, kReading, kDone };

  // All must outlive it, and it the simulation. `endpoint` is that of the servers' native ports.
  NativeClient(SimEnvironment* environment, Endpoint* endpoint, History* history,
               NativeChecker* checker, const NativeSettings& settings);

  // Begins to connect and to work.
  void Start();
  // Begins nothing new any more.
  void BeginQuiet() { quiet_ = true; }
  // Goes one step on towards kDone, if it can; beyond kProved only with `all_proved`.
  void StepQuiet(bool all_proved);
  QuietStage quiet_stage() const;

  // Whether it ever had a session: until then servers may know of members that are too old.
  bool has_had_session() const { return has_had_session_; }
  // 0 if there is none now.
  int64_t session() const { return session_; }
  // One line on what it is doing.
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
    bool proves = false;  // its answer is a step of the quiet
  };
  struct Watch {
    std::string path;
    v1::WatchScope scope = v1::NODE;
    int64_t after = 0;  // events have come up to this zxid; 0: it was never answered
    bool set = false;   // on this stream
  };

  void ConnectLater(int64_t delay_us);
  void Connect();
  // Drops the connection, if there is one; the session stays.
  void Disconnect();
  void Reconnect(int64_t delay_us_max);
  void EndSession();
  // Requests for the next message: what a new stream has to be asked for again.
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
  uint64_t epoch_ = 0;  // grows with each change of state: what was scheduled before is outdated
  size_t member_ = 0;
  ConnectionId connection_ = 0;
  NativeFrameReader reader_;
  int64_t sent_us_ = 0;
  int64_t heard_us_ = 0;
  uint64_t next_id_ = 1;
  std::deque<Sent> outstanding_;  // on this stream

  int64_t session_ = 0;
  std::string password_;
  int32_t timeout_ms_ = 0;
  int64_t last_zxid_ = 0;
  uint64_t last_sequence_ = 0;
  uint64_t acknowledged_ = 0;
  std::deque<v1::Request::Write> writes_;  // without an answer
  std::map<uint64_t, Watch> watches_;
  uint64_t next_watch_id_ = 1;
  std::vector<std::string> created_;  // with numbers that servers have given

  bool has_had_session_ = false;
  bool quiet_ = false;
  QuietStage quiet_stage_ = QuietStage::kWorking;
  uint64_t quiet_epoch_ = 0;  // the stream of that stage
};

}  // namespace quorate::simulation
