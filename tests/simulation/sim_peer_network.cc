// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/sim_peer_network.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "rpc/peer/batch_reader.h"

namespace quorate::simulation {
namespace {

using consensus::MemberId;

// The same as in rpc/peer/peer_link.cc and rpc/peer/peer_socket.cc.
constexpr int64_t kReconnectAfterUs = 60'000;
constexpr int64_t kAttemptTimeoutUs = 2'000'000;
constexpr int64_t kKeepaliveUs = 2'000'000;
// The same as in rpc/peer/peer_network.cc: how long a member that was removed is still reached.
constexpr int64_t kRemovalUs = 5'000'000;
// A write takes this long to leave: data that is queued meanwhile goes out together.
constexpr int64_t kWriteUs = 20;
// The same as in rpc/peer/peer_socket.cc; the kernel reports free space again at half of it.
constexpr size_t kUnsentBytesMax = 128u << 10;
// The smallest and the largest number of bytes that the network accepts at once.
constexpr size_t kPacketBytesMin = 1460;
constexpr size_t kPacketBytesMax = 16u << 10;
// The same as in rpc/peer/peer_receiver.cc.
constexpr size_t kHelloBytesMax = 64u << 10;
constexpr size_t kOldBatchBytesMax = 4 * rpc::kPeerQueueBytesMax;

constexpr uint16_t kPeerPort = 2888;
constexpr uint16_t kElectionPort = 3888;
constexpr uint16_t kClientPort = 2181;

size_t Number(MemberId member) { return member.value() - 1; }
MemberId Id(size_t member) { return MemberId(static_cast<uint32_t>(member + 1)); }

}  // namespace

bool SimPeerNetwork::CanReceive(size_t member) const {
  const Host& host = hosts_[member];
  return host.on && (host.links == nullptr || !host.links->paused());
}

bool SimPeerNetwork::Answers(size_t from, size_t to) const {
  return network_.IsOpen(from, to) && network_.IsOpen(to, from) && CanReceive(to);
}

rpc::ServerLine SimPeerNetwork::LineAt(size_t member, size_t address) const {
  rpc::ServerLine line;
  line.host = fmt::format("machine{}", member + 1);
  if (address > 0) line.host += fmt::format("-{}", address);
  line.peer_port = kPeerPort;
  line.election_port = kElectionPort;
  line.client_port = kClientPort;
  return line;
}

bool SimPeerNetwork::Has(size_t member, const rpc::PeerAddress& address) const {
  const Host& host = hosts_[member];
  for (size_t number = host.oldest_address; number <= host.newest_address; ++number) {
    const rpc::ServerLine line = LineAt(member, number);
    if (address == rpc::PeerAddress{line.host, line.peer_port}) return true;
  }
  return false;
}

void SimPeerNetwork::AddAddress(size_t member) {
  ASSERT(hosts_[member].oldest_address == hosts_[member].newest_address);
  ++hosts_[member].newest_address;
}

void SimPeerNetwork::DropOldAddresses(size_t member) {
  hosts_[member].oldest_address = hosts_[member].newest_address;
}

void SimPeerNetwork::Restore(size_t member, const rpc::PeerAddress& address) {
  Host& host = hosts_[member];
  for (size_t number = 0; number < host.oldest_address; ++number) {
    const rpc::ServerLine line = LineAt(member, number);
    if (address != rpc::PeerAddress{line.host, line.peer_port}) continue;
    simulation().trace().Count("cluster: a machine has an earlier address again");
    host.oldest_address = number;
  }
}

// A stream from `from` to `to`; the object holds both ends.
class SimulatedLinks::Stream : public PipeEnd, public std::enable_shared_from_this<Stream> {
 public:
  Stream(SimulatedLinks* sender, size_t to)
      : peer_network_(sender->peer_network_), from_(sender->self_), to_(to), sender_(sender) {}

  void Open() {
    pipe_ = std::make_shared<Pipe>(&peer_network_.network(), from_, to_, this);
    self_ = shared_from_this();
    ScheduleKeepalive(false, false);
  }

