#include "rpc/peer/peer_network.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <condition_variable>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/mutex.h"
#include "rpc/peer/frame.h"

namespace quorate::rpc {
namespace {

using consensus::MemberId;
using Clock = std::chrono::steady_clock;

constexpr char kStreamMethod[] = "/quorate.peer.v1.Peer/Stream";
constexpr auto kReconnectAfter = std::chrono::milliseconds(60);
// A peer whose machine is gone without a word is noticed by gRPC within this time, so that its
// stream is not the old one when it is back.
constexpr int kKeepaliveMs = 2000;

grpc::ByteBuffer ToByteBuffer(std::string bytes) {
  auto* owned = new std::string(std::move(bytes));
  grpc::Slice slice(
      owned->data(), owned->size(), [](void* p) { delete static_cast<std::string*>(p); }, owned);
  return grpc::ByteBuffer(&slice, 1);
}

std::shared_ptr<std::string> ToString(const grpc::ByteBuffer& buffer) {
  auto bytes = std::make_shared<std::string>();
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return bytes;
  bytes->reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) {
    bytes->append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

}  // namespace

// Our stream to one peer, and what waits for it.
class PeerNetwork::Link : public std::enable_shared_from_this<PeerNetwork::Link> {
 public:
  Link(MemberId self, MemberId peer, const std::string& address, PeerHandler* handler)
      : self_(self), peer_(peer), address_(address), handler_(handler) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 50);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  }

  void SetClusterId(const std::string& cluster_id) {
    MutexLock lock(&mutex_);
    cluster_id_ = cluster_id;
  }

  // Appends frames by `append(std::string*)`, and sends them now if the stream is free.
  template <class Append>
  void Write(Append append) {
    MutexLock lock(&mutex_);
    if (stream_ == nullptr || !open_ || pending_.size() > kPeerQueueBytesMax) return;
    append(&pending_);
    if (!writing_) StartWrite();
  }

  void Tick(Clock::time_point now) {
    MutexLock lock(&mutex_);
    if (stream_ == nullptr && !stopped_ && now >= connect_at_) Connect();
  }

  int64_t DownForMs(Clock::time_point now) const {
    MutexLock lock(&mutex_);
    if (up_) return 0;
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - down_since_).count();
  }

  void Stop() {
    std::unique_lock<std::mutex> lock(mutex_.native());
    stopped_ = true;
    if (stream_ != nullptr) stream_->context.TryCancel();
    idle_.wait(lock, [this] { return stream_ == nullptr; });
  }

 private:
  // One attempt at a stream; gRPC owns it until OnDone.
  struct Stream : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
    explicit Stream(std::shared_ptr<Link> l) : link(std::move(l)) {}
    void OnWriteDone(bool ok) override { link->WriteDone(ok); }
    void OnReadInitialMetadataDone(bool ok) override {
      if (ok) link->Up();
    }
    // The server says nothing on this stream: the one read ends when the stream does, and before
    // OnDone.
    void OnReadDone(bool ok) override {
      link->ReadDone();
      if (ok) context.TryCancel();
    }
    void OnDone(const grpc::Status& status) override {
      std::shared_ptr<Link> owner = std::move(link);
      owner->Done(status);
      delete this;
    }
    std::shared_ptr<Link> link;
    grpc::ClientContext context;
    grpc::ByteBuffer outgoing;
    grpc::ByteBuffer incoming;
  };

  void Connect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ASSERT(stream_ == nullptr);
    open_ = true;
    stream_ = new Stream(shared_from_this());
    stub_->PrepareBidiStreamingCall(&stream_->context, kStreamMethod, {}, stream_);
    pending_.clear();
    AppendHelloFrame({kPeerProtocolVersion, self_, peer_, cluster_id_}, &pending_);
    StartWrite();
    stream_->StartRead(&stream_->incoming);
    stream_->StartCall();
  }

  void StartWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ASSERT(!writing_);
    writing_ = true;
    SealFrames(&pending_);
    std::string bytes;
    bytes.swap(pending_);
    stream_->outgoing = ToByteBuffer(std::move(bytes));
    stream_->StartWrite(&stream_->outgoing);
  }

  void WriteDone(bool ok) {
    MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) open_ = false;
    if (open_ && !pending_.empty()) StartWrite();
  }

  void ReadDone() {
    MutexLock lock(&mutex_);
    open_ = false;
  }

  void Up() {
    {
      MutexLock lock(&mutex_);
      up_ = true;
    }
    handler_->OnPeerUp(peer_);
  }

  void Done(const grpc::Status& status) {
    bool was_up;
    {
      MutexLock lock(&mutex_);
      was_up = std::exchange(up_, false);
      if (was_up) down_since_ = Clock::now();
      writing_ = false;
      pending_.clear();
      connect_at_ = Clock::now() + kReconnectAfter;
    }
    if (status.error_code() == grpc::StatusCode::FAILED_PRECONDITION) {
      if (std::exchange(refusal_logged_, status.error_message()) != status.error_message()) {
        spdlog::error("server {} at {} refuses us: {}", peer_.value(), address_,
                      status.error_message());
      }
      if (!status.error_details().empty()) {
        handler_->OnOtherCluster(peer_, status.error_details());
      }
    }
    if (was_up) {
      spdlog::info("connection to server {} at {} lost: {}", peer_.value(), address_,
                   status.error_message().empty() ? "closed" : status.error_message());
      handler_->OnPeerDown(peer_);
    }
    MutexLock lock(&mutex_);
    stream_ = nullptr;
    idle_.notify_all();
  }

  const MemberId self_;
  const MemberId peer_;
  const std::string address_;
  PeerHandler* const handler_;
  std::unique_ptr<grpc::GenericStub> stub_;
  std::string refusal_logged_;  // only in Done, which streams call one after another

  mutable Mutex mutex_;
  std::condition_variable idle_;
  Stream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool up_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether writes may start. A stream that fails is done only when nothing is under way any more:
  // one more write for each that failed would keep it from ever ending.
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::string pending_ ABSL_GUARDED_BY(mutex_);
  std::string cluster_id_ ABSL_GUARDED_BY(mutex_);
  Clock::time_point connect_at_ ABSL_GUARDED_BY(mutex_);
  Clock::time_point down_since_ ABSL_GUARDED_BY(mutex_) = Clock::now();
};

