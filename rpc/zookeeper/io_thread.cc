// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/io_thread.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/thread.h"

namespace quorate::rpc::zk {
namespace {

using boost::asio::ip::tcp;

constexpr size_t kReceiveBytes = 256u << 10;
// Descriptors that are reserved for the segments of the log, the other servers and the
// administrator: one in kReservedPart of the limit, but at least kReservedDescriptorsMin.
constexpr int64_t kReservedPart = 8;
constexpr int64_t kReservedDescriptorsMin = 128;

// Returns the most clients that the limit of open files allows. The limit may change while the
// server runs.
int64_t ConnectionsMax() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return INT64_MAX;
  const auto all = static_cast<int64_t>(limit.rlim_cur);
  return std::max<int64_t>(all - std::max(all / kReservedPart, kReservedDescriptorsMin), 1);
}

// Returns the address of a client. An IPv4 client that came over an IPv6 socket has its IPv4
// address.
std::string AddressOf(const tcp::endpoint& remote) {
  const boost::asio::ip::address address = remote.address();
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address.to_string();
  return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6()).to_string();
}

}  // namespace

struct IoThread::Socket : Poller::Handler, std::enable_shared_from_this<Socket> {
  Socket(IoThread* the_thread, Descriptor the_descriptor)
      : thread(the_thread), descriptor(std::move(the_descriptor)) {}

  void OnReady(Poller::Readiness ready) override {
    const std::shared_ptr<Socket> self = shared_from_this();  // the loop may close the socket
    thread->OnReady(*self, ready);
  }
  void SetInterest(Poller::Readiness wanted) {
    interest = wanted;
    thread->poller_.SetInterest(id, wanted);
  }

  IoThread* const thread;
  const Descriptor descriptor;
  uint32_t tag = 0;
  Poller::Id id{};
  Poller::Readiness interest = {.readable = true, .writable = false};
  // Whether the loop waits for bytes. While it does not, `interest` may still contain `readable`,
  // because most often the loop waits for bytes again before any come.
  bool receives = true;
  bool open = true;
};

IoThread::IoThread(ZkFrontend* frontend)
    : frontend_(frontend), receive_buffer_(kReceiveBytes), loop_(frontend, this) {}

IoThread::~IoThread() { Stop(); }

void IoThread::Start() {
  thread_ = StartThread("zk-io", [this] { Run(); });
}

void IoThread::Stop() {
  stops_ = true;
  poller_.Wake();
  if (thread_.joinable()) thread_.join();
}

void IoThread::Run() {
  auto next_timer = Poller::Clock::now() + ConnectionLoop::kTimerPeriod;
  while (!stops_) {
    const bool has_work = iteration_ends_ || is_woken_;
    poller_.Poll(has_work ? Poller::Clock::time_point::min() : next_timer);
    if (is_woken_.exchange(false)) loop_.OnWake();
    const auto now = Poller::Clock::now();
    if (now >= next_timer) next_timer = now + loop_.OnTimer();
    if (std::exchange(iteration_ends_, false)) loop_.EndIteration();
  }
  sockets_.clear();
  loop_.Stop();
}

void IoThread::Adopt(Descriptor socket, const tcp::endpoint& remote) {
  // The descriptor is shared because a task must be copyable.
  auto adopted = std::make_shared<Descriptor>(std::move(socket));
  poller_.Post([this, adopted, remote] { Open(std::move(*adopted), remote); });
}

void IoThread::Open(Descriptor descriptor, const tcp::endpoint& remote) {
  const int one = 1;
  if (::setsockopt(descriptor.number(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) return;
  const std::string address = AddressOf(remote);
  if (!HasRoomFor(address)) return;
  auto opened = std::make_shared<Socket>(this, std::move(descriptor));
  const auto id = poller_.Add(opened->descriptor.number(), opened->interest, opened.get());
  if (!id.has_value()) {
    frontend_->Refuse(address,
                      "the system allows no process to wait for more sockets "
                      "(fs.epoll.max_user_watches)");
    return;
  }
  const std::optional<uint32_t> tag = loop_.Open(address, remote.port());
  if (!tag.has_value()) return poller_.Remove(*id);
  opened->id = *id;
  opened->tag = *tag;
  sockets_[*tag] = std::move(opened);
}

bool IoThread::HasRoomFor(const std::string& address) {
  const int64_t open = frontend_->statistics().connections();
  if (open < ConnectionsMax()) return true;
  frontend_->Refuse(address,
                    absl::StrCat(open, " are open, and the limit of open files allows no more"));
  return false;
}

// --- Sockets -------------------------------------------------------------------------------------

void IoThread::Wake() {
  is_woken_ = true;
  poller_.Wake();
}

void IoThread::Receive(uint32_t tag) {
  Socket& socket = *sockets_.at(tag);
  socket.receives = true;
  if (!socket.interest.readable) socket.SetInterest({true, socket.interest.writable});
}

size_t IoThread::WaitingBytes(uint32_t tag) {
  const int descriptor = sockets_.at(tag)->descriptor.number();
  pollfd end{descriptor, POLLRDHUP, 0};
  int bytes = 0;
  // If the end of the stream has come after the waiting bytes, the client has hung up.
  const bool is_open = ::poll(&end, 1, 0) == 0;
  return is_open && ::ioctl(descriptor, FIONREAD, &bytes) == 0 ? static_cast<size_t>(bytes) : 0;
}

void IoThread::OnReady(Socket& socket, Poller::Readiness ready) {
  if (ready.writable) {
    socket.SetInterest({socket.interest.readable, false});
    loop_.OnWritable(socket.tag);
  }
  if (!ready.readable || !socket.open) return;
  if (socket.receives) {
    OnReadable(socket);
  } else {
    socket.SetInterest({false, socket.interest.writable});
  }
}

void IoThread::OnReadable(Socket& socket) {
  const ssize_t received = ::recv(socket.descriptor.number(), receive_buffer_.data(),
                                  receive_buffer_.size(), MSG_DONTWAIT);
  if (received > 0) {
    socket.receives = false;
    loop_.OnBytes(socket.tag,
                  std::string_view(receive_buffer_.data(), static_cast<size_t>(received)));
  } else if (received == 0 || (errno != EAGAIN && errno != EINTR)) {
    loop_.OnClosed(socket.tag);
  }
}

std::optional<size_t> IoThread::Send(uint32_t tag, std::string_view bytes) {
  Socket& socket = *sockets_.at(tag);
  size_t sent_before = 0;
  while (sent_before < bytes.size()) {
    const ssize_t sent = ::send(socket.descriptor.number(), bytes.data() + sent_before,
                                bytes.size() - sent_before, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      sent_before += static_cast<size_t>(sent);
    } else if (errno == EAGAIN) {
      socket.SetInterest({socket.interest.readable, true});
      break;
    } else if (errno != EINTR) {
      // After the shutdown, received bytes can still be read, and then the end of the stream.
      ::shutdown(socket.descriptor.number(), SHUT_RDWR);
      return std::nullopt;
    }
  }
  return sent_before;
}

void IoThread::Close(uint32_t tag) {
  const auto it = sockets_.find(tag);
  it->second->open = false;
  poller_.Remove(it->second->id);
  sockets_.erase(it);  // the running handler may still hold the socket
}

}  // namespace quorate::rpc::zk