  Pipe& pipe() { return *pipe_; }
  bool accepted() const { return receiver_ != nullptr; }
  SimulatedLinks* receiver() const { return receiver_; }
  size_t from() const { return from_; }

  // The process at the sending end has ended, or has closed the stream.
  void SenderGone(bool silent) {
    if (sender_ == nullptr) return;
    CloseSender();
    if (!silent) pipe_->SendEnd();
    MaybeForget();
  }
  void ReceiverGone(bool silent) {
    if (receiver_ == nullptr) return;
    receiver_ = nullptr;
    if (silent) {
      MaybeForget();
    } else {
      Refuse("");
    }
  }

  bool CanReceive() const override { return peer_network_.CanReceive(to_); }

  void OnPacket(std::string packet) override {
    const std::shared_ptr<Stream> keep = shared_from_this();
    if (peer_network_.host(to_).links == nullptr || (was_bound_ && receiver_ == nullptr)) {
      return Refuse("");
    }
    // A wrong length would be noticed only when as many bytes have arrived, which may take long:
    // the length is never damaged.
    const size_t spared = unread_bytes_ == 0 ? rpc::kBatchLengthBytes : 0;
    if (peer_network_.network().Corrupt(&packet, spared)) damaged_ = true;
    unread_bytes_ += packet.size();
    for (std::string_view rest = packet; !rest.empty();) {
      const std::span<char> space = reader_.Space();
      const size_t count = std::min(space.size(), rest.size());
      std::copy_n(rest.data(), count, space.data());
      reader_.Added(count);
      rest.remove_prefix(count);
      if (!TakeBatches()) return;
    }
  }

  void OnEnd() override {
    const std::shared_ptr<Stream> keep = shared_from_this();
    CloseReceiver();
    MaybeForget();
  }

  // The receiver closes the stream.
  void BreakAtReceiver() {
    CloseReceiver();
    Refuse("");
  }

 private:
  // Returns false if the stream has ended because of what it received.
  bool TakeBatches() {
    for (;;) {
      absl::StatusOr<std::shared_ptr<std::string>> bytes = reader_.Next();
      if (!bytes.ok()) {
        BreakAtReceiver();
        return false;
      }
      if (*bytes == nullptr) return true;
      unread_bytes_ -= rpc::kBatchLengthBytes + (*bytes)->size();
      if (!TakeBatch(*std::move(bytes))) return false;
    }
  }
  bool TakeBatch(std::shared_ptr<std::string> bytes) {
    absl::StatusOr<rpc::PeerBatch> batch = decoder_.Decode(std::move(bytes));
    if (batch.ok() && std::exchange(damaged_, false)) {
      peer_network_.simulation().Fail("damage by the network is detected",
                                      "a frame with a wrong bit decoded");
    }
    if (!batch.ok()) {
      BreakAtReceiver();
      return false;
    }
    if (batch->hello.has_value() && !was_bound_ && !Bind(*batch->hello)) return false;
    if (receiver_ == nullptr) {
      Refuse("");
      return false;
    }
    receiver_->Tell([&] {
      const absl::Status status = receiver_->handler_->OnPeerBatch(Id(from_), *std::move(batch));
      if (!status.ok()) {
        peer_network_.simulation().Fail("forwarded commands can be applied",
                                        std::string(status.message()));
      }
    });
    return true;
  }
  // Returns false if the stream is refused.
  bool Bind(const rpc::Hello& hello) {
    SimulatedLinks* target = peer_network_.host(to_).links;
    was_bound_ = true;
    if (!target->AddressOf(from_).has_value()) {
      peer_network_.simulation().trace().Count("links: an unknown server is refused");
      Refuse("");
      return false;
    }
    if (std::string other = target->Check(hello); !other.empty()) {
      Refuse(other);
      return false;
    }
    receiver_ = target;
    target->incoming_.push_back(shared_from_this());
    const bool cuts_frames = hello.newest_version >= rpc::kPeerProtocolFragments &&
                             target->protocol_version_ >= rpc::kPeerProtocolFragments;
    reader_.set_batch_bytes_max(cuts_frames ? rpc::kBatchBytesMax : kOldBatchBytesMax);
    Answer([this, version = target->protocol_version_] {
      if (sender_ != nullptr) sender_->OnUp(to_, this, version);
    });
    return true;
  }
  // Sends something back to the sender: runs `task` after the network's delay.
  void Answer(Scheduler::Task task) {
    peer_network_.simulation().After(
        peer_network_.network().Delay(to_, from_),
        [self = shared_from_this(), task = std::move(task)] {
          if (!self->peer_network_.network().IsOpen(self->to_, self->from_)) return;
          if (self->sender_ != nullptr) self->sender_->lifetime_->Run(task);
        });
  }
  void Refuse(const std::string& other_cluster) {
    pipe_->Abandon();
    Answer([this, other_cluster] {
      if (SimulatedLinks* sender = CloseSender(); sender != nullptr) {
        sender->OnDone(to_, this, other_cluster);
      }
      MaybeForget();
    });
  }
  SimulatedLinks* CloseSender() {
    pipe_->OnDelivered(nullptr);
    return std::exchange(sender_, nullptr);
  }
  // Closes the receiver's end, after everything that has arrived.
  void CloseReceiver() {
    SimulatedLinks* receiver = std::exchange(receiver_, nullptr);
    if (receiver == nullptr) return;
    std::erase_if(receiver->incoming_, [this](const auto& other) { return other.get() == this; });
    receiver->Tell([&] { receiver->handler_->OnPeerDown(Id(from_)); });
  }