// The listening side.
class PeerNetwork::Service : public grpc::CallbackGenericService {
 public:
  Service(MemberId self, PeerHandler* handler, const std::map<MemberId, std::string>& members)
      : self_(self), handler_(handler), members_(members) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

  absl::Status Listen(const std::string& address) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(this);
    builder.SetMaxReceiveMessageSize(-1);
    builder.SetMaxSendMessageSize(-1);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      return absl::UnavailableError(absl::StrCat(
          "cannot listen for the other servers on ", address,
          ": is another server running there, or is the address not of this machine?"));
    }
    return absl::OkStatus();
  }

  void Stop() {
    if (server_ == nullptr) return;
    server_->Shutdown(
        std::chrono::system_clock::now());  // at once: streams never end by themselves
    server_->Wait();
    server_.reset();
  }

  void SetClusterId(const std::string& cluster_id) {
    MutexLock lock(&mutex_);
    cluster_id_ = cluster_id;
  }

  // Why a stream that opens with `hello` cannot be accepted; OK if it can.
  grpc::Status Check(const Hello& hello) {
    MutexLock lock(&mutex_);
    if (hello.protocol_version != kPeerProtocolVersion) {
      return {grpc::StatusCode::FAILED_PRECONDITION,
              absl::StrCat("it speaks version ", kPeerProtocolVersion,
                           " of the protocol between servers, we speak ", hello.protocol_version)};
    }
    if (hello.to != self_ || members_.count(hello.from) == 0) {
      return {
          grpc::StatusCode::FAILED_PRECONDITION,
          absl::StrCat("it is server ", self_.value(), " of a configuration in which we (server ",
                       hello.from.value(), ") are not, or not under this number: ",
                       "the server.N lines of both configurations must agree")};
    }
    if (!hello.cluster_id.empty() && !cluster_id_.empty() && hello.cluster_id != cluster_id_) {
      return {grpc::StatusCode::FAILED_PRECONDITION,
              absl::StrCat("it belongs to cluster ", absl::BytesToHexString(cluster_id_),
                           ", our data directory to cluster ",
                           absl::BytesToHexString(hello.cluster_id)),
              cluster_id_};
    }
    return grpc::Status::OK;
  }

  PeerHandler* handler() const { return handler_; }

 private:
  const MemberId self_;
  PeerHandler* const handler_;
  const std::map<MemberId, std::string> members_;
  std::unique_ptr<grpc::Server> server_;
  Mutex mutex_;
  std::string cluster_id_ ABSL_GUARDED_BY(mutex_);
};

