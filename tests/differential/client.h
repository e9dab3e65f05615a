// One client of one server: a TCP connection and the session it holds.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/zk/wire/connection.h"
#include "rpc/zk/wire/wire.h"
#include "tests/differential/answer.h"
#include "tests/differential/operation.h"

namespace quorate::differential {

class Client {
 public:
  // Barriers show on the connection all that any client of these servers was shown before them; at
  // one of several servers that takes a sync. `newest_zxid`, which must outlive it: of all answers
  // that clients of these servers got.
  Client(std::string address, bool alone, int64_t* newest_zxid)
      : address_(std::move(address)), alone_(alone), newest_zxid_(newest_zxid) {}

  // The two halves of an operation, so that both servers can be at work at once. What is not of
  // kind kConnect needs a connection.
  void Begin(const Operation& operation);
  // What came, up to the point at which all is done. Replies to pings and auth packets may overtake
  // others: they come last.
  std::vector<Answer> End(const Operation& operation);

  // The same for what others' operations may have caused here. A connection that End found closed
  // has nothing more to say.
  void BeginBarrier();
  std::vector<Answer> EndBarrier();
  // The same for the connection that a connect has replaced, which is dropped then.
  bool HasOldConnection() const { return old_.open(); }
  void BeginOldBarrier();
  std::vector<Answer> EndOldBarrier();

  bool connected() const { return connection_.open(); }
  bool has_session() const { return session_ != 0; }
  // ZooKeeper forgets who holds a session if it sees the end of the former connection only after
  // the next one has taken the session over.
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
