// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/connection_acceptor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/thread.h"
#include "rpc/listen/listen.h"

namespace quorate::rpc {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

// A process without a limit of open files counts as one with this limit.
constexpr int64_t kDescriptorsMax = 1 << 20;
constexpr auto kLogPeriod = std::chrono::seconds(5);
// The period after which the table is searched for connections that were closed. It is also searched after
// a refusal.
constexpr int kSweepMs = 10'000;
// The pause after a sweep is this number of times as long as the sweep took, and at least kSweepPauseMin.
constexpr int kPausePerSweep = 5;
constexpr auto kSweepPauseMin = std::chrono::milliseconds(50);
constexpr int kPauseMs = 100;
constexpr int kAcceptedAtOnceMax = 64;
// Data that was sent is acknowledged within this time, or the connection ends: as gRPC's listener
// sets it with keepalive.
constexpr int kUserTimeoutMs = 10'000;

int64_t DescriptorsMax() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return kDescriptorsMax;
  }
  return std::min(static_cast<int64_t>(limit.rlim_cur), kDescriptorsMax);
}

}  // namespace

error_code ConnectionAcceptor::Listen(const std::set<tcp::endpoint>& endpoints) {
  boost::asio::io_context context;
  for (tcp::endpoint endpoint : endpoints) {
    if (endpoint.port() == 0) endpoint.port(port_);
    tcp::acceptor acceptor(context);
    error_code error = endpoint.address().is_unspecified()
                           ? ListenOnAll(endpoint.port(), &acceptor)
                           : ListenOn(endpoint, Families::kBoth, &acceptor);
    if (!error) port_ = acceptor.local_endpoint(error).port();
    if (!error) acceptor.native_non_blocking(true, error);
    if (!error) listeners_.emplace_back(acceptor.release(error));
    if (error) return error;
  }
  wakes_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return wakes_.is_open() ? error_code() : error_code(errno, boost::system::system_category());
}

void ConnectionAcceptor::Start(uint64_t bytes_max, Handler handler) {
  ASSERT(wakes_.is_open(), "it listens");
  handler_ = std::move(handler);
  thread_ = StartThread("grpc-accept", [this, bytes_max] { Run(bytes_max); });
}

void ConnectionAcceptor::Stop() {
  if (thread_.joinable()) {
    eventfd_write(wakes_.number(), 1);
    thread_.join();
  }
  listeners_.clear();
  wakes_.Close();
}

void ConnectionAcceptor::Run(uint64_t bytes_max) {
  std::vector<pollfd> waited = {{wakes_.number(), POLLIN, 0}};
  for (const Descriptor& listener : listeners_) waited.push_back({listener.number(), POLLIN, 0});
  while (true) {
    const int ready = poll(waited.data(), waited.size(), connections_.count() > 0 ? kSweepMs : -1);
    if (ready < 0) continue;  // interrupted by a signal
    if (ready > 0 && waited[0].revents != 0) return;
    if (Clock::now() >= next_sweep_) Sweep();
    if (ready == 0) continue;
    bool accepts = true;
    for (size_t i = 0; i < listeners_.size(); ++i) {
      if (waited[i + 1].revents != 0) accepts &= AcceptFrom(listeners_[i], bytes_max);
    }
    // Without a free descriptor, the listeners stay readable.
    if (!accepts && poll(waited.data(), 1, kPauseMs) > 0) return;
  }
}

bool ConnectionAcceptor::AcceptFrom(const Descriptor& listener, uint64_t bytes_max) {
  const ConnectionLimits limits = ConnectionLimitsFor(DescriptorsMax(), bytes_max);
  for (int i = 0; i < kAcceptedAtOnceMax; ++i) {
    tcp::endpoint remote;
    auto bytes = static_cast<socklen_t>(remote.capacity());
    const int accepted =
        accept4(listener.number(), remote.data(), &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (accepted < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
      const int error = errno;
      counters_->failed.fetch_add(1, std::memory_order_relaxed);
      if (LogsNow()) {
        spdlog::warn("a connection to the gRPC port could not be accepted: {}",
                     std::strerror(error));
      }
      return false;
    }
    remote.resize(bytes);
    OpenConnections::Added added = connections_.Add(limits, accepted, remote, Clock::now());
    if (added.refused != nullptr && !added.has_replaced && Clock::now() >= next_refusal_sweep_) {
      Sweep();
      added = connections_.Add(limits, accepted, remote, Clock::now());
    }
    if (added.has_replaced) counters_->replaced.fetch_add(1, std::memory_order_relaxed);
    if (added.refused != nullptr) {
      counters_->refused.fetch_add(1, std::memory_order_relaxed);
      close(accepted);
      if (LogsNow()) {
        spdlog::warn("connection refused protocol=grpc address={} reason=\"{}\"",
                     remote.address().to_string(), added.refused);
      }
      continue;
    }
    const int one = 1;
    setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(accepted, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof(kUserTimeoutMs));
    handler_(listener.number(), accepted);
  }
  return true;
}

void ConnectionAcceptor::Sweep() {
  const Clock::time_point begun = Clock::now();
  connections_.Sweep();
  const Clock::time_point now = Clock::now();
  next_sweep_ = now + std::chrono::milliseconds(kSweepMs);
  next_refusal_sweep_ =
      now + std::max<Clock::duration>(kSweepPauseMin, (now - begun) * kPausePerSweep);
}

bool ConnectionAcceptor::LogsNow() {
  const Clock::time_point now = Clock::now();
  if (now < next_log_) return false;
  next_log_ = now + kLogPeriod;
  return true;
}

}  // namespace quorate::rpc
