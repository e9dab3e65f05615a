// SPDX-License-Identifier: Apache-2.0

// Accepts the connections of gRPC clients. gRPC's own listener has no limit: clients that have proved
// nothing could take all descriptors and memory of the process, and the listener ends for good when
// the process has no descriptor left.
//
// Thread-safety: one thread calls Listen, Start and Stop; other functions may be called by any thread.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "rpc/poller/descriptor.h"

namespace quorate::rpc {

// How many connections there may be. All are 1 or more.
struct ConnectionLimits {
  int64_t all = 1;
  int64_t of_address = 1;
  // A connection with this number of a descriptor, or a higher one, is refused. The kernel gives the
  // lowest free number, so that at least as many descriptors are open.
  int64_t descriptor = 1;
};

// Returns the limits for a process that may have `descriptors` open. `bytes_max`: the memory that
// connections may take before their clients have proved anything; 0: any amount.
ConnectionLimits ConnectionLimitsFor(int64_t descriptors, uint64_t bytes_max);

// The sockets that were given to gRPC, which closes them and tells nobody. A socket that was closed is
// recognised by its number: that is free, or belongs to another file.
//
// Thread-safety: none.
class OpenSockets {
 public:
  void Add(int descriptor, const std::string& address);
  // Forgets the sockets that were closed.
  void Sweep();
  // These count sockets that were closed since the last sweep, too.
  int64_t count() const { return static_cast<int64_t>(sockets_.size()); }
  int64_t count_of(const std::string& address) const;

 private:
  struct Socket {
    int descriptor;
    uint64_t inode;
    std::string address;
  };
  std::vector<Socket> sockets_;
  absl::flat_hash_map<std::string, int64_t> of_address_;
};

class ConnectionAcceptor {
 public:
  // Takes an accepted socket, which it owns from then on.
  using Handler = std::function<void(int listener, int descriptor)>;

  ConnectionAcceptor() = default;
  ~ConnectionAcceptor() { Stop(); }
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  // Listens on all endpoints, which have the same port. If that is 0, the system chooses one for all.
  boost::system::error_code Listen(const std::set<boost::asio::ip::tcp::endpoint>& endpoints);
  // Returns the port on which it listens; 0 if it does not listen.
  uint16_t port() const { return port_; }
  // Begins to accept connections. REQUIRES: Listen was called.
  void Start(uint64_t bytes_max, Handler handler);
  // Accepts no more connections.
  void Stop();

  // Returns how many connections were refused because of the limits.
  int64_t refused() const { return refused_.load(std::memory_order_relaxed); }
  // Returns how often the system let the process accept no connection, as without a free descriptor.
  int64_t failed() const { return failed_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;

  void Run(uint64_t bytes_max);
  // Accepts connections of a listener as long as some wait. Returns false if the system lets the
  // process accept none.
  bool AcceptFrom(const Descriptor& listener, uint64_t bytes_max);
  // Returns why a connection is refused; nullptr if it is not.
  const char* WhyRefused(const ConnectionLimits& limits, int descriptor,
                         const std::string& address);
  // Returns whether a refusal or failure is to be logged now: not all are.
  bool LogsNow();

  std::vector<Descriptor> listeners_;
  Descriptor wakes_;  // readable when the thread has to end
  uint16_t port_ = 0;
  Handler handler_;
  std::thread thread_;
  std::atomic<int64_t> refused_{0};
  std::atomic<int64_t> failed_{0};
  // Only used by the thread.
  OpenSockets sockets_;
  Clock::time_point next_sweep_{};
  Clock::time_point next_log_{};
};

}  // namespace quorate::rpc