  void ScheduleKeepalive(bool sender_missed, bool receiver_missed) {
    peer_network_.simulation().After(
        kKeepaliveUs * 3 / 4 +
            peer_network_.simulation().random("keepalive").Between(0, kKeepaliveUs / 2),
        [self = shared_from_this(), sender_missed, receiver_missed] {
          self->Keepalive(sender_missed, receiver_missed);
        });
  }
  // Either end gives up when a second ping in a row is not answered.
  void Keepalive(bool sender_missed, bool receiver_missed) {
    const bool sender_misses = sender_ != nullptr && !sender_->paused() &&
                               (!peer_network_.Answers(from_, to_) || receiver_ == nullptr);
    const bool receiver_misses = receiver_ != nullptr && !receiver_->paused() &&
                                 (!peer_network_.Answers(to_, from_) || sender_ == nullptr);
    if (sender_misses && sender_missed) {
      SimulatedLinks* sender = CloseSender();
      pipe_->SendEnd();
      sender->OnDone(to_, this, "");
    }
    if (receiver_misses && receiver_missed) {
      pipe_->Abandon();
      CloseReceiver();
    }
    MaybeForget();
    if (self_ != nullptr) ScheduleKeepalive(sender_misses, receiver_misses);
  }
  void MaybeForget() {
    if (sender_ != nullptr || receiver_ != nullptr) return;
    pipe_->Abandon();
    self_ = nullptr;
  }

