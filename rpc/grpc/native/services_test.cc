// SPDX-License-Identifier: Apache-2.0

// Tests the services over real gRPC in one process, in front of a tree that applies on its own
// thread.
#include "rpc/grpc/native/services.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "rpc/frontend/frontends.h"
#include "rpc/frontend/testing/fake_service.h"
#include "rpc/grpc/caller.h"
#include "rpc/grpc/native/frontend.h"
#include "rpc/grpc/native/stream_thread.h"
#include "rpc/grpc/native/translation.h"
#include "rpc/proto/errors.h"
#include "rpc/proto/quorate/v1/session.grpc.pb.h"
#include "rpc/proto/quorate/v1/tree.grpc.pb.h"
#include "rpc/proto/rpc_status.pb.h"

namespace quorate::rpc::native {
namespace {

// Applies submitted batches on its own thread.
class ApplyingService final : public Service {
 public:
  ~ApplyingService() override { Stop(); }
  void Start(Frontend* frontend) {
    frontend_ = frontend;
    thread_ = std::thread([this] { Run(); });
  }
  void Stop() {
    {
      MutexLock lock(&queue_mutex_);
      stopped_ = true;
      changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

  GuardedTree::ReadGuard ReadTree() const override { return tree_.Read(); }
  tree::Proposer proposer() const override { return {3, 5}; }
  void Submit(CommandBatch batch) override {
    MutexLock lock(&queue_mutex_);
    batches_.push_back(std::move(batch));
    changed_.notify_one();
  }
  uint32_t cluster_version() const override { return tree::kVersionNumbered; }
  bool congested() const override { return false; }
  bool refuses_data() const override { return false; }
  void Sync(uint32_t proposer_tag, uint64_t sync_id) override {
    MutexLock lock(&queue_mutex_);
    syncs_.emplace_back(proposer_tag, sync_id);
    changed_.notify_one();
  }
  void Touch(std::vector<int64_t>) override {}
  ServerStatus status() const override {
    ServerStatus status;
    status.leader_known = status.caught_up = status.in_touch = true;
    return status;
  }
  ServerMetrics metrics() const override { return {}; }

 private:
  void Run() {
    for (;;) {
      std::vector<CommandBatch> batches;
      std::vector<std::pair<uint32_t, uint64_t>> syncs;
      {
        std::unique_lock<std::mutex> lock(queue_mutex_.native());
        changed_.wait(lock, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
          return stopped_ || !batches_.empty() || !syncs_.empty();
        });
        if (stopped_) return;
        batches.swap(batches_);
        syncs.swap(syncs_);
      }
      for (CommandBatch& batch : batches) Apply(&batch);
      frontend_->OnBatchApplied();
      for (const auto& [tag, id] : syncs) frontend_->OnSyncDone(tag, id, tree_.Read()->last_zxid());
    }
  }
  void Apply(CommandBatch* batch) {
    GuardedTree::WriteGuard tree = tree_.Write();
    for (const CommandBatch::Range& range : batch->commands) {
      tree::StampSequence(batch->bytes->data() + range.offset, ++sequence_);
      tree::StampTime(batch->bytes->data() + range.offset, kStartMs);
      tree->Apply(tree::Zxid(static_cast<int64_t>(sequence_)), batch->view(range), proposer(),
                  frontend_);
    }
  }

  GuardedTree tree_;
  uint64_t sequence_ = 0;
  Frontend* frontend_ = nullptr;
  std::thread thread_;
  Mutex queue_mutex_;
  std::condition_variable changed_;
  std::vector<CommandBatch> batches_ ABSL_GUARDED_BY(queue_mutex_);
  std::vector<std::pair<uint32_t, uint64_t>> syncs_ ABSL_GUARDED_BY(queue_mutex_);
  bool stopped_ ABSL_GUARDED_BY(queue_mutex_) = false;
};

class Front {
 public:
  Front() {
    service_.Start(&frontends_);
    threads_.Start();
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    for (const auto& [name, service] : services_.services()) builder.RegisterService(service);
    server_ = builder.BuildAndStart();
    REQUIRE(port != 0);
    channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                  grpc::InsecureChannelCredentials());
    tree = v1::TreeService::NewStub(channel);
    sessions = v1::SessionService::NewStub(channel);
  }
  ~Front() { Shutdown(); }
  void Shutdown() {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    server_.reset();
    service_.Stop();
    threads_.Stop();
  }

