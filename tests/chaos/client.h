// A client of the cluster: one session after another, over one of the front ends. Writes all that
// it does and hears into the history.
//
// Thread-safety: a client belongs to one thread; a Recorder may be used by all.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/types.h"
#include "tests/chaos/history.h"
#include "tests/simulation/random.h"
#include "tree/types.h"

namespace quorate::chaos {

inline constexpr int64_t kNsInMs = 1'000'000;

// The history of a process, and what it comes to.
class Recorder {
 public:
  // `history` outlives it.
  explicit Recorder(HistoryWriter* history) : history_(history) {}

  void Write(Line line);
  // Gives it a number, and writes it. What is left out of `operation` is its client.
  void WriteInvoke(Line* operation);
  void WriteOutcome(const Line& invoke, Line outcome);
  // A server has said what it must not, whatever happens: told on the standard error.
  void ReportProtocolError(const std::string& what);

  int64_t ok() const { return ok_; }
  int64_t refused() const { return refused_; }
  int64_t unknown() const { return unknown_; }
  int64_t events() const { return events_; }
  int64_t expired() const { return expired_; }
  // When a write was acknowledged last; 0: none was.
  int64_t last_write_ok_ns() const { return last_write_ok_ns_; }
  int64_t protocol_errors() const { return protocol_errors_; }

 private:
  HistoryWriter* const history_;
  std::atomic<int64_t> ok_{0}, refused_{0}, unknown_{0}, events_{0}, expired_{0};
  std::atomic<int64_t> last_write_ok_ns_{0}, protocol_errors_{0};
};

struct ClientSettings {
  int32_t number = 0;                // unique in all processes
  std::vector<std::string> servers;  // host:port
  int32_t session_timeout_ms = 4000;
  uint64_t seed = 0;
  // Reads that are to be linearizable come after a sync on the ZooKeeper front end; they are
  // written down as linearizable only if this holds. ZooKeeper's own leader answers a sync before
  // it has applied what its followers may have shown already.
  bool is_sync_linearizable = true;
};

class Client {
 public:
  virtual ~Client() = default;

  // Makes operations that begin together, and returns when all of them are over: the outcome of
  // each, as it is in the history. They are lines with what an invoke needs: workload, function,
  // path and arguments. If there is no session with a server for ten seconds, they are not made,
  // nothing is written, and the outcomes are refusals for kNotSent.
  virtual std::vector<Line> Perform(std::vector<Line> operations) = 0;
  Line Perform(Line operation) { return Perform(std::vector<Line>{std::move(operation)})[0]; }

  // Keeps the session alive and hears events, until then.
  virtual void Idle(int64_t until_ns) = 0;
  // Goes to another server, away from all of them for so long, if the front end knows of that.
  virtual void Move(int64_t away_ms) = 0;
  // Closes the session; the next one begins with the next operation.
  virtual void CloseSession() = 0;
  // Says no more on the session, without closing it; with `silently` its connection stays open.
  // False if the front end cannot do that.
  virtual bool AbandonSession(bool silently) = 0;

  // Counts sessions, from 1; 0 before the first one. Watches and ephemeral nodes belong to one.
  virtual int64_t sessions() = 0;
  // Whether the session of that count is still there, as far as this client knows.
  virtual bool has_session() = 0;
  // The events and resets of watches since it was asked last.
  virtual std::vector<Line> TakeEvents() = 0;

  virtual int32_t number() const = 0;
  // As asked for.
  virtual int32_t session_timeout_ms() const = 0;
};

inline constexpr std::string_view kNotSent = "NotSent";

// Name of a server's error, as in the history, and whether it says that nothing was done and never
// will be.
struct Refusal {
  std::string name;
  bool is_certain = false;
};
Refusal RefusalOf(tree::ErrorCode code);
Refusal RefusalOf(ErrorCode code);

// Whether it changes the tree.
bool IsWrite(std::string_view function);

// "outcome" of an operation that was not made.
Line NotSent();

}  // namespace quorate::chaos