  SimPeerNetwork& peer_network_;
  const size_t from_;
  const size_t to_;
  SimulatedLinks* sender_;
  SimulatedLinks* receiver_ = nullptr;
  bool was_bound_ = false;
  bool damaged_ = false;  // damage in the batch being received
  rpc::BatchReader reader_{kHelloBytesMax};
  rpc::FrameDecoder decoder_;
  size_t unread_bytes_ = 0;  // of the batch being received, its length field included
  std::shared_ptr<Pipe> pipe_;
  std::shared_ptr<Stream> self_;  // while either end is open
};

SimulatedLinks::SimulatedLinks(SimPeerNetwork* peer_network, size_t self,
                               std::shared_ptr<ProcessLifetime> lifetime, MessageObserver* observer)
    : peer_network_(*peer_network),
      simulation_(peer_network->simulation()),
      random_(simulation_.random("peer links")),
      self_(self),
      lifetime_(std::move(lifetime)),
      observer_(observer),
      links_(peer_network->size()) {}

SimulatedLinks::~SimulatedLinks() {
  ASSERT(peer_network_.host(self_).links != this, "closed before");
}

void SimulatedLinks::Start(rpc::PeerHandler* handler, Scheduler::Task after_call,
                           std::string cluster_id) {
  handler_ = handler;
  after_call_ = std::move(after_call);
  cluster_id_ = std::move(cluster_id);
  peer_network_.host(self_).links = this;
  if (random_.Chance(simulation_.options().cluster.old_version_chance)) {
    protocol_version_ = rpc::kPeerProtocolVersion;
  }
  Tick();
}

void SimulatedLinks::Close(bool silent) {
  peer_network_.host(self_).links = nullptr;
  for (Link& link : links_) {
    if (auto stream = std::exchange(link.stream, nullptr)) stream->SenderGone(silent);
  }
  for (const auto& stream : std::exchange(incoming_, {})) stream->ReceiverGone(silent);
}

void SimulatedLinks::BreakStream(size_t to) {
  const std::shared_ptr<Stream> stream = links_[to].stream;
  if (stream == nullptr) return;
  stream->SenderGone(/*silent=*/false);
  OnDone(to, stream.get(), "");
}

void SimulatedLinks::Tell(const Scheduler::Task& call) {
  call();
  after_call_();
}

// --- One link ------------------------------------------------------------------------------------

void SimulatedLinks::Tick() {
  for (size_t to = 0; to < links_.size(); ++to) {
    Link& link = links_[to];
    if (to == self_ || !link.address.has_value()) continue;
    if (link.ends_us > 0 && simulation_.now_us() >= link.ends_us) {
      EndLink(to);
    } else if (link.stream == nullptr) {
      if (simulation_.now_us() >= link.connect_at_us) Connect(to);
    } else if (link.stream_address != link.address) {
      simulation_.trace().Count("links: a member is reached at another address");
      BreakStream(to);
      link.connect_at_us = simulation_.now_us();
    } else if (!link.up && simulation_.now_us() >= link.attempt_ends_us) {
      simulation_.trace().Count("links: no answer");
      BreakStream(to);
    }
  }
}

void SimulatedLinks::SetMembers(const rpc::PeerAddresses& others) {
  for (size_t to = 0; to < links_.size(); ++to) {
    Link& link = links_[to];
    const auto found = others.find(Id(to));
    if (found != others.end()) {
      if (!link.address.has_value()) link.down_since_us = simulation_.now_us();
      link.address = found->second;
      link.ends_us = 0;
    } else if (link.address.has_value() && link.ends_us == 0) {
      link.ends_us = simulation_.now_us() + kRemovalUs;
    }
  }
}

void SimulatedLinks::EndLink(size_t to) {
  Link& link = links_[to];
  BreakStream(to);
  link.address.reset();
  link.ends_us = 0;
  for (const auto& stream : std::vector(incoming_)) {
    if (stream->from() == to) stream->BreakAtReceiver();
  }
}

void SimulatedLinks::Connect(size_t to) {
  Link& link = links_[to];
  if (!peer_network_.Has(to, *link.address)) {
    simulation_.trace().Count("links: nobody at the address of a member");
    link.connect_at_us = simulation_.now_us() + kReconnectAfterUs;
    return;
  }
  link.stream_address = *link.address;
  link.stream = std::make_shared<Stream>(this, to);
  link.stream->Open();
  link.stream->pipe().OnDelivered([this, to, stream = link.stream.get()] {
    // The window may have free space again.
    if (links_[to].stream.get() == stream && !links_[to].writing) StartWrite(to);
  });
  link.queue = std::make_unique<rpc::SendQueue>(simulation_.options().network.queue_bytes_max);
  link.writer = std::make_unique<rpc::BatchWriter>();
  link.writing = false;
  link.attempt_ends_us = simulation_.now_us() + kAttemptTimeoutUs;
  rpc::Hello hello;
  hello.from = Id(self_);
  hello.to = Id(to);
  hello.cluster_id = cluster_id_;
  hello.newest_version = protocol_version_;
  link.queue->AddHello(hello);
  StartWrite(to);
}

template <class Add>
void SimulatedLinks::Write(size_t to, Add add) {
  Link& link = links_[to];
  if (!link.up) return;
  const uint64_t dropped = link.queue->dropped();
  add(link.queue.get());
  if (link.queue->dropped() > dropped) simulation_.trace().Count("links: queue full");
  if (link.queue->overflowed()) return BreakStream(to);
  if (!link.writing) StartWrite(to);
}

// Corresponds to one call of sendmsg.
void SimulatedLinks::StartWrite(size_t to) {
  Link& link = links_[to];
  rpc::BatchWriter& writer = *link.writer;
  if (writer.done()) {
    if (!writer.Refill(link.queue.get())) return;
    writer.MakeBatch();
  }
  Pipe& pipe = link.stream->pipe();
  const size_t window = simulation_.options().network.window_bytes;
  if (pipe.bytes() > window) return;  // called again after the next delivery
  if (pipe.unsent_bytes() >= kUnsentBytesMax) {
    simulation_.trace().Count("links: the machine has not sent enough");
    return WriteAgainAfter(to, pipe.UnsentUntilUs(kUnsentBytesMax / 2) - simulation_.now_us());
  }
  size_t room = std::min(std::max(window - pipe.bytes(), kPacketBytesMin),
                         kUnsentBytesMax - pipe.unsent_bytes());
  std::string packet;
  while (room > 0 && !writer.done()) {
    const std::string_view part = writer.Rest()[0];
    const size_t count = std::min({part.size(), room, kPacketBytesMax - packet.size()});
    packet += part.substr(0, count);
    writer.Sent(count);
    room -= count;
    if (packet.size() < kPacketBytesMax && room > 0 && !writer.done()) continue;
    simulation_.trace().Mix(packet);
    pipe.Send(std::exchange(packet, {}));
  }
  if (!writer.done()) simulation_.trace().Count("links: a batch in pieces");
  WriteAgainAfter(to, kWriteUs);
}

void SimulatedLinks::WriteAgainAfter(size_t to, int64_t delay_us) {
  links_[to].writing = true;
  lifetime_->After(delay_us, [this, to, stream = links_[to].stream] {
    if (links_[to].stream != stream) return;
    links_[to].writing = false;
    StartWrite(to);
  });
}

void SimulatedLinks::OnUp(size_t to, const Stream* stream, uint32_t receiver_version) {
  Link& link = links_[to];
  if (link.stream.get() != stream || link.up) return;
  link.up = true;
  // A receiver of the previous release does not cut frames.
  link.writer->SetReceiverVersion(std::min(receiver_version, protocol_version_));
  simulation_.Line(fmt::format("{}", self_ + 1), "link to {} is up", to + 1);
  Tell([&] { handler_->OnPeerUp(Id(to)); });
}

void SimulatedLinks::OnDone(size_t to, const Stream* stream, const std::string& other_cluster) {
  Link& link = links_[to];
  if (link.stream.get() != stream) return;
  link.stream = nullptr;
  link.connect_at_us = simulation_.now_us() + kReconnectAfterUs;
  const bool was_up = std::exchange(link.up, false);
  if (was_up) {
    link.down_since_us = simulation_.now_us();
    simulation_.trace().Count("links: broken");
    simulation_.Line(fmt::format("{}", self_ + 1), "link to {} is down", to + 1);
  }
  if (!other_cluster.empty()) {
    Tell([&] { handler_->OnOtherCluster(Id(to), other_cluster); });
  }
  if (was_up) Tell([&] { handler_->OnPeerDown(Id(to)); });
}

std::string SimulatedLinks::Check(const rpc::Hello& hello) const {
  ASSERT(hello.to == Id(self_));
  if (hello.cluster_id.empty() || cluster_id_.empty() || hello.cluster_id == cluster_id_) return "";
  return cluster_id_;
}

// --- PeerLinks -----------------------------------------------------------------------------------

void SimulatedLinks::Send(std::vector<consensus::Message> messages) {
  for (const consensus::Message& message : messages) {
    observer_->OnMessage(self_, message);
    if (message.to == consensus::kNoMember || Number(message.to) >= links_.size()) continue;
    const size_t to = Number(message.to);
    if (simulation_.options().network.raft_is_datagrams) {
      SendAlone(message, to);
    } else {
      Write(to, [&](rpc::SendQueue* queue) { queue->AddMessage(message); });
    }
  }
}

void SimulatedLinks::SendAlone(const consensus::Message& message, size_t to) {
  const std::shared_ptr<Stream>& stream = links_[to].stream;
  if (stream == nullptr) return;
  Network& network = peer_network_.network();
  if (network.LoseMessage()) return simulation_.trace().Count("network: message lost");
  std::string packet;
  rpc::AppendMessageFrame(message, &packet);
  rpc::SealFrames(&packet);
  simulation_.trace().Mix(packet);
  int copies = 1;
  for (; copies < 4 && network.DuplicateMessage(); ++copies) {
    simulation_.trace().Count("network: message duplicated");
  }
  for (; copies > 0; --copies) {
    simulation_.After(network.Delay(self_, to), [stream, packet, to, self = self_,
                                                 peer_network = &peer_network_] {
      SimulatedLinks* receiver = stream->receiver();
      if (receiver == nullptr || !peer_network->CanReceive(to) ||
          !peer_network->network().IsOpen(self, to)) {
        return;
      }
      absl::StatusOr<rpc::PeerBatch> batch =
          rpc::FrameDecoder().Decode(std::make_shared<std::string>(packet));
      ASSERT(batch.ok(), "an encoded batch decodes");
      receiver->Tell([&] {
        const absl::Status status = receiver->handler_->OnPeerBatch(Id(self), *std::move(batch));
        ASSERT(status.ok(), "a Raft message is accepted");
      });
    });
  }
}

void SimulatedLinks::Forward(MemberId to, const std::vector<std::string_view>& commands) {
  if (Number(to) >= links_.size()) return;
  Write(Number(to), [&](rpc::SendQueue* queue) { queue->AddForward(commands); });
}

void SimulatedLinks::SendTouches(MemberId to, const std::vector<int64_t>& sessions) {
  if (Number(to) >= links_.size()) return;
  Write(Number(to), [&](rpc::SendQueue* queue) { queue->AddTouches(sessions); });
}

void SimulatedLinks::SendDigest(MemberId to, const rpc::DigestNote& note) {
  observer_->OnDigestNote(self_, Number(to), note);
  if (Number(to) >= links_.size()) return;
  Write(Number(to), [&](rpc::SendQueue* queue) { queue->AddDigest(note); });
}

void SimulatedLinks::SendDiskReport(MemberId to, const rpc::DiskReport& report) {
  observer_->OnDiskReport(self_, Number(to), report);
  if (Number(to) >= links_.size()) return;
  Write(Number(to), [&](rpc::SendQueue* queue) { queue->AddDiskReport(report); });
}

bool SimulatedLinks::IsSending(MemberId member) const {
  if (member == consensus::kNoMember || Number(member) >= links_.size()) return false;
  const Link& link = links_[Number(member)];
  return link.up && !(link.queue->empty() && link.writer->done());
}

int64_t SimulatedLinks::DownForMs(MemberId member) const {
  if (member == consensus::kNoMember || Number(member) >= links_.size()) return 0;
  const Link& link = links_[Number(member)];
  if (Number(member) == self_ || link.up || !link.address.has_value()) return 0;
  return (simulation_.now_us() - link.down_since_us) / 1000;
}

}  // namespace quorate::simulation
