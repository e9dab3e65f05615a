// Servers for the tests of clients and checkers: each has a tree and answers the protocol, behind a
// log that needs no consensus. They are honest, but for the one lie that a test asks for.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "consensus/core/types.h"
#include "rpc/zk/protocol.h"
#include "tests/simulation/clients/fake_environment.h"
#include "tests/simulation/sim_environment.h"
#include "tree/command.h"
#include "tree/tree.h"

namespace quorate::simulation {

enum class Lie : uint8_t {
  kNone,
  kLostWrite,       // a write is answered and is not in the log
  kWriteTwice,      // a write is in the log twice
  kSwappedWrites,   // two writes of a connection change places
  kHalfMulti,       // a multi enters the log without its last step
  kWrongAnswer,     // a write is answered with another version
  kWrongData,       // a read shows other data
  kWrongChildren,   // a read leaves a child out
  kEarlyRead,       // a read does not wait for the write before it
  kOldZxid,         // a ping is answered with a zxid of the past
  kOldSync,         // sync does not wait
  kSwappedReplies,  // two replies change places
  kFutureZxid,      // a reply has a zxid that nobody has reached
  kLostEvent,
  kEventTwice,
  kLateEvent,    // after the reply that shows the change
  kWrongEvent,   // of another type
  kMissedEvent,  // setWatches does not tell it
  kEarlyExpiry,  // a session ends before its time
  kNoExpiry,     // sessions never expire
  kRefused,      // a living session is refused
  kTwoTrees,     // a member does not apply an entry
};

class FakeCluster : public Endpoint {
 public:
  // `environment` must outlive it. The lie is told once there is something to lie about after
  // `from_us`.
  FakeCluster(FakeEnvironment* environment, Lie lie, int64_t from_us);
  ~FakeCluster() override;

  // Whether the lie was told.
  bool lied() const { return lied_; }
  // Connections break and members lag until then.
  void SetTroubleUntil(int64_t time_us) { trouble_until_us_ = time_us; }
  // Whether all members have applied all.
  bool converged() const;

  ConnectionId Connect(size_t member, ConnectionHandler* handler) override;
  void Send(ConnectionId connection, std::string bytes) override;
  void Close(ConnectionId connection) override;

 private:
  class Member;
  struct Connection;

  // Whether it is time for this lie.
  bool Lies(Lie lie);
  void Submit(size_t member, std::string command);
  void Append(std::string command);
  void ApplyNext(size_t member);
  void ExpireSessions();
  void Heard(int64_t session) { heard_us_[session] = environment_->now_us(); }
  void Deliver(const std::shared_ptr<Connection>& connection);
  // The server's end; the client hears of it later.
  void Break(const std::shared_ptr<Connection>& connection);
  void Drop(const std::shared_ptr<Connection>& connection);

  FakeEnvironment* const environment_;
  const Lie lie_;
  const int64_t lie_from_us_;
  bool lied_ = false;
  int64_t trouble_until_us_ = 0;
  Random& random_;
  std::vector<consensus::Entry> log_;
  size_t committed_ = 0;  // applied by some member
  std::vector<std::unique_ptr<Member>> members_;
  std::map<ConnectionId, std::shared_ptr<Connection>> connections_;  // open at their servers
  std::map<ConnectionId, std::shared_ptr<Connection>> left_;  // whose clients do not know yet
  ConnectionId next_connection_ = 1;
  int64_t next_session_ = 1000;
  std::map<int64_t, int64_t> heard_us_;  // by session
};

}  // namespace quorate::simulation
