// SPDX-License-Identifier: Apache-2.0

// A client of the cluster: one session after another, over one of the front ends. Records in the
// history all that it sends and receives.
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

// Writes the history of a process, and counts outcomes and events.
class Recorder {
 public:
  // `history` must outlive the object.
  explicit Recorder(HistoryWriter* history) : history_(history) {}

  void Write(Line line);
  // Assigns a number to the operation, and writes its invocation. REQUIRES: its client is set.
  void WriteInvoke(Line* operation);
  void WriteOutcome(const Line& invoke, Line outcome);
  // Reports on standard error that a server broke the protocol.
  void ReportProtocolError(const std::string& what);

  int64_t ok() const { return ok_; }
  int64_t refused() const { return refused_; }
  int64_t unknown() const { return unknown_; }
  int64_t events() const { return events_; }
  int64_t expired() const { return expired_; }
  // When the last write was acknowledged; 0: no write was.
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
  // The directory with ca.pem, and client.pem with the certificate and the key of the clients; empty:
  // without TLS.
  std::string tls_directory{};
  int32_t session_timeout_ms = 4000;
  uint64_t seed = 0;
  // A linearizable read on the ZooKeeper front end is sent behind a sync; the history records it as
  // linearizable only if this is true. ZooKeeper's own leader answers a sync before it has applied
  // what its followers may have shown already.
  bool is_sync_linearizable = true;
  // A client of the ZooKeeper front end uses the chroot /@linearizable: it sends no sync, and all
  // its reads count as linearizable.
  bool has_linearizable_chroot = false;
};

class Client {
 public:
  virtual ~Client() = default;

  // Performs operations that begin together, and returns when all of them are over: the outcome of
  // each, as recorded in the history. The operations are lines with the fields of an invoke:
  // workload, function, path and arguments. If there is no session with a server for ten seconds,
  // no operation is sent, nothing is written, and the outcomes are refusals with kNotSent.
  virtual std::vector<Line> Perform(std::vector<Line> operations) = 0;
  Line Perform(Line operation) { return Perform(std::vector<Line>{std::move(operation)})[0]; }

  // Keeps the session alive and receives events, until `until_ns`.
  virtual void Idle(int64_t until_ns) = 0;
  // Moves to another server, disconnected for `away_ms` in between, if the front end supports that.
  virtual void Move(int64_t away_ms) = 0;
  // Closes the session; the next one begins with the next operation.
  virtual void CloseSession() = 0;
  // Sends nothing more on the session, without closing it; with `silently` its connection stays
  // open. Returns false if the front end cannot do that.
  virtual bool AbandonSession(bool silently) = 0;

  // The number of sessions so far; 0 before the first one. Watches and ephemeral nodes belong to
  // one.
  virtual int64_t sessions() = 0;
  // Whether the latest session still exists, as far as this client knows.
  virtual bool has_session() = 0;
  // The events and watch-resets since the last call.
  virtual std::vector<Line> TakeEvents() = 0;

  virtual int32_t number() const = 0;
  // The requested timeout.
  virtual int32_t session_timeout_ms() const = 0;
};

inline constexpr std::string_view kNotSent = "NotSent";

// The name of a server's error, as in the history, and whether the error guarantees that the
// operation was not executed and never will be.
struct Refusal {
  std::string name;
  bool is_certain = false;
};
Refusal RefusalOf(tree::ErrorCode code);
Refusal RefusalOf(ErrorCode code);

// Whether the function changes the tree.
bool IsWrite(std::string_view function);

// The outcome of an operation that was not sent.
Line NotSent();

}  // namespace quorate::chaos
