// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/peer_receiver.h"

#include <sys/socket.h>

#include <cerrno>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "rpc/peer/send_queue.h"

namespace quorate::rpc {
namespace {

// The limit of a batch on a connection on which no hello was accepted yet.
constexpr size_t kHelloBytesMax = 64u << 10;
// The largest batch of a server of the previous release, which does not use fragments: such a batch
// holds everything that was pending, and the last message in it is whole.
constexpr size_t kOldBatchBytesMax = 4 * kPeerQueueBytesMax;

}  // namespace

PeerReceiver::PeerReceiver(Poller* poller, Descriptor socket, std::string host, std::string where,
                           Owner* owner, PeerHandler* handler)
    : poller_(poller),
      socket_(std::move(socket)),
      host_(std::move(host)),
      where_(std::move(where)),
      owner_(owner),
      handler_(handler),
      reader_(kHelloBytesMax) {}

void PeerReceiver::Start() {
  registration_ = poller_->Add(socket_.number(), {.readable = true, .writable = false}, this);
  if (!registration_.has_value()) Close();
}

void PeerReceiver::Close() {
  if (std::exchange(is_closed_, true)) return;
  if (registration_.has_value()) poller_->Remove(*registration_);
  socket_.Close();
  if (from_.has_value()) handler_->OnPeerDown(*from_);
  owner_->OnEnd(this);
}

void PeerReceiver::OnReady(Poller::Readiness /*ready*/) {
  const std::shared_ptr<PeerReceiver> self = shared_from_this();  // keeps the object in Close
  const std::span<char> space = reader_.Space();
  const ssize_t received = ::recv(socket_.number(), space.data(), space.size(), MSG_DONTWAIT);
  if (received > 0) {
    reader_.Added(static_cast<size_t>(received));
    TakeBatches();
  } else if (received == 0 || (errno != EAGAIN && errno != EINTR)) {
    Close();
  }
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
  absl::StatusOr<PeerBatch> batch = decoder_.Decode(std::move(bytes));
  if (!batch.ok()) return batch.status();
  if (!from_.has_value()) {
    if (!batch->hello.has_value()) {
      return absl::InvalidArgumentError("a connection between servers has to begin with a hello");
    }
    if (absl::Status s = OnHello(*batch->hello); !s.ok() || is_closed_) return s;
  }
  return handler_->OnPeerBatch(*from_, *std::move(batch));
}

absl::Status PeerReceiver::OnHello(const Hello& hello) {
  const HelloAnswer answer = owner_->OnHello(hello, host_);
  Answer(answer);
  if (!answer.accepted) {  // the other server logs the reason, too
    owner_->OnRefused(where_, answer.reason);
    Close();
    return absl::OkStatus();
  }
  from_ = hello.from;
  reader_.set_batch_bytes_max(hello.newest_version >= kPeerProtocolFragments ? kBatchBytesMax
                                                                             : kOldBatchBytesMax);
  owner_->OnAccepted(this);
  return absl::OkStatus();
}

void PeerReceiver::Answer(const HelloAnswer& answer) {
  std::string batch;
  AppendAnswerFrame(answer, &batch);
  SealFrames(&batch);
  std::string bytes(kBatchLengthBytes, '\0');
  StoreInt<std::endian::little>(bytes.data(), static_cast<uint32_t>(batch.size()));
  bytes += batch;
  // The answer always fits into the kernel's send buffer, because this server sends only a few
  // bytes on the connection.
  [[maybe_unused]] const ssize_t sent =
      ::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace quorate::rpc
