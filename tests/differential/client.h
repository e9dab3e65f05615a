// SPDX-License-Identifier: Apache-2.0

// One client of one server: a TCP connection and the session it holds.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/zookeeper/wire/connection.h"
#include "rpc/zookeeper/wire/wire.h"
#include "tests/differential/answer.h"
#include "tests/differential/operation.h"

namespace quorate::differential {

class Client {
 public:
  // A barrier ensures that this connection has shown everything that any client of these servers
  // has seen before it; with several servers (not `alone`), that takes a sync. `newest_zxid` is the
  // newest zxid of all answers to clients of these servers; it must outlive the client.
  Client(std::string address, bool alone, int64_t* newest_zxid)
      : address_(std::move(address)), alone_(alone), newest_zxid_(newest_zxid) {}

  // Begin sends the requests of an operation, so that both servers can work at the same time.
  // REQUIRES: connected, unless the operation is a kConnect.
  void Begin(const Operation& operation);
  // Waits until all requests are answered, and returns the answers. Replies to pings and auth
  // packets may overtake others: they are returned last.
  std::vector<Answer> End(const Operation& operation);

  // The same for the effects of other clients' operations on this connection. Returns nothing if
  // End found the connection closed.
  void BeginBarrier();
  std::vector<Answer> EndBarrier();
  // The same for the old connection that a connect has replaced; EndOldBarrier drops it.
  bool HasOldConnection() const { return old_.open(); }
  void BeginOldBarrier();
  std::vector<Answer> EndOldBarrier();

  bool connected() const { return connection_.open(); }
  bool has_session() const { return session_ != 0; }
  // Drops the connection. Waits for its end: ZooKeeper forgets which connection holds a session if
  // it sees the end of the previous one only after the next one has taken the session over.
  void Drop();
  // Drops the connection and forgets the session.
  void Forget();

 private:
  struct Expected {
    int32_t xid;
    wire::OpCode op;
    bool answered = false;
  };

  void BeginConnect(const Operation& operation);
  std::vector<Answer> EndConnect(const Operation& operation);
  std::string Encode(const Request& request) const;
  std::string EncodeBarrier() const;
  std::vector<Answer> Collect(wire::Connection* connection);
  enum class Taken { kAnswer, kBarrier, kBarrierTooEarly };
  Taken Take(const std::string& packet, std::vector<Answer>* answers,
             std::vector<Answer>* overtaking);

  const std::string address_;
  const bool alone_;
  int64_t* const newest_zxid_;
  wire::Connection connection_;
  wire::Connection old_;
  int64_t session_ = 0;
  std::string password_;
  int64_t last_zxid_ = 0;
  std::vector<Expected> expected_;
};

}  // namespace quorate::differential
