#include "rpc/zookeeper/io_thread.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <string>
#include <utility>

#include "base/thread.h"

namespace quorate::rpc::zk {
namespace {

using boost::asio::ip::tcp;

constexpr size_t kReceiveBytes = 256u << 10;
// Descriptors reserved for the segments of the log, the other servers and the administrator: one in
// kReservedPart of the limit, and at least kReservedDescriptorsMin.
constexpr int64_t kReservedPart = 8;
constexpr int64_t kReservedDescriptorsMin = 128;

// Returns how many clients the limit of open files leaves room for. The limit may change while the
// server runs.
int64_t ConnectionsMax() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return INT64_MAX;
  const auto all = static_cast<int64_t>(limit.rlim_cur);
  return std::max<int64_t>(all - std::max(all / kReservedPart, kReservedDescriptorsMin), 1);
}

// Returns the address of a client. An IPv4 client has the same address through an IPv6 socket.
std::string AddressOf(const tcp::endpoint& remote) {
  const boost::asio::ip::address address = remote.address();
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address.to_string();
  return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6()).to_string();
}

}  // namespace

struct IoThread::Socket {
  explicit Socket(tcp::socket s) : socket(std::move(s)) {}

  tcp::socket socket;
  uint32_t tag = 0;
  bool open = true;  // handlers may run after Close
};

IoThread::IoThread(ZkFrontend* frontend)
    : frontend_(frontend), receive_buffer_(kReceiveBytes), loop_(frontend, this) {}

IoThread::~IoThread() { Stop(); }

void IoThread::Start() {
  StartTimer(ConnectionLoop::kTimerPeriod);
  thread_ = StartThread("zk-io", [this] { Run(); });
}

void IoThread::Stop() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

void IoThread::Run() {
  context_.run();
  for (auto& [tag, socket] : sockets_) {
    boost::system::error_code ignored;
    socket->socket.close(ignored);
  }
  loop_.Stop();
}

void IoThread::StartTimer(std::chrono::milliseconds period) {
  timer_.expires_after(period);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    StartTimer(loop_.OnTimer());
  });
}

void IoThread::Adopt(tcp::socket accepted) {
  // The descriptor moves from the acceptor's event loop to that of this thread.
  const tcp::endpoint::protocol_type protocol = accepted.local_endpoint().protocol();
  boost::system::error_code error;
  const int descriptor = accepted.release(error);
  if (error) return;
  boost::asio::post(context_, [this, descriptor, protocol] {
    tcp::socket socket(context_);
    boost::system::error_code problem;
    socket.assign(protocol, descriptor, problem);
    if (problem) {
      ::close(descriptor);
      return;
    }
    const tcp::endpoint remote = socket.remote_endpoint(problem);
    if (!problem) socket.set_option(tcp::no_delay(true), problem);
    if (!problem) socket.non_blocking(true, problem);
    if (problem) return;  // the client is gone already
    const std::string address = AddressOf(remote);
    if (!HasRoomFor(address)) return;
    const std::optional<uint32_t> tag = loop_.Open(address, remote.port());
    if (!tag.has_value()) return;
    auto adopted = std::make_shared<Socket>(std::move(socket));
    adopted->tag = *tag;
    sockets_[*tag] = adopted;
    AwaitReadable(adopted);
  });
}

bool IoThread::HasRoomFor(const std::string& address) {
  const int64_t open = frontend_->statistics().connections();
  if (open < ConnectionsMax()) return true;
  frontend_->Refuse(address,
                    fmt::format("{} are open, and the limit of open files allows no more", open));
  return false;
}

// --- Sockets -------------------------------------------------------------------------------------

void IoThread::Wake() {
  boost::asio::post(context_, [this] { loop_.OnWake(); });
}

// Runs after the handlers of all sockets that are ready now.
void IoThread::EndIterationSoon() {
  boost::asio::post(context_, [this] { loop_.EndIteration(); });
}

void IoThread::Receive(uint32_t tag) { AwaitReadable(sockets_.at(tag)); }

size_t IoThread::WaitingBytes(uint32_t tag) {
  const int descriptor = sockets_.at(tag)->socket.native_handle();
  pollfd end{descriptor, POLLRDHUP, 0};
  int bytes = 0;
  // Waiting bytes followed by the end of the stream: the client has hung up.
  const bool is_open = ::poll(&end, 1, 0) == 0;
  return is_open && ::ioctl(descriptor, FIONREAD, &bytes) == 0 ? static_cast<size_t>(bytes) : 0;
}

void IoThread::AwaitReadable(const std::shared_ptr<Socket>& socket) {
  socket->socket.async_wait(tcp::socket::wait_read,
                            [this, socket](const boost::system::error_code& error) {
                              if (!error && socket->open) OnReadable(socket);
                            });
}

void IoThread::OnReadable(const std::shared_ptr<Socket>& socket) {
  const ssize_t received = ::recv(socket->socket.native_handle(), receive_buffer_.data(),
                                  receive_buffer_.size(), MSG_DONTWAIT);
  if (received > 0) {
    loop_.OnBytes(socket->tag,
                  std::string_view(receive_buffer_.data(), static_cast<size_t>(received)));
  } else if (received < 0 && (errno == EAGAIN || errno == EINTR)) {
    AwaitReadable(socket);
  } else {
    loop_.OnClosed(socket->tag);
  }
}

std::optional<size_t> IoThread::Send(uint32_t tag, std::string_view bytes) {
  const std::shared_ptr<Socket>& socket = sockets_.at(tag);
  size_t sent_before = 0;
  while (sent_before < bytes.size()) {
    const ssize_t sent = ::send(socket->socket.native_handle(), bytes.data() + sent_before,
                                bytes.size() - sent_before, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      sent_before += static_cast<size_t>(sent);
    } else if (errno == EAGAIN) {
      AwaitWritable(socket);
      break;
    } else if (errno != EINTR) {
      // Received bytes can still be read, followed by the end of the stream.
      boost::system::error_code ignored;
      socket->socket.shutdown(tcp::socket::shutdown_both, ignored);
      return std::nullopt;
    }
  }
  return sent_before;
}

void IoThread::AwaitWritable(const std::shared_ptr<Socket>& socket) {
  socket->socket.async_wait(tcp::socket::wait_write,
                            [this, socket](const boost::system::error_code& error) {
                              if (!error && socket->open) loop_.OnWritable(socket->tag);
                            });
}

void IoThread::Close(uint32_t tag) {
  auto it = sockets_.find(tag);
  it->second->open = false;
  boost::system::error_code ignored;
  it->second->socket.close(ignored);
  sockets_.erase(it);  // handlers may still hold it
}

}  // namespace quorate::rpc::zk
