// SPDX-License-Identifier: Apache-2.0

// What the clients of a simulation sent and received, in one order: clients report here, and
// checkers listen. Keeps everything until the end of the run, so that a failure can be explained.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/simulation/clients/operation.h"
#include "tests/simulation/sim_environment.h"

namespace quorate::simulation {

using OperationId = size_t;
// A connection on which a session was accepted; counts from 0.
using LinkId = size_t;

enum class Outcome : uint8_t {
  kPending,
  kAnswered,
  kLost,  // the connection broke: a write may have happened, may still happen, or never
};

struct Operation {
  OperationId id = 0;
  size_t client = 0;
  LinkId link = 0;
  int32_t xid = 0;
  Request request;
  int64_t invoked_us = 0;
  int64_t completed_us = 0;  // when it was answered or lost
  Outcome outcome = Outcome::kPending;
  Reply reply;
};

// A session on one connection.
struct Link {
  LinkId id = 0;
  size_t client = 0;
  size_t member = 0;
  int64_t session = 0;
  bool new_session = false;  // the handshake created it
  std::string password;
  int32_t timeout_ms = 0;  // as negotiated
  int64_t last_zxid_sent = 0;
  int64_t opened_us = 0;
  int64_t heard_us = 0;  // when the client last received anything from the server
  bool open = true;
  std::vector<OperationId> operations;  // in the order in which they were sent
};

// Calls come in the order of the events. References are valid as long as the history.
class HistoryListener {
 public:
  virtual ~HistoryListener() = default;
  virtual void OnLinkOpened(const Link& link) { (void)link; }
  // Called when the client receives nothing more on the link. OnLost was called before for its
  // unanswered operations.
  virtual void OnLinkClosed(const Link& link) { (void)link; }
  // Called before the operation's bytes are sent.
  virtual void OnInvoked(const Operation& operation) { (void)operation; }
  virtual void OnAnswered(const Operation& operation) { (void)operation; }
  virtual void OnLost(const Operation& operation) { (void)operation; }
  virtual void OnPong(const Link& link, int64_t zxid) { (void)link, (void)zxid; }
  virtual void OnEvent(const Link& link, const WatchEvent& event) { (void)link, (void)event; }
  // Called when a server reports that the session has ended.
  virtual void OnSessionRefused(size_t client, int64_t session) { (void)client, (void)session; }
  // Called when the client abandons the session: it has not closed it, and will never use it again.
  virtual void OnSessionAbandoned(size_t client, int64_t session) { (void)client, (void)session; }
};

class History {
 public:
  // `environment` must outlive it.
  explicit History(SimEnvironment* environment) : environment_(environment) {}

  // Listeners are called in the order in which they were added; they must outlive the run.
  void AddListener(HistoryListener* listener) { listeners_.push_back(listener); }

  // --- From the clients --------------------------------------------------------------------------
  LinkId OpenLink(Link link);  // fills in id, opened_us
  // Marks the unanswered operations as lost.
  void CloseLink(LinkId link);
  OperationId Invoke(LinkId link, int32_t xid, Request request);
  void Answer(OperationId operation, Reply reply);
  void Pong(LinkId link, int64_t zxid);
  void Event(LinkId link, WatchEvent event);
  void RefuseSession(size_t client, int64_t session);
  void AbandonSession(size_t client, int64_t session);

  // --- For the checkers --------------------------------------------------------------------------
  SimEnvironment& environment() const { return *environment_; }
  const Operation& operation(OperationId id) const { return operations_.at(id); }
  const Link& link(LinkId id) const { return links_.at(id); }
  size_t operation_count() const { return operations_.size(); }
  size_t link_count() const { return links_.size(); }

  // Ends the run: prints the violated invariant, the operation at which that was found, and the
  // history around the operation: of the same session and of the same paths.
  [[noreturn]] void Fail(std::string_view invariant, const Operation& operation,
                         std::string_view details) const;
  // The same for a violation found at a link, or at neither.
  [[noreturn]] void Fail(std::string_view invariant, const Link& link,
                         std::string_view details) const;
  [[noreturn]] void Fail(std::string_view invariant, std::string_view details) const;

  // Describes the operation, or the link, in one line.
  std::string Describe(const Operation& operation) const;
  std::string Describe(const Link& link) const;
  // The last `count` operations in the history for which `wanted` holds, one a line.
  std::string Lines(const std::function<bool(const Operation&)>& wanted, size_t count) const;

 private:
  SimEnvironment* const environment_;
  std::vector<HistoryListener*> listeners_;
  std::deque<Operation> operations_;
  std::deque<Link> links_;
};

// Whether an operation reads or changes this path.
bool Touches(const Request& request, std::string_view path);

}  // namespace quorate::simulation