// A stream that a peer opened to us; gRPC owns it until OnDone.
class PeerNetwork::Receiver : public grpc::ServerGenericBidiReactor {
 public:
  explicit Receiver(Service* service) : service_(service) { StartRead(&buffer_); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      // Comes after all that the peer has sent, unlike the end of our own stream to it.
      if (accepted_) service_->handler()->OnPeerDown(from_);
      Finish(grpc::Status::OK);
      return;
    }
    absl::StatusOr<PeerBatch> batch = DecodeFrames(ToString(buffer_));
    if (!batch.ok()) {
      Finish({grpc::StatusCode::DATA_LOSS, std::string(batch.status().message())});
      return;
    }
    if (batch->has_hello && !accepted_) {
      if (grpc::Status status = service_->Check(batch->hello); !status.ok()) {
        Finish(status);
        return;
      }
      from_ = batch->hello.from;
      accepted_ = true;
      StartSendInitialMetadata();  // tells the other side that it is accepted
    }
    if (!accepted_) {
      Finish({grpc::StatusCode::FAILED_PRECONDITION, "a stream has to begin with a hello"});
      return;
    }
    service_->handler()->OnPeerBatch(from_, *std::move(batch));
    StartRead(&buffer_);
  }

  void OnDone() override { delete this; }

 private:
  Service* const service_;
  MemberId from_;
  bool accepted_ = false;
  grpc::ByteBuffer buffer_;
};

grpc::ServerGenericBidiReactor* PeerNetwork::Service::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  if (context->method() != kStreamMethod) return CallbackGenericService::CreateReactor(context);
  return new Receiver(this);
}

PeerNetwork::PeerNetwork(PeerNetworkOptions options, PeerHandler* handler)
    : options_(std::move(options)), handler_(handler) {
  service_ = std::make_unique<Service>(options_.self, handler_, options_.addresses);
  for (const auto& [peer, address] : options_.addresses) {
    ASSERT(peer != options_.self);
    links_[peer] = std::make_shared<Link>(options_.self, peer, address, handler_);
  }
}

PeerNetwork::~PeerNetwork() { Stop(); }

absl::Status PeerNetwork::Start(const std::string& cluster_id) {
  SetClusterId(cluster_id);
  if (options_.addresses.empty()) return absl::OkStatus();  // a cluster of one
  if (absl::Status s = service_->Listen(options_.listen_address); !s.ok()) return s;
  Tick();
  return absl::OkStatus();
}

void PeerNetwork::Stop() {
  for (auto& [peer, link] : links_) link->Stop();
  service_->Stop();
}

void PeerNetwork::SetClusterId(const std::string& cluster_id) {
  service_->SetClusterId(cluster_id);
  for (auto& [peer, link] : links_) link->SetClusterId(cluster_id);
}

void PeerNetwork::Send(std::vector<consensus::Message> messages) {
  for (const consensus::Message& message : messages) {
    auto link = links_.find(message.to);
    if (link == links_.end()) continue;
    link->second->Write([&](std::string* out) { AppendMessageFrame(message, out); });
  }
}

void PeerNetwork::Forward(MemberId to, const std::vector<std::string_view>& commands) {
  auto link = links_.find(to);
  if (link == links_.end()) return;
  link->second->Write([&](std::string* out) { AppendForwardFrame(commands, out); });
}

void PeerNetwork::SendTouches(MemberId to, const std::vector<int64_t>& sessions) {
  auto link = links_.find(to);
  if (link == links_.end()) return;
  link->second->Write([&](std::string* out) { AppendTouchFrame(sessions, out); });
}

void PeerNetwork::Tick() {
  const Clock::time_point now = Clock::now();
  for (auto& [peer, link] : links_) link->Tick(now);
}

int64_t PeerNetwork::DownForMs(MemberId member) const {
  auto link = links_.find(member);
  return link == links_.end() ? 0 : link->second->DownForMs(Clock::now());
}

}  // namespace quorate::rpc