 private:
  const Config config_ = TestConfig();
  ApplyingService service_;
  EventHistory history_{1 << 20};
  NativeFrontend frontend_{config_, &service_, Clock::System(), RandomBytes::System(), &history_};
  Frontends frontends_{{{&frontend_, kNativeTags}}, &history_};
  StreamThreads threads_{&frontend_, 2};
  Administrators administrators_{config_, Clock::System()};
  NativeServices services_{&threads_, &administrators_};
  std::unique_ptr<grpc::Server> server_;

 public:
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::TreeService::Stub> tree;
  std::unique_ptr<v1::SessionService::Stub> sessions;
};

grpc::Status Create(Front& front, const std::string& path, v1::CreateResponse* response) {
  grpc::ClientContext context;
  v1::CreateRequest request;
  request.mutable_create()->set_path(path);
  return front.tree->Create(&context, request, response);
}

// A session's stream, as a client sees it.
class Session {
 public:
  explicit Session(Front& front) : stream(front.sessions->Session(&context)) {}
  v1::SessionOpened Open(int64_t session_id = 0) {
    v1::SessionRequest message;
    message.mutable_open()->set_session_id(session_id);
    message.mutable_open()->set_password("0123456789abcdef");
    REQUIRE(stream->Write(message));
    v1::SessionResponse response;
    REQUIRE(stream->Read(&response));
    return response.opened();
  }
  // Reads messages until they have at least `count` items.
  std::vector<v1::SessionItem> Read(size_t count) {
    std::vector<v1::SessionItem> items;
    v1::SessionResponse response;
    while (items.size() < count) {
      REQUIRE(stream->Read(&response));
      items.insert(items.end(), response.items().begin(), response.items().end());
    }
    return items;
  }

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SessionRequest, v1::SessionResponse>> stream;
};

TEST_CASE("AddressOf extracts the address from gRPC's name of a peer") {
  CHECK(AddressOf("ipv4:10.0.0.1:7000") == "10.0.0.1");
  CHECK(AddressOf("ipv6:[::1]:7000") == "::1");
  CHECK(AddressOf("ipv6:%5B::1%5D:7000") == "::1");
  CHECK(AddressOf("ipv6:%5B::ffff:10.0.0.1%5D:7000") == "10.0.0.1");
  CHECK(AddressOf("unix:/tmp/socket") == "127.0.0.1");
  CHECK(AddressOf("unix:") == "127.0.0.1");
}

TEST_CASE("unary calls work over gRPC, with their errors in the details of the status") {
  Front front;
  v1::CreateResponse created;
  REQUIRE(Create(front, "/a", &created).ok());
  const grpc::Status status = Create(front, "/a", &created);
  CHECK(status.error_code() == grpc::StatusCode::ALREADY_EXISTS);
  rpc_status::Status details;
  REQUIRE(details.ParseFromString(status.error_details()));
  CHECK(details.code() == static_cast<int>(grpc::StatusCode::ALREADY_EXISTS));
  REQUIRE(details.details_size() == 1);
  CHECK(details.details(0).type_url() == v1::kErrorDetailUrl);
  v1::ErrorDetail detail;
  REQUIRE(detail.ParseFromString(details.details(0).value()));
  CHECK(detail.code() == v1::ERROR_CODE_NODE_EXISTS);
  CHECK(detail.path() == "/a");

  grpc::ClientContext context;
  v1::GetRequest get;
  get.set_path("/a");
  get.mutable_options()->set_linearizable(true);
  v1::GetResponse got;
  CHECK(front.tree->Get(&context, get, &got).ok());
  CHECK(got.zxid() == created.zxid() + 1);
}

TEST_CASE("sessions work over gRPC") {
  Front front;
  Session session(front);
  const v1::SessionOpened opened = session.Open();
  REQUIRE(opened.session_id() != 0);
  v1::SessionRequest message;
  constexpr uint64_t kWrites = 2000;
  for (uint64_t i = 1; i <= kWrites; ++i) {
    v1::Request* request = message.add_requests();
    request->set_id(i);
    request->mutable_write()->set_sequence(i);
    v1::Operation* operation = request->mutable_write()->add_operations();
    operation->mutable_create()->set_path("/n" + std::to_string(i));
    message.set_acknowledged_sequence(i > 500 ? i - 500 : 0);
    if (i % 100 != 0) continue;
    REQUIRE(session.stream->Write(message));
    message.Clear();
  }
  const std::vector<v1::SessionItem> items = session.Read(kWrites);
  for (uint64_t i = 0; i < kWrites; ++i) {
    REQUIRE(items[i].response().id() == i + 1);
    REQUIRE(items[i].response().error() == v1::ERROR_CODE_UNSPECIFIED);
  }

  // The session moves to another stream. The old stream ends with an error.
  Session other(front);
  CHECK(other.Open(opened.session_id()).last_sequence() == kWrites);
  v1::SessionResponse response;
  CHECK_FALSE(session.stream->Read(&response));
  CHECK(session.stream->Finish().error_code() == grpc::StatusCode::ABORTED);

  message.Clear();
  message.add_requests()->mutable_close();
  REQUIRE(other.stream->Write(message));
  other.Read(1);
  CHECK_FALSE(other.stream->Read(&response));
  CHECK(other.stream->Finish().ok());
}

TEST_CASE("a watch over gRPC ends when its client cancels it") {
  Front front;
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_path("/");
  request.set_scope(v1::WATCH_SCOPE_SUBTREE);
  auto stream = front.tree->Watch(&context, request);
  v1::WatchResponse response;
  REQUIRE(stream->Read(&response));
  v1::CreateResponse created;
  REQUIRE(Create(front, "/a", &created).ok());
  do {
    REQUIRE(stream->Read(&response));
  } while (response.events().empty());
  CHECK(response.events(0).path() == "/a");
  CHECK(response.events(0).zxid() == created.zxid());
  context.TryCancel();
  while (stream->Read(&response)) {
  }
  CHECK(stream->Finish().error_code() == grpc::StatusCode::CANCELLED);
}

TEST_CASE("a server that stops ends all open streams") {
  Front front;
  Session session(front);
  session.Open();
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_path("/");
  auto watch = front.tree->Watch(&context, request);
  v1::WatchResponse first;
  REQUIRE(watch->Read(&first));
  front.Shutdown();
  v1::SessionResponse response;
  while (session.stream->Read(&response)) {
  }
  CHECK_FALSE(session.stream->Finish().ok());
  CHECK_FALSE(watch->Read(&first));
  CHECK_FALSE(watch->Finish().ok());
}

TEST_CASE("clients may connect and disconnect at any time") {
  Front front;
  std::atomic<int> opened{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&front, &opened, i] {
      for (int round = 0; round < 50; ++round) {
        grpc::ClientContext context;
        auto stream = front.sessions->Session(&context);
        v1::SessionRequest message;
        message.mutable_open()->set_password("0123456789abcdef");
        for (int k = 0; k < 50; ++k) message.add_requests()->mutable_get()->set_path("/");
        stream->Write(message);
        v1::SessionResponse response;
        if ((round + i) % 3 == 0 && stream->Read(&response)) opened.fetch_add(1);
        if ((round + i) % 2 == 0) {
          context.TryCancel();
        } else {
          stream->WritesDone();
        }
        while (stream->Read(&response)) {
        }
        stream->Finish();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  CHECK(opened.load() > 0);
  v1::CreateResponse created;
  CHECK(Create(front, "/still-serves", &created).ok());
}

}  // namespace
}  // namespace quorate::rpc::native
