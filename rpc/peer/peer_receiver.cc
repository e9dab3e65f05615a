// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/peer_receiver.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/random.h"
#include "base/secrets.h"
#include "rpc/peer/send_queue.h"

namespace quorate::rpc {
namespace {

// The limit of a batch on a connection on which no hello was accepted yet.
constexpr size_t kHelloBytesMax = 64u << 10;
// The largest batch of a server of the previous release, which does not use fragments: such a batch
// holds everything that was pending, and the last message in it is whole.
constexpr size_t kOldBatchBytesMax = 4 * kPeerQueueBytesMax;
// The time for a hello and a proof, and for reading why a connection is refused.
constexpr PeerReceiver::Clock::duration kHelloTimeout = std::chrono::seconds(5);

constexpr Poller::Readiness kReadable = {.readable = true, .writable = false};
constexpr Poller::Readiness kReadableAndWritable = {.readable = true, .writable = true};
// The first byte of TLS. Without TLS, a connection begins with the length of the batch with the
// hello; that batch never has 22 bytes.
constexpr char kTlsHandshakeRecord = 0x16;

}  // namespace

PeerReceiver::PeerReceiver(Poller* poller, Descriptor socket, std::string host, std::string where,
                           const PeerSecurity* security, Owner* owner, PeerHandler* handler)
    : poller_(poller),
      stream_(std::move(socket)),
      host_(std::move(host)),
      where_(std::move(where)),
      security_(*security),
      owner_(owner),
      handler_(handler),
      reader_(kHelloBytesMax) {}

void PeerReceiver::Start() {
  registration_ = poller_->Add(stream_.descriptor(), kReadable, this);
  if (!registration_.has_value()) return Close();
  stage_ = Stage::kFirstByte;
}

void PeerReceiver::Close() {
  if (std::exchange(is_closed_, true)) return;
  if (registration_.has_value()) poller_->Remove(*registration_);
  stream_.Close();
  if (from_.has_value()) handler_->OnPeerDown(*from_);
  owner_->OnEnd(this);
}

void PeerReceiver::EnterStage(Stage stage) {
  stage_ = stage;
  stage_began_ = Clock::now();
}

void PeerReceiver::CheckTime(Clock::time_point now) {
  const std::shared_ptr<PeerReceiver> self = shared_from_this();  // keeps the object in Close
  const auto passed = now - stage_began_;
  if (stage_ == Stage::kOpen) return;
  const bool may_begin_tls = stage_ == Stage::kFirstByte && security_.accepts_tls;
  const bool is_tls = may_begin_tls || stage_ == Stage::kHandshake;
  if (passed <= (is_tls ? Clock::duration(security_.handshake_timeout) : kHelloTimeout)) return;
  if (stage_ == Stage::kHandshake) {
    owner_->OnRefused(where_, "the handshake of TLS takes too long");
  }
  Close();
}

void PeerReceiver::OnReady(Poller::Readiness ready) {
  const std::shared_ptr<PeerReceiver> self = shared_from_this();  // keeps the object in Close
  if (stage_ == Stage::kOpen && !ready.writable) return Read();
  if (ready.writable) {
    stream_.Send({});
    if (!stream_.has_unsent()) poller_->SetInterest(*registration_, kReadable);
  }
  if (stage_ == Stage::kFirstByte && BeginTls()) return;
  // With TLS, the other end may send costly messages of TLS in place of its hello.
  const bool is_greeting = stage_ == Stage::kHello || stage_ == Stage::kProof;
  if (stage_ == Stage::kHandshake || (is_greeting && stream_.has_tls())) return TryHandshake();
  if (ready.readable) Read();
}

// --- TLS -----------------------------------------------------------------------------------------

bool PeerReceiver::BeginTls() {
  char first = 0;
  const ssize_t count = ::recv(stream_.descriptor(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (count <= 0) {  // such as a check of the port
    Close();
    return true;
  }
  const bool is_tls = first == kTlsHandshakeRecord;
  if (!is_tls && security_.accepts_plain) {
    EnterStage(Stage::kHello);
    return false;
  }
  if (!is_tls || !security_.accepts_tls) {
    RefuseSilently(is_tls ? "it uses TLS, and this server takes no TLS from servers (sslQuorum, "
                            "portUnification)"
                          : "it does not use TLS, and this server takes only TLS from servers "
                            "(sslQuorum without portUnification)");
    return true;
  }
  EnterStage(Stage::kHandshake);
  stream_.StartTls(security_.tls->Get()->NewServer());
  return false;
}

void PeerReceiver::TryHandshake() {
  if (owner_->MayHandshake()) return ContinueHandshake();
  waits_for_time_ = true;
  poller_->SetInterest(*registration_, {});
}

void PeerReceiver::ContinueHandshake() {
  const std::shared_ptr<PeerReceiver> self = shared_from_this();  // keeps the object in Close
  const bool waited = std::exchange(waits_for_time_, false);
  const Clock::time_point began = Clock::now();
  if (stage_ == Stage::kHandshake) StepHandshake();
  if (stage_ == Stage::kHello || stage_ == Stage::kProof) Read();
  owner_->OnHandshakeTime(Clock::now() - began);
  if (is_closed_ || stage_ == Stage::kRefused) return;
  if (waited || stream_.has_unsent()) {
    poller_->SetInterest(*registration_, stream_.has_unsent() ? kReadableAndWritable : kReadable);
  }
}

void PeerReceiver::StepHandshake() {
  switch (stream_.Handshake()) {
    case PeerStream::Progress::kFailed:
      return RefuseSilently(absl::StrCat("the handshake of TLS failed: ", stream_.Failure()));
    case PeerStream::Progress::kEnded:
      return Close();
    case PeerStream::Progress::kBlocked:
      return;
    case PeerStream::Progress::kDone:
      return EnterStage(Stage::kHello);
  }
}

void PeerReceiver::RefuseSilently(const std::string& why) {
  owner_->OnRefused(where_, why);
  // If the connection were closed while bytes of the other end wait in the socket, the kernel would
  // reset it, and an alert of TLS that says why could be lost.
  EnterStage(Stage::kRefused);
  stream_.ShutdownSending();
  poller_->SetInterest(*registration_, kReadable);
}

// --- Batches -------------------------------------------------------------------------------------

void PeerReceiver::Read() {
  do {
    if (stage_ == Stage::kRefused) {
      char dropped[4096];
      const ssize_t count = ::recv(stream_.descriptor(), dropped, sizeof(dropped), MSG_DONTWAIT);
      if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) Close();
      return;
    }
    const PeerStream::Transfer received = stream_.Receive(reader_.Space());
    switch (received.progress) {
      case PeerStream::Progress::kDone:
        reader_.Added(received.bytes);
        TakeBatches();
        break;
      case PeerStream::Progress::kBlocked:
        return;
      case PeerStream::Progress::kEnded:
      case PeerStream::Progress::kFailed:
        return Close();
    }
  } while (!is_closed_ && stream_.has_received());
}

void PeerReceiver::TakeBatches() {
  while (!is_closed_) {
    absl::StatusOr<std::shared_ptr<std::string>> bytes = reader_.Next();
    if (bytes.ok() && *bytes == nullptr) return;
    const absl::Status status = bytes.ok() ? OnBatch(*std::move(bytes)) : bytes.status();
    if (status.ok()) continue;
    const std::string why(status.message());
    owner_->OnRefused(where_, why);
    Answer({false, why, ""});
    Close();
  }
}

absl::Status PeerReceiver::OnBatch(std::shared_ptr<std::string> bytes) {
  const bool is_open = stage_ == Stage::kOpen;
  absl::StatusOr<PeerBatch> batch =
      is_open ? decoder_.Decode(std::move(bytes)) : FrameDecoder::DecodeGreeting(std::move(bytes));
  if (!batch.ok()) return batch.status();
  if (!is_open) return OnGreeting(*std::move(batch));
  if (absl::Status s = CheckSender(*batch); !s.ok()) return s;
  return handler_->OnPeerBatch(*from_, *std::move(batch));
}

absl::Status PeerReceiver::CheckSender(const PeerBatch& batch) const {
  for (const consensus::Message& message : batch.messages) {
    if (message.from == *from_) continue;
    return absl::InvalidArgumentError(absl::StrCat("a message of server ", message.from.value(),
                                                   " came on the connection of server ",
                                                   from_->value()));
  }
  return absl::OkStatus();
}

// --- The greeting --------------------------------------------------------------------------------

absl::Status PeerReceiver::OnGreeting(PeerBatch batch) {
  if (stage_ == Stage::kProof && batch.proof.has_value()) return OnProof(*batch.proof);
  if (stage_ == Stage::kHello && batch.hello.has_value()) return OnHello(*std::move(batch.hello));
  return absl::InvalidArgumentError("a connection between servers has to begin with a hello");
}

absl::Status PeerReceiver::OnHello(Hello hello) {
  if (const tls::CertificatePtr certificate = stream_.PeerCertificate(); certificate != nullptr) {
    const std::string problem = owner_->CertificateProblem(hello, certificate.get());
    if (!problem.empty()) return absl::PermissionDeniedError(problem);
  }
  if (!security_.secret.empty() && !hello.nonce.empty()) {
    greeting_ = {std::move(hello), RandomBytes::System()->Make(kNonceBytes),
                 stream_.ChannelBinding()};
    std::string frames;
    AppendChallengeFrame({greeting_.nonce}, &frames);
    SendFrames(std::move(frames));
    EnterStage(Stage::kProof);
    return absl::OkStatus();
  }
  if (security_.requires_proof()) {
    return absl::PermissionDeniedError(
        "servers have to prove a secret here, and this one has none (memberSecretFile)");
  }
  Decide(hello);
  if (from_.has_value() && !security_.secret.empty()) {
    owner_->OnUnproved(*from_, "it has none (memberSecretFile)");
  }
  return absl::OkStatus();
}

absl::Status PeerReceiver::OnProof(const Proof& proof) {
  has_proved_ = SecretsEqual(proof.proof, ConnectingProof(security_.secret, greeting_));
  if (!has_proved_ && security_.secret_required) {
    return absl::PermissionDeniedError(
        "the secret (memberSecretFile) of this server is another one");
  }
  Decide(greeting_.hello);
  if (from_.has_value() && !has_proved_) owner_->OnUnproved(*from_, "it has another one");
  return absl::OkStatus();
}

void PeerReceiver::Decide(const Hello& hello) {
  HelloAnswer answer = owner_->OnHello(hello, host_);
  Answer(answer);
  if (!answer.accepted) {  // the other server logs the reason, too
    owner_->OnRefused(where_, answer.reason);
    return Close();
  }
  from_ = hello.from;
  reader_.set_batch_bytes_max(hello.newest_version >= kPeerProtocolFragments ? kBatchBytesMax
                                                                             : kOldBatchBytesMax);
  EnterStage(Stage::kOpen);
  stream_.ExpectBulk();
  greeting_ = {};
  owner_->OnAccepted(this);
}

void PeerReceiver::Answer(HelloAnswer answer) {
  // Only a server that has proved the secret gets a proof: others could guess secrets with it.
  if (stage_ == Stage::kProof && has_proved_) {
    answer.proof = AcceptingProof(security_.secret, greeting_, answer);
  }
  std::string frames;
  AppendAnswerFrame(answer, &frames);
  SendFrames(std::move(frames));
}

void PeerReceiver::SendFrames(std::string frames) {
  SealFrames(&frames);
  std::string bytes(kBatchLengthBytes, '\0');
  StoreInt<std::endian::little>(bytes.data(), static_cast<uint32_t>(frames.size()));
  bytes += frames;
  // The bytes always fit into the kernel's send buffer, because this server sends only a few on the
  // connection.
  const std::string_view parts[] = {bytes};
  stream_.Send(parts);
  if (stream_.has_unsent()) poller_->SetInterest(*registration_, kReadableAndWritable);
}

}  // namespace quorate::rpc
