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
#include "rpc/zookeeper/client_sasl.h"
#include "rpc/zookeeper/client_tls.h"

namespace quorate::rpc::zk {
namespace {

using boost::asio::ip::tcp;

constexpr auto kAcceptPause = std::chrono::seconds(1);
// The most connections that are accepted before the thread serves its clients again.
constexpr int kAcceptedAtOnceMax = 64;

constexpr Poller::Readiness kAwaitsClients = {.readable = true, .writable = false};

absl::Status CannotListen(const std::string& address, uint16_t port,
                          const boost::system::error_code& error) {
  return absl::UnavailableError(absl::StrCat("cannot listen for clients on ",
                                             address.empty() ? "*" : address, ":", port, ": ",
                                             error.message()));
}

}  // namespace

ZkListener::ZkListener(ZkFrontend* frontend) : frontend_(frontend) {
  for (int i = 0; i < frontend_->config().io_threads; ++i) {
    threads_.push_back(std::make_unique<IoThread>(frontend_));
  }
  ASSERT(!threads_.empty());
}

ZkListener::~ZkListener() { Stop(); }

absl::Status ZkListener::Listen(const char* name, const std::string& address, uint16_t number,
                                Port* port) {
  boost::asio::io_context unused;  // nothing is awaited in it
  tcp::acceptor acceptor(unused);
  boost::system::error_code error;
  if (address.empty()) {
    error = ListenOnAll(number, &acceptor);
  } else {
    // A numeric address, or a name of this machine.
    const auto found = LookUpOwnName(name, address, number, &error);
    if (error || found.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(frontend_->config().file, ": ", name, ": \"", address,
                       "\" is neither an IP address nor a name that is known: ", error.message()));
    }
    error = ListenOn(found.front(), Families::kBoth, &acceptor);
  }
  if (!error) port->port = acceptor.local_endpoint(error).port();
  if (!error) acceptor.native_non_blocking(true, error);
  if (!error) port->socket = Descriptor(acceptor.release(error));
  return error ? CannotListen(address, number, error) : absl::OkStatus();
}

absl::Status ZkListener::Register(Port* port) {
  if (!port->socket.is_open()) return absl::OkStatus();
  port->listener = this;
  const auto id = threads_[0]->poller().Add(port->socket.number(), kAwaitsClients, port);
  if (!id.has_value()) {
    return CannotListen("", port->port, {errno, boost::system::system_category()});
  }
  port->registration = *id;
  return absl::OkStatus();
}

absl::Status ZkListener::Start() {
  const Config& config = frontend_->config();
  if (config.has_client_tls()) {
    auto tls = tls::CurrentContext::Create(ClientTlsOptions(config), config.client_cert_reload);
    if (!tls.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(config.file, ": ", tls.status().message()));
    }
    tls_ = *std::move(tls);
  }
  auto sasl = MakeAuthenticator(config);
  if (!sasl.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(config.file, ": ", sasl.status().message()));
  }
  sasl_ = *std::move(sasl);
  frontend_->SetAuthenticator(sasl_.get());
  // Without a secure port, a port of 0 leaves the choice to the system.
  if (config.client_port != 0 || config.secure_client_port == 0) {
    plain_.encryption = config.client_port_unification ? IoThread::Encryption::kEither
                                                       : IoThread::Encryption::kNone;
    absl::Status s =
        Listen("clientPortAddress", config.client_address, config.client_port, &plain_);
    if (!s.ok()) return s;
  }
  if (config.secure_client_port != 0) {
    secure_.encryption = IoThread::Encryption::kTls;
    absl::Status s = Listen("secureClientPortAddress", config.secure_client_address,
                            config.secure_client_port, &secure_);
    if (!s.ok()) return s;
  }
  for (Port* port : {&plain_, &secure_}) {
    if (absl::Status s = Register(port); !s.ok()) return s;
  }
  for (auto& thread : threads_) thread->Start(tls_.get());
  return absl::OkStatus();
}

void ZkListener::Stop() {
  for (auto& thread : threads_) thread->Stop();
  plain_.socket.Close();
  secure_.socket.Close();
}

void ZkListener::Accept(Port& port) {
  for (int i = 0; i < kAcceptedAtOnceMax; ++i) {
    tcp::endpoint remote;
    auto bytes = static_cast<socklen_t>(remote.capacity());
    Descriptor accepted(
        ::accept4(port.socket.number(), remote.data(), &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted.is_open()) {
      remote.resize(bytes);
      threads_[next_thread_]->Adopt(std::move(accepted), remote, port.encryption);
      next_thread_ = (next_thread_ + 1) % threads_.size();
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return;
    // The process has most likely no free descriptors, so an immediate retry would fail too.
    spdlog::warn("a connection could not be accepted: {}",
                 boost::system::error_code(errno, boost::system::system_category()).message());
    Poller& poller = threads_[0]->poller();
    poller.SetInterest(port.registration, {});
    poller.RunAt(Poller::Clock::now() + kAcceptPause,
                 [&port, &poller] { poller.SetInterest(port.registration, kAwaitsClients); });
    return;
  }
}

}  // namespace quorate::rpc::zk
