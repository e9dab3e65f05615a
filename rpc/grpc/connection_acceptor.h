// SPDX-License-Identifier: Apache-2.0

// Accepts the connections of gRPC clients, within limits (rpc/grpc/open_connections.h). gRPC's own
// listener has none: clients that have proved nothing could take all descriptors and memory of the
// process, and the listener ends for good when the process has no descriptor left.
//
// Thread-safety: one thread calls Listen, Start and Stop; other functions may be called by any thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include "rpc/frontend/connection_counters.h"
#include "rpc/grpc/open_connections.h"
#include "rpc/poller/descriptor.h"

namespace quorate::rpc {

class ConnectionAcceptor {
 public:
  // Takes an accepted socket, which it owns from then on.
  using Handler = std::function<void(int listener, int descriptor)>;

  ConnectionAcceptor() = default;
  ~ConnectionAcceptor() { Stop(); }
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  // Listens on all endpoints, which have the same port. If that is 0, the system chooses one for all.
  // 0.0.0.0 and :: mean all addresses of this machine, as for gRPC's own listener.
  boost::system::error_code Listen(const std::set<boost::asio::ip::tcp::endpoint>& endpoints);
  // Returns the port on which it listens; 0 if it does not listen.
  uint16_t port() const { return port_; }
  // Begins to accept connections. REQUIRES: Listen was called.
  void Start(uint64_t bytes_max, Handler handler);
  // Accepts no more connections.
  void Stop();

  // Sets where connections are counted, which must outlive the object. REQUIRES: called before Start.
  void SetCounters(ConnectionCounters* counters) { counters_ = counters; }
  // As OpenConnections::OnAdmitted.
  void OnAdmitted(std::string_view peer) { connections_.OnAdmitted(peer); }

 private:
  using Clock = std::chrono::steady_clock;

  void Run(uint64_t bytes_max);
  // Accepts connections of a listener as long as some wait. Returns false if the system lets the
  // process accept none.
  bool AcceptFrom(const Descriptor& listener, uint64_t bytes_max);
  // Forgets connections that were closed.
  void Sweep();
  // Returns whether a refusal or failure is to be logged now: not all are.
  bool LogsNow();

  std::vector<Descriptor> listeners_;
  Descriptor wakes_;  // readable when the thread has to end
  uint16_t port_ = 0;
  Handler handler_;
  std::thread thread_;
  ConnectionCounters own_counters_;
  ConnectionCounters* counters_ = &own_counters_;
  OpenConnections connections_;
  // Only used by the thread.
  Clock::time_point next_sweep_{};
  Clock::time_point next_refusal_sweep_{};  // before, a refusal causes none
  Clock::time_point next_log_{};
};

}  // namespace quorate::rpc
