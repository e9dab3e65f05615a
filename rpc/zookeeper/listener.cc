// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/listener.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "rpc/listen/listen.h"
#include "rpc/listen/lookup.h"

namespace quorate::rpc::zk {
namespace {

using boost::asio::ip::tcp;

constexpr auto kAcceptPause = std::chrono::seconds(1);
// The most connections that are accepted before the thread serves its clients again.
constexpr int kAcceptedAtOnceMax = 64;

constexpr Poller::Readiness kAwaitsClients = {.readable = true, .writable = false};

absl::Status CannotListen(const Config& config, const boost::system::error_code& error) {
  return absl::UnavailableError(absl::StrCat("cannot listen for clients on ",
                                             config.ClientEndpoint(), ": ", error.message()));
}

}  // namespace

ZkListener::ZkListener(ZkFrontend* frontend) : frontend_(frontend) {
  for (int i = 0; i < frontend_->config().io_threads; ++i) {
    threads_.push_back(std::make_unique<IoThread>(frontend_));
  }
  ASSERT(!threads_.empty());
}

ZkListener::~ZkListener() { Stop(); }

absl::Status ZkListener::Listen() {
  const Config& config = frontend_->config();
  boost::asio::io_context unused;  // nothing is awaited in it
  tcp::acceptor acceptor(unused);
  boost::system::error_code error;
  if (config.client_address.empty()) {
    error = ListenOnAll(config.client_port, &acceptor);
  } else {
    // A numeric address, or a name of this machine.
    const auto found =
        LookUpOwnName("clientPortAddress", config.client_address, config.client_port, &error);
    if (error || found.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(config.file, ": clientPortAddress: \"", config.client_address,
                       "\" is neither an IP address nor a name that is known: ", error.message()));
    }
    error = ListenOn(found.front(), Families::kBoth, &acceptor);
  }
  if (!error) port_ = acceptor.local_endpoint(error).port();
  if (!error) acceptor.native_non_blocking(true, error);
  if (!error) socket_ = Descriptor(acceptor.release(error));
  return error ? CannotListen(config, error) : absl::OkStatus();
}

absl::Status ZkListener::Start() {
  if (absl::Status s = Listen(); !s.ok()) return s;
  const auto id = threads_[0]->poller().Add(socket_.number(), kAwaitsClients, this);
  if (!id.has_value()) {
    return CannotListen(frontend_->config(), {errno, boost::system::system_category()});
  }
  registration_ = *id;
  for (auto& thread : threads_) thread->Start();
  return absl::OkStatus();
}

void ZkListener::Stop() {
  for (auto& thread : threads_) thread->Stop();
  socket_.Close();
}

void ZkListener::OnReady(Poller::Readiness /*ready*/) {
  for (int i = 0; i < kAcceptedAtOnceMax; ++i) {
    tcp::endpoint remote;
    auto bytes = static_cast<socklen_t>(remote.capacity());
    Descriptor accepted(
        ::accept4(socket_.number(), remote.data(), &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted.is_open()) {
      remote.resize(bytes);
      threads_[next_thread_]->Adopt(std::move(accepted), remote);
      next_thread_ = (next_thread_ + 1) % threads_.size();
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return;
    // The process has most likely no free descriptors, so an immediate retry would fail too.
    spdlog::warn("a connection could not be accepted: {}",
                 boost::system::error_code(errno, boost::system::system_category()).message());
    Poller& poller = threads_[0]->poller();
    poller.SetInterest(registration_, {});
    poller.RunAt(Poller::Clock::now() + kAcceptPause,
                 [this, &poller] { poller.SetInterest(registration_, kAwaitsClients); });
    return;
  }
}

}  // namespace quorate::rpc::zk
