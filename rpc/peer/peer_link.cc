// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/peer_link.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/random.h"
#include "base/secrets.h"
#include "base/thread.h"
#include "rpc/peer/peer_socket.h"
#include "rpc/tls/names.h"

namespace quorate::rpc {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr auto kReconnectAfter = std::chrono::milliseconds(60);
constexpr auto kAttemptTimeout = std::chrono::seconds(2);

constexpr Poller::Readiness kReadable = {.readable = true, .writable = false};
constexpr Poller::Readiness kWritable = {.readable = false, .writable = true};
constexpr Poller::Readiness kReadableAndWritable = {.readable = true, .writable = true};

// The limit of the text of a reason that another server sent.
constexpr size_t kReasonBytesMax = 1024;

// Returns the error with which a connection attempt has ended; none if it is connected.
error_code ConnectError(int descriptor) {
  int error = 0;
  socklen_t bytes = sizeof error;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) return LastError();
  return {error, boost::system::system_category()};
}

// Returns the reason that another server sent, fit for the log: the sender may be anybody.
std::string ReasonText(const std::string& reason) {
  std::string text = reason.substr(0, kReasonBytesMax);
  std::ranges::replace_if(
      text, [](char c) { return !absl::ascii_isprint(static_cast<unsigned char>(c)); }, '?');
  return text;
}

}  // namespace

PeerLink::PeerLink(Poller* poller, consensus::MemberId self, uint64_t process,
                   consensus::MemberId peer, PeerAddress address, const PeerSecurity* security,
                   PeerHandler* handler)
    : poller_(*poller),
      self_(self),
      process_(process),
      peer_(peer),
      address_(std::move(address)),
      security_(*security),
      handler_(handler) {
  error_code is_name;
  const auto numeric = boost::asio::ip::make_address(address_.host, is_name);
  if (!is_name) endpoints_.emplace_back(numeric, address_.port);
}

void PeerLink::SetClusterId(const std::string& cluster_id) {
  MutexLock lock(&mutex_);
  cluster_id_ = cluster_id;
}

bool PeerLink::IsSending() const {
  MutexLock lock(&mutex_);
  return connection_ != nullptr && connection_->is_sending;
}

std::optional<PeerLink::End> PeerLink::ConnectedTo() const {
  MutexLock lock(&mutex_);
  return connection_ == nullptr ? std::nullopt : std::optional(connected_to_);
}

std::string PeerLink::Problem() const {
  MutexLock lock(&mutex_);
  if (connection_ != nullptr || problem_.empty()) return "";
  return absl::StrCat(address_.ToString(), ": ", problem_);
}

int64_t PeerLink::DownForMs(Clock::time_point now) const {
  MutexLock lock(&mutex_);
  if (connection_ != nullptr) return 0;
  return std::chrono::duration_cast<std::chrono::milliseconds>(now - down_since_).count();
}

uint32_t PeerLink::ReceiverVersion() const {
  MutexLock lock(&mutex_);
  return connection_ != nullptr ? receiver_version_ : 0;
}

void PeerLink::Tick(Clock::time_point now) {
  if (is_stopped_) return;
  if (lookup_ != nullptr && lookup_->is_done) TakeFound();
  if (!is_busy_ && now >= next_attempt_) {
    LookUp();
    if (!endpoints_.empty()) ConnectTo(endpoints_[next_endpoint_++ % endpoints_.size()]);
  }
  if (attempt_ != nullptr && now >= attempt_ends_) Close(attempt_, "no answer");
}

bool PeerLink::IsAt(const std::string& host) const {
  return std::ranges::any_of(endpoints_, [&](const tcp::endpoint& endpoint) {
    return HostText(endpoint.address()) == host;
  });
}

void PeerLink::Stop() {
  is_stopped_ = true;
  std::shared_ptr<Connection> connection = attempt_;
  if (connection == nullptr) {
    MutexLock lock(&mutex_);
    connection = connection_;
  }
  if (connection != nullptr) Close(connection, "this server stops its links");
}

// --- Connecting ----------------------------------------------------------------------------------

void PeerLink::LookUp() {
  error_code is_name;
  boost::asio::ip::make_address(address_.host, is_name);
  if (!is_name || lookup_ != nullptr) return;
  lookup_ = std::make_shared<Lookup>();
  StartThread("peer-lookup", [lookup = lookup_, address = address_] {
    error_code error;
    boost::asio::io_context own;
    tcp::resolver resolver(own);
    const auto found = resolver.resolve(address.host, std::to_string(address.port), error);
    lookup->found.assign(found.begin(), found.end());
    if (error) lookup->problem = error.message();
    lookup->is_done = true;
  }).detach();
}

