// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/io_thread.h"

#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "base/thread.h"
#include "rpc/audit/request_audit.h"
#include "rpc/frontend/authorization.h"
#include "rpc/frontend/client_identities.h"
#include "rpc/tls/names.h"
#include "rpc/tls/openssl.h"
#include "rpc/tls/subject.h"

namespace quorate::rpc::zk {
namespace {

using boost::asio::ip::tcp;

constexpr size_t kReceiveBytes = 256u << 10;
// Descriptors that are reserved for the segments of the log, the other servers and the
// administrator: one in kReservedPart of the limit, but at least kReservedDescriptorsMin.
constexpr int64_t kReservedPart = 8;
constexpr int64_t kReservedDescriptorsMin = 128;
// The first byte of a client that speaks TLS. A connect request begins with a zero, and a
// four-letter word with a letter.
constexpr char kTlsHandshakeRecord = 0x16;
// Connections whose clients have asked for nothing yet take at most this part of the descriptors.
constexpr int64_t kNewcomersPart = 2;
// Handshakes of TLS take at most this part of the memory. One takes so many bytes, rounded up.
constexpr uint64_t kHandshakesMemoryPart = 8;
constexpr uint64_t kBytesPerHandshake = 64u << 10;
// The least number of handshakes that a thread may have, however little memory there is.
constexpr size_t kHandshakesMin = 64;
// A handshake has at least kHandshakeTime before it is ended for one that waits, unless more than
// kWaitingPerHandshake wait for each handshake that the thread may have.
constexpr auto kHandshakeTime = std::chrono::milliseconds(250);
constexpr size_t kWaitingPerHandshake = 16;
constexpr size_t kSubjectBytesMax = ClientIdentities::kCredentialsBytesMax;
// A list of sockets is searched for entries that are over when it has twice as many as count, and so many
// more.
constexpr size_t kFormerKept = 1024;
constexpr auto kFailureLogPeriod = std::chrono::seconds(5);

// Returns the most clients that the limit of open files allows. The limit may change while the
// server runs.
int64_t ConnectionsMax(int64_t reserved_part = kReservedPart,
                       int64_t reserved_min = kReservedDescriptorsMin) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return INT64_MAX;
  const auto all = static_cast<int64_t>(limit.rlim_cur);
  return std::max<int64_t>(all - std::max(all / reserved_part, reserved_min), 1);
}

// Returns whether connections of all kinds take so many descriptors that half of those that are
// reserved are left. The kernel gives the lowest free number.
bool TakesReserve(int descriptor) {
  return descriptor >= ConnectionsMax(kReservedPart * 2, kReservedDescriptorsMin / 2);
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
  enum class Stage : uint8_t { kDetecting, kHandshake, kOpen };

  const Descriptor descriptor;
  Stage stage = Stage::kOpen;
  tls::Context::SslPtr ssl;  // null: no TLS
  std::string address;       // until stage is kOpen, of a socket that may use TLS
  Encryption encryption = Encryption::kNone;
  Poller::Clock::time_point started{};  // its handshake, and in which iteration
  uint64_t iteration = 0;
  uint16_t port = 0;
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

void IoThread::Start(const tls::CurrentContext* tls) {
  tls_ = tls;
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
    BeginWaitingHandshakes();
    if (std::exchange(iteration_ends_, false)) loop_.EndIteration();
    ++iteration_;
  }
  sockets_.clear();
  handshakes_.clear();
  handshake_order_.clear();
  waiting_.clear();
  newcomers_.clear();
  loop_.Stop();
}

void IoThread::Adopt(Descriptor socket, const tcp::endpoint& remote, Encryption encryption) {
  // The descriptor is shared because a task must be copyable.
  auto adopted = std::make_shared<Descriptor>(std::move(socket));
  poller_.Post(
      [this, adopted, remote, encryption] { Open(std::move(*adopted), remote, encryption); });
}

void IoThread::Open(Descriptor descriptor, const tcp::endpoint& remote, Encryption encryption) {
  const int one = 1;
  if (::setsockopt(descriptor.number(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) return;
  const std::string address = AddressOf(remote);
  if (encryption != Encryption::kTls) {
    Statistics& statistics = frontend_->statistics();
    const bool is_local = OriginOfAddress(address) == Principal::Origin::kLoopback;
    (is_local ? statistics.local_connections_without_tls
              : statistics.remote_connections_without_tls)
        .fetch_add(1, std::memory_order_relaxed);
  }
  if (!MakeRoomFor(address, TakesReserve(descriptor.number()))) return;
  auto opened = std::make_shared<Socket>(this, std::move(descriptor));
  if (encryption != Encryption::kNone) {
    if (!frontend_->AdmitOrRefuse(address)) return;
    opened->address = address;
    opened->port = remote.port();
    opened->encryption = encryption;
    waiting_.push_back(std::move(opened));
    frontend_->statistics().tls_handshakes_waiting.fetch_add(1);
    return BeginWaitingHandshakes();
  }
  if (!Register(*opened, address)) return;
  const std::optional<uint32_t> tag = loop_.Open(address, remote.port());
  if (!tag.has_value()) return poller_.Remove(opened->id);
  opened->tag = *tag;
  newcomers_.push_back(opened);
  sockets_[*tag] = std::move(opened);
}

bool IoThread::Register(Socket& socket, const std::string& address) {
  const auto id = poller_.Add(socket.descriptor.number(), socket.interest, &socket);
  if (!id.has_value()) {
    frontend_->Refuse(address,
                      "the system allows no process to wait for more sockets "
                      "(fs.epoll.max_user_watches)");
    return false;
  }
  socket.id = *id;
  return true;
}

size_t IoThread::NewcomersMax() const {
  const int64_t threads = std::max(frontend_->config().io_threads, 1);
  return static_cast<size_t>(std::max<int64_t>(ConnectionsMax() / kNewcomersPart / threads, 1));
}

bool IoThread::MakeRoomFor(const std::string& address, bool takes_reserve) {
  const int64_t max = ConnectionsMax();
  const size_t newcomers_max = NewcomersMax();
  ForgetFormerNewcomers();
  while (newcomer_count() >= newcomers_max && CloseOldestNewcomer()) {
  }
  const Statistics& statistics = frontend_->statistics();
  const int64_t open = statistics.connections() +
                       statistics.tls_handshakes.load(std::memory_order_relaxed) +
                       statistics.tls_handshakes_waiting.load(std::memory_order_relaxed);
  if ((open < max && !takes_reserve) || CloseOldestNewcomer()) return true;
  frontend_->Refuse(address,
                    absl::StrCat(open, " are open, and the limit of open files allows no more"));
  return false;
}

bool IoThread::CloseOldestNewcomer() {
  while (!newcomers_.empty()) {
    const std::shared_ptr<Socket> socket = newcomers_.front().lock();
    newcomers_.pop_front();
    if (socket == nullptr || !socket->open) continue;
    if (socket->stage == Socket::Stage::kOpen) {
      if (loop_.CloseNewcomer(socket->tag)) return true;
    } else if (handshakes_.contains(socket)) {
      frontend_->service().tenants().OnReached(Limit::kFirstRequest, nullptr, Poller::Clock::now());
      Drop(*socket, "newer connections need its place", DropReason::kReplaced);
      return true;
    }
  }
  return false;
}

void IoThread::ForgetFormerNewcomers() {
  if (newcomers_.size() < 2 * newcomer_count() + kFormerKept) return;
  std::erase_if(newcomers_, [this](const std::weak_ptr<Socket>& newcomer) {
    const std::shared_ptr<Socket> socket = newcomer.lock();
    return socket == nullptr || !socket->open ||
           (socket->stage == Socket::Stage::kOpen ? !loop_.IsNewcomer(socket->tag)
                                                  : !handshakes_.contains(socket));
  });
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
  int bytes = 0;
  const bool has_bytes = ::ioctl(sockets_.at(tag)->descriptor.number(), FIONREAD, &bytes) == 0;
  return has_bytes && !HasHungUp(tag) ? static_cast<size_t>(bytes) : 0;
}

bool IoThread::HasHungUp(uint32_t tag) {
  pollfd end{sockets_.at(tag)->descriptor.number(), POLLRDHUP, 0};
  return ::poll(&end, 1, 0) != 0;  // the end of the stream has come
}

void IoThread::OnReady(Socket& socket, Poller::Readiness ready) {
  if (socket.stage == Socket::Stage::kDetecting) return Detect(socket);
  if (socket.stage == Socket::Stage::kHandshake) return ContinueHandshake(socket);
  if (ready.writable) {
    socket.SetInterest({socket.interest.readable || socket.receives, false});
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
  if (socket.ssl != nullptr) return OnReadableTls(socket);
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
  if (socket.ssl != nullptr) return SendTls(socket, bytes);
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
  // Says goodbye if the socket takes it; an answer is not awaited.
  if (it->second->ssl != nullptr) SSL_shutdown(it->second->ssl.get());
  poller_.Remove(it->second->id);
  sockets_.erase(it);  // the running handler may still hold the socket
}

// --- Handshakes ----------------------------------------------------------------------------------

size_t IoThread::HandshakesMax() const {
  const uint64_t memory = frontend_->service().memory().limit();
  if (memory == 0) return SIZE_MAX;
  const auto threads = static_cast<uint64_t>(std::max(frontend_->config().io_threads, 1));
  return std::max<size_t>(memory / kHandshakesMemoryPart / kBytesPerHandshake / threads,
                          kHandshakesMin);
}

void IoThread::BeginWaitingHandshakes() {
  while (!waiting_.empty() && HasRoomForHandshake()) {
    const std::shared_ptr<Socket> next = std::move(waiting_.front());
    waiting_.pop_front();
    frontend_->statistics().tls_handshakes_waiting.fetch_sub(1);
    if (Register(*next, next->address)) {
      BeginHandshake(next);
    } else {
      frontend_->Release(next->address);
    }
  }
}

bool IoThread::HasRoomForHandshake() {
  const size_t max = HandshakesMax();
  if (handshakes_.size() < max) return true;
  const auto is_over = [this](const std::weak_ptr<Socket>& handshake) {
    const std::shared_ptr<Socket> socket = handshake.lock();
    return socket == nullptr || !handshakes_.contains(socket);
  };
  while (!handshake_order_.empty() && is_over(handshake_order_.front())) {
    handshake_order_.pop_front();
  }
  const std::shared_ptr<Socket> oldest = handshake_order_.front().lock();
  const auto ends = oldest->started + kHandshakeTime;
  const size_t waiting_max = std::min(max * kWaitingPerHandshake, NewcomersMax() / 2);
  if (waiting_.size() <= waiting_max) {
    // The thread looks again after its next event, or at this time.
    if (Poller::Clock::now() < ends) {
      if (std::exchange(waits_until_, ends) != ends) poller_.RunAt(ends, [] {});
      return false;
    }
    // A thread that was held up has to look at what has come before it ends anything. The timer may
    // be over already.
    if (iteration_ == oldest->iteration) {
      poller_.Wake();
      return false;
    }
  }
  frontend_->service().tenants().OnReached(Limit::kFirstRequest, nullptr, Poller::Clock::now());
  Drop(*oldest, "newer connections need its place", DropReason::kReplaced);
  return true;
}

void IoThread::BeginHandshake(const std::shared_ptr<Socket>& socket) {
  Statistics& statistics = frontend_->statistics();
  newcomers_.push_back(socket);
  handshakes_.insert(socket);
  if (handshake_order_.size() >= 2 * handshakes_.size() + kFormerKept) {
    std::erase_if(handshake_order_, [this](const std::weak_ptr<Socket>& handshake) {
      const std::shared_ptr<Socket> known = handshake.lock();
      return known == nullptr || !handshakes_.contains(known);
    });
  }
  socket->started = Poller::Clock::now();
  socket->iteration = iteration_;
  handshake_order_.push_back(socket);
  const int64_t max = frontend_->config().ssl_handshakes_max;
  if (statistics.tls_handshakes.fetch_add(1) >= max && max > 0) {
    statistics.tls_handshakes_refused.fetch_add(1);
    return Drop(*socket,
                "too many handshakes are under way (netty.server.outstandingHandshake.limit)");
  }
  const bool is_detected = socket->encryption == Encryption::kTls;
  socket->stage = Socket::Stage::kDetecting;
  if (is_detected) StartTls(*socket);
  const std::chrono::milliseconds handshake_limit(frontend_->config().first_request_timeout_ms);
  const auto limit =
      is_detected
          ? handshake_limit
          : std::chrono::milliseconds(frontend_->config().ssl_handshake_detection_timeout_ms);
  // A handshake that was detected late has the rest of the time of one that was not.
  for (const auto after : {limit, handshake_limit + limit}) {
    const bool is_last = after != limit || is_detected;
    if (is_last && handshake_limit.count() == 0) break;  // there is no limit
    poller_.RunAt(Poller::Clock::now() + after, [this, is_last, weak = std::weak_ptr(socket)] {
      const std::shared_ptr<Socket> waiting = weak.lock();
      if (waiting == nullptr || !handshakes_.contains(waiting)) return;
      if (is_last || waiting->stage == Socket::Stage::kDetecting) {
        Drop(*waiting,
             waiting->stage == Socket::Stage::kDetecting
                 ? "the client has sent nothing (ssl.handshakeDetectionTimeoutMillis)"
                 : "it took too long (limits.firstRequestTimeoutMs)",
             DropReason::kExpired);
      }
    });
    if (is_last) break;
  }
}

void IoThread::Detect(Socket& socket) {
  char first = 0;
  const ssize_t received = ::recv(socket.descriptor.number(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (received <= 0) return Drop(socket, /*why=*/"");  // such as a check of the port
  if (first != kTlsHandshakeRecord) return OpenConnection(socket);
  StartTls(socket);
  ContinueHandshake(socket);
}

void IoThread::StartTls(Socket& socket) {
  socket.stage = Socket::Stage::kHandshake;
  socket.ssl = tls_->Get()->NewServer();
  // Without memory, both fail, and so does the handshake.
  if (socket.ssl != nullptr) SSL_set_fd(socket.ssl.get(), socket.descriptor.number());
}

void IoThread::ContinueHandshake(Socket& socket) {
  if (socket.ssl == nullptr) return Drop(socket, "there is no memory");
  ERR_clear_error();
  const int result = SSL_accept(socket.ssl.get());
  if (result == 1) return OpenConnection(socket);
  switch (SSL_get_error(socket.ssl.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return socket.SetInterest({true, false});
    case SSL_ERROR_WANT_WRITE:
      return socket.SetInterest({false, true});
    default:
      return Drop(socket, tls::FailureOf(socket.ssl.get()));
  }
}

void IoThread::OpenConnection(Socket& socket) {
  std::string subject;
  if (socket.ssl != nullptr) {
    const tls::CertificatePtr certificate(SSL_get1_peer_certificate(socket.ssl.get()));
    if (certificate != nullptr) subject = tls::SubjectOf(certificate.get());
    if (subject.size() > kSubjectBytesMax) return Drop(socket, "its certificate's subject is long");
    if (certificate != nullptr && frontend_->config().checks_client_addresses()) {
      // Without the scope of a link-local address, which no certificate can have.
      const std::string host = socket.address.substr(0, socket.address.find('%'));
      const std::string problem = tls::NameProblem(certificate.get(), host);
      if (!problem.empty()) {
        return Drop(socket, problem + " (ssl.clientHostnameVerification)");
      }
    }
  }
  const std::shared_ptr<Socket> kept = socket.shared_from_this();
  handshakes_.erase(kept);
  frontend_->statistics().tls_handshakes.fetch_sub(1);
  socket.stage = Socket::Stage::kOpen;
  socket.SetInterest({true, false});
  socket.tag = loop_.OpenAdmitted(std::move(socket.address), socket.port, subject,
                                  /*is_secure=*/socket.ssl != nullptr);
  sockets_[socket.tag] = kept;
}

void IoThread::Drop(Socket& socket, std::string_view why, DropReason reason) {
  const std::shared_ptr<Socket> kept = socket.shared_from_this();
  Statistics& statistics = frontend_->statistics();
  statistics.tls_handshakes.fetch_sub(1);
  frontend_->Release(socket.address);
  poller_.Remove(socket.id);
  handshakes_.erase(kept);
  if (socket.stage != Socket::Stage::kDetecting) statistics.tls_handshakes_failed.fetch_add(1);
  const bool has_failed =
      reason == DropReason::kFailed && socket.stage == Socket::Stage::kHandshake;
  if (has_failed) loop_.statistics().auth_failures.Add(1);
  if (reason == DropReason::kExpired) loop_.statistics().handshakes_timed_out.Add(1);
  if (why.empty()) return;
  // The rates are limited, because a client whose certificate does not fit tries again and again. Those
  // of the two logs are counted apart, so that clients that send nothing do not keep failures out of
  // the audit log.
  const auto now = Poller::Clock::now();
  if (now - drop_logged_ >= kFailureLogPeriod) {
    drop_logged_ = now;
    spdlog::info("the TLS handshake with {} failed: {}", socket.address, why);
  }
  RequestAudit* audit = frontend_->request_audit();
  if (audit == nullptr || !has_failed || now - failure_recorded_ < kFailureLogPeriod) return;
  failure_recorded_ = now;
  audit->OnFailedAuthentication(socket.address, absl::StrCat("x509: ", ToAbsl(why)));
}

// --- Bytes with TLS ------------------------------------------------------------------------------

void IoThread::OnReadableTls(Socket& socket) {
  size_t received = 0;
  bool has_ended = false;
  // Each read takes a whole record. The rest of a record would wait inside OpenSSL, and the poller
  // would not report it.
  while (receive_buffer_.size() - received >= SSL3_RT_MAX_PLAIN_LENGTH) {
    ERR_clear_error();
    size_t count = 0;
    const int result = SSL_read_ex(socket.ssl.get(), receive_buffer_.data() + received,
                                   receive_buffer_.size() - received, &count);
    received += count;
    if (result == 1) continue;
    const int error = SSL_get_error(socket.ssl.get(), result);
    has_ended = error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE;
    // OpenSSL reads no more before it has sent an answer of its own, such as that to new keys.
    if (error == SSL_ERROR_WANT_WRITE) socket.SetInterest({false, true});
    break;
  }
  if (received == 0) {
    if (has_ended) loop_.OnClosed(socket.tag);
    return;
  }
  // The loop answers these bytes before it learns of the end of the stream. The next read finds the
  // end again. The shutdown makes the socket readable for that read, because a client may announce
  // the end of TLS and leave its socket open.
  if (has_ended) ::shutdown(socket.descriptor.number(), SHUT_RD);
  socket.receives = false;
  loop_.OnBytes(socket.tag, std::string_view(receive_buffer_.data(), received));
}

std::optional<size_t> IoThread::SendTls(Socket& socket, std::string_view bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    ERR_clear_error();
    size_t count = 0;
    const int result =
        SSL_write_ex(socket.ssl.get(), bytes.data() + sent, bytes.size() - sent, &count);
    if (result == 1) {
      sent += count;
      continue;
    }
    const int error = SSL_get_error(socket.ssl.get(), result);
    if (error == SSL_ERROR_WANT_WRITE) {
      // The next call has the same bytes, and maybe more behind them, as OpenSSL requires.
      socket.SetInterest({socket.interest.readable, true});
      break;
    }
    ::shutdown(socket.descriptor.number(), SHUT_RDWR);
    return std::nullopt;
  }
  return sent;
}

}  // namespace quorate::rpc::zk
