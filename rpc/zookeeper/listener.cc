#include "rpc/zookeeper/listener.h"

#include <spdlog/spdlog.h>

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
  boost::system::error_code error;
  if (config.client_address.empty()) {
    error = ListenOnAll(config.client_port, acceptor_.get());
    return error ? CannotListen(config, error) : absl::OkStatus();
  }
  // A numeric address, or a name of this machine.
  const auto found =
      LookUpOwnName("clientPortAddress", config.client_address, config.client_port, &error);
  if (error || found.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(config.file, ": clientPortAddress: \"", config.client_address,
                     "\" is neither an IP address nor a name that is known: ", error.message()));
  }
  error = ListenOn(found.front(), Families::kBoth, acceptor_.get());
  return error ? CannotListen(config, error) : absl::OkStatus();
}

absl::Status ZkListener::Start() {
  acceptor_ = std::make_unique<tcp::acceptor>(threads_[0]->context());
  accept_pause_ = std::make_unique<boost::asio::steady_timer>(threads_[0]->context());
  if (absl::Status s = Listen(); !s.ok()) return s;
  Accept();
  for (auto& thread : threads_) thread->Start();
  return absl::OkStatus();
}

void ZkListener::Stop() {
  for (auto& thread : threads_) thread->Stop();
}

void ZkListener::Accept() {
  acceptor_->async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
    if (!error) {
      threads_[next_thread_]->Adopt(std::move(socket));
      next_thread_ = (next_thread_ + 1) % threads_.size();
    } else if (error == boost::asio::error::operation_aborted) {
      return;
    } else {
      // Most likely out of descriptors: an immediate retry would fail too.
      spdlog::warn("a connection could not be accepted: {}", error.message());
      accept_pause_->expires_after(kAcceptPause);
      accept_pause_->async_wait([this](const boost::system::error_code& stopped) {
        if (!stopped) Accept();
      });
      return;
    }
    Accept();
  });
}

}  // namespace quorate::rpc::zk