void PeerLink::TakeFound() {
  const std::shared_ptr<Lookup> lookup = std::exchange(lookup_, nullptr);
  if (!lookup->found.empty()) {
    endpoints_ = lookup->found;
    return;
  }
  {
    MutexLock lock(&mutex_);
    problem_ = absl::StrCat("the host is not found: ", lookup->problem);
  }
  if (std::exchange(logged_problem_, lookup->problem) != lookup->problem) {
    spdlog::error("the host {} of server {} is not found: {}", address_.host, peer_.value(),
                  lookup->problem);
  }
}

void PeerLink::ConnectTo(const tcp::endpoint& endpoint) {
  is_busy_ = true;
  attempt_ends_ = Clock::now() + kAttemptTimeout;
  const int family = endpoint.protocol().family();
  attempt_ = std::make_shared<Connection>(
      this, Descriptor(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
  const int descriptor = attempt_->stream.descriptor();
  const auto bytes = static_cast<socklen_t>(endpoint.size());
  if (descriptor < 0 ||
      (::connect(descriptor, endpoint.data(), bytes) != 0 && errno != EINPROGRESS)) {
    return Close(attempt_, LastError().message());
  }
  const auto registration = poller_.Add(descriptor, kWritable, attempt_.get());
  if (!registration.has_value()) return Close(attempt_, LastError().message());
  attempt_->registration = *registration;
  attempt_->is_registered = true;
}

void PeerLink::OnReady(const std::shared_ptr<Connection>& connection, Poller::Readiness ready) {
  if (connection->stage == Stage::kConnecting) return OnConnected(connection);
  if (connection->stage == Stage::kHandshake) return ContinueHandshake(connection);
  if (ready.writable) {
    poller_.SetInterest(connection->registration, kReadable);
    SendPending(connection);
  }
  if (ready.readable && !connection->is_closed) ReadAnswer(connection);
}

void PeerLink::OnConnected(const std::shared_ptr<Connection>& connection) {
  const int descriptor = connection->stream.descriptor();
  error_code error = ConnectError(descriptor);
  if (!error) error = ConfigurePeerSocket(descriptor);
  if (error) return Close(connection, error.message());
  const tcp::endpoint local = OwnEnd(descriptor, &error);
  if (error || local == OtherEnd(descriptor, &error)) {
    // TCP can connect a socket to itself if no process listens on the port (simultaneous open).
    return Close(connection, "it is ourselves");
  }
  poller_.SetInterest(connection->registration, kReadable);
  if (!security_.connects_with_tls) return SendHello(connection);
  connection->stage = Stage::kHandshake;
  connection->stream.StartTls(security_.tls->Get()->NewClient(address_.host));
  ContinueHandshake(connection);
}

void PeerLink::ContinueHandshake(const std::shared_ptr<Connection>& connection) {
  PeerStream& stream = connection->stream;
  switch (stream.Handshake()) {
    case PeerStream::Progress::kBlocked:
      return poller_.SetInterest(connection->registration,
                                 stream.has_unsent() ? kReadableAndWritable : kReadable);
    case PeerStream::Progress::kEnded: {
      const std::string problem =
          "closed by it in the handshake of TLS (does it take TLS from servers: sslQuorum or "
          "portUnification?)";
      LogProblem(problem);
      return Close(connection, problem);
    }
    case PeerStream::Progress::kFailed: {
      const std::string failure = stream.Failure();
      const std::string problem =
          absl::StrCat("the handshake of TLS failed: ", failure,
                       absl::StrContains(failure, "wrong version number")
                           ? " (does it take TLS from servers: sslQuorum or portUnification?)"
                           : "");
      LogProblem(problem);
      return Close(connection, problem);
    }
    case PeerStream::Progress::kDone:
      break;
  }
  const tls::CertificatePtr certificate = stream.PeerCertificate();
  const std::string problem =
      security_.checks_names ? tls::NameProblem(certificate.get(), address_.host) : "";
  if (!problem.empty()) {
    const std::string with_key = absl::StrCat(problem, " (ssl.quorum.hostnameVerification)");
    LogProblem(with_key);
    return Close(connection, with_key);
  }
  poller_.SetInterest(connection->registration, kReadable);
  SendHello(connection);
}

void PeerLink::SendHello(const std::shared_ptr<Connection>& connection) {
  connection->stage = Stage::kGreeting;
  Hello& hello = connection->greeting.hello;
  hello = {kPeerProtocolVersion, self_, peer_, "", kPeerProtocolNewest, process_};
  if (!security_.secret.empty()) hello.nonce = RandomBytes::System()->Make(kNonceBytes);
  {
    MutexLock lock(&mutex_);
    hello.cluster_id = cluster_id_;
  }
  SendGreeting(connection, [&](SendQueue* queue) { queue->AddHello(hello); });
  if (!connection->is_closed && connection->stream.has_received()) ReadAnswer(connection);
}

template <class Add>
void PeerLink::SendGreeting(const std::shared_ptr<Connection>& connection, Add add) {
  {
    MutexLock lock(&mutex_);
    add(&connection->queue);
    if (std::exchange(connection->is_sending, true)) return;
  }
  SendPending(connection);
}

void PeerLink::BeginAgainLater() {
  is_busy_ = false;
  next_attempt_ = Clock::now() + kReconnectAfter;
}

void PeerLink::Close(std::shared_ptr<Connection> connection, const std::string& why) {
  if (std::exchange(connection->is_closed, true)) return;
  if (attempt_ == connection) attempt_ = nullptr;
  bool was_up;
  {
    MutexLock lock(&mutex_);
    problem_ = why;
    was_up = connection_ == connection;
    if (was_up) {
      connection_ = nullptr;
      down_since_ = Clock::now();
    }
  }
  if (std::exchange(connection->is_registered, false)) poller_.Remove(connection->registration);
  // The descriptor is closed when the last reference to the connection is dropped.
  connection->stream.Shutdown();
  if (was_up) {
    spdlog::info("connection to server {} at {} lost: {}", peer_.value(), address_.ToString(), why);
    handler_->OnPeerDown(peer_);
  }
  BeginAgainLater();
}

void PeerLink::CloseLater(std::shared_ptr<Connection> connection, const std::string& why) {
  poller_.Post([self = shared_from_this(), connection = std::move(connection), why] {
    self->Close(connection, why);
  });
}

// --- What the peer answers -----------------------------------------------------------------------

void PeerLink::ReadAnswer(const std::shared_ptr<Connection>& connection) {
  PeerStream& stream = connection->stream;
  do {
    const PeerStream::Transfer received = stream.Receive(connection->answers.Space());
    switch (received.progress) {
      case PeerStream::Progress::kDone:
        connection->answers.Added(received.bytes);
        OnAnswers(connection);
        break;
      case PeerStream::Progress::kBlocked:
        return;
      case PeerStream::Progress::kEnded: {
        if (connection->stage != Stage::kGreeting || stream.has_tls()) {
          return Close(connection, "closed by it");
        }
        const std::string problem =
            "closed by it without an answer (does it take only TLS from servers: sslQuorum?)";
        LogProblem(problem);
        return Close(connection, problem);
      }
      case PeerStream::Progress::kFailed: {
        const std::string problem = stream.Failure();
        // With TLS 1.3, this is how a server learns that its certificate is refused.
        if (connection->stage == Stage::kGreeting && stream.has_tls()) LogProblem(problem);
        return Close(connection, problem);
      }
    }
  } while (!connection->is_closed && stream.has_received());
}

void PeerLink::OnAnswers(const std::shared_ptr<Connection>& connection) {
  while (!connection->is_closed) {
    absl::StatusOr<std::shared_ptr<std::string>> bytes = connection->answers.Next();
    if (bytes.ok() && *bytes == nullptr) return;
    absl::StatusOr<PeerBatch> batch =
        bytes.ok() ? FrameDecoder::DecodeGreeting(*std::move(bytes)) : bytes.status();
    if (batch.ok() && batch->answer.has_value()) {
      OnAnswer(connection, *batch->answer);
    } else if (batch.ok() && batch->challenge.has_value()) {
      OnChallenge(connection, *batch->challenge);
    } else {
      Close(connection, batch.ok() ? "it answers out of turn" : batch.status().ToString());
    }
  }
}

void PeerLink::OnChallenge(const std::shared_ptr<Connection>& connection,
                           const Challenge& challenge) {
  Greeting& greeting = connection->greeting;
  // One proof for each connection.
  if (greeting.hello.nonce.empty() || !greeting.nonce.empty()) {
    return Close(connection, "it answers out of turn");
  }
  greeting.nonce = challenge.nonce;
  greeting.binding = connection->stream.ChannelBinding();
  SendGreeting(connection, [&](SendQueue* queue) {
    queue->AddProof({ConnectingProof(security_.secret, greeting)});
  });
}

std::string PeerLink::ProblemOfProof(const Connection& connection,
                                     const HelloAnswer& answer) const {
  if (security_.secret.empty()) return "";
  const Greeting& greeting = connection.greeting;
  if (greeting.nonce.empty()) return "it asks for no proof of the secret (memberSecretFile)";
  if (answer.proof.empty()) return "it does not prove the secret (memberSecretFile)";
  return SecretsEqual(answer.proof, AcceptingProof(security_.secret, greeting, answer))
             ? ""
             : "it has another secret (memberSecretFile)";
}

void PeerLink::LogProblem(const std::string& problem) {
  if (std::exchange(logged_problem_, problem) == problem) return;
  spdlog::error("cannot connect to server {} at {}: {}", peer_.value(), address_.ToString(),
                problem);
}

void PeerLink::OnAnswer(const std::shared_ptr<Connection>& connection, const HelloAnswer& answer) {
  const bool is_attempt = connection->stage == Stage::kGreeting;
  if (!is_attempt && answer.accepted) return;  // it was accepted before
  // Only the answer of the greeting can have a proof.
  const std::string unproved =
      is_attempt ? ProblemOfProof(*connection, answer) : "it speaks after the greeting";
  if (answer.accepted) {
    if (!unproved.empty() && security_.secret_required) {
      LogProblem(unproved);
      return Close(connection, unproved);
    }
    if (std::exchange(logged_unproved_, unproved) != unproved && !unproved.empty()) {
      spdlog::warn("server {} at {} is connected to without a proof: {}", peer_.value(),
                   address_.ToString(), unproved);
    }
    return OnAccepted(connection, answer);
  }
  const std::string reason = ReasonText(answer.reason);
  if (is_attempt && std::exchange(logged_problem_, reason) != reason) {
    spdlog::error("server {} at {} rejected the connection: {}", peer_.value(), address_.ToString(),
                  reason);
  }
  // This may end the server, so it is not believed without a proof if there has to be one.
  if (!answer.cluster_id.empty() && (unproved.empty() || !security_.requires_proof())) {
    handler_->OnOtherCluster(peer_, answer.cluster_id);
  }
  Close(connection, reason);
}

void PeerLink::OnAccepted(const std::shared_ptr<Connection>& connection,
                          const HelloAnswer& answer) {
  connection->stage = Stage::kOpen;
  connection->stream.ExpectBulk();
  connection->greeting = {};
  logged_problem_.clear();
  attempt_ = nullptr;
  // No other thread can reach the connection yet, so this needs no lock.
  connection->writer.SetReceiverVersion(answer.newest_version);
  error_code error;
  const tcp::endpoint remote = OtherEnd(connection->stream.descriptor(), &error);
  {
    MutexLock lock(&mutex_);
    connected_to_ = {error ? "" : HostText(remote.address()), answer.process};
    connection_ = connection;
    receiver_version_ = answer.newest_version;
  }
  spdlog::info("connected to server {} at {}", peer_.value(), address_.ToString());
  handler_->OnPeerUp(peer_);
}

// --- Sending -------------------------------------------------------------------------------------

void PeerLink::SendPending(const std::shared_ptr<Connection>& connection) {
  while (!connection->writer.done() || connection->stream.has_unsent() ||
         MakeBatch(connection.get())) {
    switch (SendBatch(connection.get())) {
      case PeerStream::Progress::kDone:
        break;
      case PeerStream::Progress::kBlocked:
        return poller_.Post(
            [self = shared_from_this(), connection] { self->AwaitWritable(connection); });
      case PeerStream::Progress::kEnded:
      case PeerStream::Progress::kFailed:
        return CloseLater(connection, connection->stream.Failure());
    }
  }
}

bool PeerLink::MakeBatch(Connection* connection) {
  {
    MutexLock lock(&mutex_);
    if (!connection->writer.Refill(&connection->queue)) {
      connection->is_sending = false;
      return false;
    }
  }
  connection->writer.MakeBatch();
  return true;
}

PeerStream::Progress PeerLink::SendBatch(Connection* connection) {
  BatchWriter& writer = connection->writer;
  do {
    const PeerStream::Transfer sent = connection->stream.Send(writer.Rest());
    writer.Sent(sent.bytes);
    if (sent.progress != PeerStream::Progress::kDone) return sent.progress;
  } while (!writer.done());
  return PeerStream::Progress::kDone;
}

void PeerLink::AwaitWritable(const std::shared_ptr<Connection>& connection) {
  if (connection->is_closed) return;
  poller_.SetInterest(connection->registration, kReadableAndWritable);
}

}  // namespace quorate::rpc
