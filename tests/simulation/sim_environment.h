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

// A connection of a client; never used again. 0 is none.
using ConnectionId = uint64_t;

// The client's end of a connection.
class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;
  virtual void OnOpen(ConnectionId connection) = 0;
  // Bytes arrive in the order in which they were sent, cut anywhere.
  virtual void OnBytes(ConnectionId connection, std::string_view bytes) = 0;
  // It could not be opened, or it broke, or the server closed it. The last call for it; not made
  // for one that the client closed itself.
  virtual void OnClosed(ConnectionId connection) = 0;
};

// The clients' view of the network.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  // Opens a connection to a member (0 to member_count() - 1). Always returns an id; OnOpen or
  // OnClosed follows, later. The handler must live until OnClosed or Close.
  virtual ConnectionId Connect(size_t member, ConnectionHandler* handler) = 0;
  // Sends bytes on an open connection; ignored if it has been closed meanwhile. They arrive after
  // the network's delay, in order, or not at all because the connection breaks.
  virtual void Send(ConnectionId connection, std::string bytes) = 0;
  // Closes it; what was sent before still arrives if the network lets it. No call of the handler
  // follows.
  virtual void Close(ConnectionId connection) = 0;
};

// What happens inside the servers, for checkers. Members are numbered from 0; member i is server
// i + 1 in the servers' own words. Everything a restarted member applies again is told again.
class ServerObserver {
 public:
  virtual ~ServerObserver() = default;
  // The member begins with an empty state machine, or with a checkpoint of everything up to
  // `applied`; also when a snapshot from another member was installed.
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
  // A request has been answered by the member to one of its own clients: the result as applied.
  virtual void OnResult(size_t member, const tree::ApplyResult& result) {
    (void)member, (void)result;
  }
  // The member leads in this term.
  virtual void OnLeads(size_t member, consensus::Term term) { (void)member, (void)term; }
  // The member's process stood still from then until now.
  virtual void OnStoodStill(size_t member, int64_t from_us) { (void)member, (void)from_us; }
  // An entry is committed, as the first member that applied it showed; once for each index, in
  // order.
  virtual void OnCommitted(const consensus::Entry& entry) { (void)entry; }
};

class SimEnvironment {
 public:
  virtual ~SimEnvironment() = default;

  // Virtual time since the simulation began.
  virtual int64_t now_us() const = 0;
  // Runs `task` later. REQUIRES: delay_us >= 0. What the task refers to must live as long as the
  // simulation.
  virtual void After(int64_t delay_us, std::function<void()> task) = 0;
  // The stream of random numbers of that name; the same object at each call.
  virtual Random& random(std::string_view name) = 0;

  // An invariant does not hold: prints seed, invariant, details and the end of the trace, and ends
  // the process. `invariant` is a short constant ("reads are not older than completed writes").
  [[noreturn]] virtual void Fail(std::string_view invariant, std::string_view details) = 0;

  // Whether anybody reads the trace: build its lines only if so. A run does the same either way.
  virtual bool tracing() const = 0;
  virtual void Trace(std::string_view line) = 0;
  // Adds a number to the hash by which two runs of a seed are compared. Cheap: call it for
  // everything that a client does or hears.
  virtual void Mix(uint64_t number) = 0;
  // Counts that something worth knowing happened ("client: session expired"): the summary of a
  // sweep shows what was never reached.
  virtual void Count(std::string_view probe) = 0;

  virtual size_t member_count() const = 0;
  // Calls `read` with the tree of a member, unless it is down. For checks at the end, not for
  // clients.
  virtual void ReadTree(size_t member,
                        const std::function<void(const tree::Tree&)>& read) const = 0;
  // Whether, at some time of these, the member might refuse writes that add data because disks were
  // full: by the truth about them, and not by what the member says.
  virtual bool MightRefuseData(size_t member, int64_t from_us, int64_t until_us) const = 0;
  // Observers are told in the order in which they came; they must outlive the simulation's run.
  virtual void AddObserver(ServerObserver* observer) = 0;
};

}  // namespace quorate::simulation
