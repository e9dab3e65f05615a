// SPDX-License-Identifier: Apache-2.0

// Servers for the tests of clients and checkers: each has a tree and answers the protocol, behind a
// log without consensus. They are correct, except for one mistake (a "lie") that a test requests.
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
#include "rpc/zookeeper/protocol.h"
#include "tests/simulation/clients/fake_environment.h"
#include "tests/simulation/sim_environment.h"
#include "tree/command.h"
#include "tree/tree.h"

namespace quorate::simulation {

enum class Lie : uint8_t {
  kNone,
  kLostWrite,       // a write is answered but not in the log
  kWriteTwice,      // a write is in the log twice
  kSwappedWrites,   // two writes of a connection change places
  kHalfMulti,       // a multi enters the log without its last step
  kWrongAnswer,     // a write is answered with another version
  kWrongData,       // a read shows wrong data
  kWrongChildren,   // a read omits a child
  kWrongKind,       // a filtered list has a child of the other kind
  kWrongChildData,  // a list with data shows wrong data
  kWrongDepth,      // a recursive list has a path before its parent
  kWrongFlags,      // other operations of ClickHouse Keeper are announced
  kEarlyRead,       // a read does not wait for the write before it
  kOldZxid,         // a ping is answered with an old zxid
  kOldSync,         // sync does not wait
  kSwappedReplies,  // two replies change places
  kFutureZxid,      // a reply has a zxid that no server has reached
  kLostEvent,
  kEventTwice,
  kLateEvent,    // after the reply that shows the change
  kWrongEvent,   // of another type
  kMissedEvent,  // setWatches does not report it
  kEarlyExpiry,  // a session ends before its time
  kNoExpiry,     // sessions never expire
  kRefused,      // a living session is refused
  kTwoTrees,     // a member does not apply an entry
};

class FakeCluster : public Endpoint {
 public:
  // `environment` must outlive the cluster. The lie is told at the first opportunity after
  // `from_us`.
  FakeCluster(FakeEnvironment* environment, Lie lie, int64_t from_us);
  ~FakeCluster() override;

  // Whether the lie was told.
  bool lied() const { return lied_; }
  // Connections break and members lag until `time_us`.
  void SetTroubleUntil(int64_t time_us) { trouble_until_us_ = time_us; }
  // Whether all members have applied the whole log.
  bool converged() const;

  ConnectionId Connect(size_t member, ConnectionHandler* handler) override;
  void Send(ConnectionId connection, std::string bytes) override;
  void Close(ConnectionId connection) override;

 private:
  class Member;
  struct Connection;

  // Whether this lie is the requested one and is due now.
  bool Lies(Lie lie);
  void Submit(size_t member, std::string command);
  void Append(std::string command);
  void ApplyNext(size_t member);
  void ExpireSessions();
  void Heard(int64_t session) { heard_us_[session] = environment_->now_us(); }
  void Deliver(const std::shared_ptr<Connection>& connection);
  // Closes the server's end; the client learns of that later.
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
  std::map<ConnectionId, std::shared_ptr<Connection>> left_;         // closed by the server only
  ConnectionId next_connection_ = 1;
  int64_t next_session_ = 1000;
  std::map<int64_t, int64_t> heard_us_;  // by session
};

}  // namespace quorate::simulation
