// SPDX-License-Identifier: Apache-2.0

// What simulated clients and checkers see of a simulation: its time, its randomness, the network up
// to the servers, and what the servers apply.
//
// Thread-safety: none; everything runs on the one thread of the simulation, and every call comes
// from an event of its scheduler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "consensus/core/types.h"
#include "tests/simulation/random.h"
#include "tree/tree.h"

namespace quorate::simulation {

// Identifies a connection of a client; never reused. 0 means no connection.
using ConnectionId = uint64_t;

// The client's end of a connection.
class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;
  virtual void OnOpen(ConnectionId connection) = 0;
  // Bytes arrive in the order in which they were sent, in pieces of any size.
  virtual void OnBytes(ConnectionId connection, std::string_view bytes) = 0;
  // The connection could not be opened, or broke, or the server closed it. This is the last call
  // for the connection; it is not made for one that the client closed itself.
  virtual void OnClosed(ConnectionId connection) = 0;
};

// The clients' view of the network.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  // Opens a connection to a member (0 to member_count() - 1). Always returns an id; OnOpen or
  // OnClosed is called later. The handler must live until OnClosed or Close.
  virtual ConnectionId Connect(size_t member, ConnectionHandler* handler) = 0;
  // Sends bytes on an open connection; ignored if the connection has been closed meanwhile. The
  // bytes arrive after the network's delay, in order, or do not arrive because the connection
  // breaks.
  virtual void Send(ConnectionId connection, std::string bytes) = 0;
  // Closes the connection; what was sent before still arrives if the network delivers it. The
  // handler is not called any more.
  virtual void Close(ConnectionId connection) = 0;
};

// What happens inside the servers, for checkers. Members are numbered from 0; member i has server
// number i + 1. Everything that a restarted member applies again is reported again.
class ServerObserver {
 public:
  virtual ~ServerObserver() = default;
  // The member starts with an empty state machine, or with a checkpoint of everything up to
  // `applied`; also called when a snapshot from another member was installed.
  virtual void OnStateLoaded(size_t member, consensus::Index applied) {
    (void)member, (void)applied;
  }
  // The member has applied this entry.
  virtual void OnApplied(size_t member, const consensus::Entry& entry) {
    (void)member, (void)entry;
  }
  virtual void OnSessionAttached(size_t member, const tree::SessionInfo& session) {
    (void)member, (void)session;
  }
  virtual void OnSessionClosed(size_t member, tree::SessionId session, tree::Zxid zxid,
                               bool expired) {
    (void)member, (void)session, (void)zxid, (void)expired;
  }
  // The member has answered a request of one of its own clients: the result as applied.
  virtual void OnResult(size_t member, const tree::ApplyResult& result) {
    (void)member, (void)result;
  }
  // The member leads in this term.
  virtual void OnLeads(size_t member, consensus::Term term) { (void)member, (void)term; }
  // The member's process was paused from `from_us` until now.
  virtual void OnStoodStill(size_t member, int64_t from_us) { (void)member, (void)from_us; }
  // An entry is committed: called when the first member applies it, once for each index, in order.
  virtual void OnCommitted(const consensus::Entry& entry) { (void)entry; }
};

class SimEnvironment {
 public:
  virtual ~SimEnvironment() = default;

  // Virtual time since the simulation began.
  virtual int64_t now_us() const = 0;
  // Runs `task` after the delay. REQUIRES: delay_us >= 0. The objects that the task refers to must
  // live as long as the simulation.
  virtual void After(int64_t delay_us, std::function<void()> task) = 0;
  // The stream of random numbers of that name; the same object at each call.
  virtual Random& random(std::string_view name) = 0;

  // An invariant does not hold: prints seed, invariant, details and the end of the trace, and ends
  // the process. `invariant` is a short constant ("reads are not older than completed writes").
  [[noreturn]] virtual void Fail(std::string_view invariant, std::string_view details) = 0;

  // Whether the trace is used: build its lines only if so. The run is the same in both cases.
  virtual bool tracing() const = 0;
  virtual void Trace(std::string_view line) = 0;
  // Adds a number to the hash by which two runs of a seed are compared. Cheap: call it for
  // everything that a client sends or receives.
  virtual void Mix(uint64_t number) = 0;
  // Counts an event worth knowing ("client: session expired"): the summary of a sweep shows which
  // of them never occurred.
  virtual void Count(std::string_view probe) = 0;

  virtual size_t member_count() const = 0;
  // Calls `read` with the tree of a member, unless it is down. For checks at the end, not for
  // clients.
  virtual void ReadTree(size_t member,
                        const std::function<void(const tree::Tree&)>& read) const = 0;
  // Whether, at some time from `from_us` to `until_us`, the member might have refused writes that
  // add data because disks were full: judged by the true state of the disks, not by the member's
  // reports.
  virtual bool MightRefuseData(size_t member, int64_t from_us, int64_t until_us) const = 0;
  // Observers are called in the order in which they were added; they must outlive the simulation's
  // run.
  virtual void AddObserver(ServerObserver* observer) = 0;
};

}  // namespace quorate::simulation
