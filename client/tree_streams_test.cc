// SPDX-License-Identifier: Apache-2.0

// Tests of streams of the tree with real servers.

#include "client/tree_streams.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/testing/server_fixture.h"
#include "rpc/proto/quorate/v1/tree.grpc.pb.h"

namespace quorate {
namespace {

using testing::ServerFixture;
using Strings = std::vector<std::string>;

std::unique_ptr<ServerFixture> StartServers(int members) {
  auto servers = ServerFixture::Start({.members = members});
  INFO(servers.status().ToString());
  REQUIRE(servers.ok());
  return *std::move(servers);
}

std::unique_ptr<Client> Connect(const std::string& servers) {
  ClientOptions options;
  options.servers = servers;
  auto client = Client::Connect(std::move(options));
  INFO(client.status().ToString());
  REQUIRE(client.ok());
  return *std::move(client);
}

std::unique_ptr<Scan> NewScan(const std::string& servers, std::string_view path,
                              ScanOptions options = {}) {
  auto scan = Scan::Create({.servers = servers}, path, std::move(options));
  INFO(scan.status().ToString());
  REQUIRE(scan.ok());
  return *std::move(scan);
}

ScanPage NextPage(Scan* scan) {
  absl::StatusOr<std::optional<ScanPage>> page = scan->Next();
  INFO(page.status().ToString());
  REQUIRE(page.ok());
  REQUIRE(page->has_value());
  return **std::move(page);
}

Strings PathsOf(Scan* scan) {
  Strings paths;
  for (;;) {
    absl::StatusOr<std::optional<ScanPage>> page = scan->Next();
    INFO(page.status().ToString());
    REQUIRE(page.ok());
    if (!page->has_value()) return paths;
    for (const ScanEntry& entry : (*page)->entries) paths.push_back(entry.path);
  }
}

// Creates `count` children of /large, each with a kilobyte of data.
int64_t CreateLarge(Client* client, int count) {
  REQUIRE(client->Create("/large").ok());
  int64_t zxid = 0;
  for (int begin = 0; begin < count; begin += 500) {
    Transaction transaction;
    for (int i = begin; i < std::min(count, begin + 500); ++i) {
      transaction.Create("/large/" + std::to_string(100'000 + i), std::string(1000, 'x'));
    }
    const auto committed = client->Commit(transaction);
    REQUIRE(committed.ok());
    zxid = committed->zxid;
  }
  return zxid;
}

TEST_CASE("a scan shows a subtree below a chroot with what was asked for") {
  const auto servers = StartServers(1);
  const auto client = Connect(servers->servers());
  REQUIRE(client->Create("/root").ok());
  for (const char* path : {"/root/t", "/root/t/a", "/root/t/a/x", "/root/t/b"}) {
    REQUIRE(client->Create(path, std::string("data of ") + path).ok());
  }
  REQUIRE(client->Create("/root/t/e", "", {.mode = CreateMode::kEphemeral}).ok());
  const std::string target = servers->servers() + "/root";
  CHECK(PathsOf(NewScan(target, "/t").get()) == Strings{"/t/a", "/t/a/x", "/t/b", "/t/e"});
  ScanOptions options;
  options.order = ScanOrder::kLevels;
  CHECK(PathsOf(NewScan(target, "/t", options).get()) == Strings{"/t/a", "/t/b", "/t/e", "/t/a/x"});
  options.kinds = {ZnodeKind::kEphemeral};
  options.with_stats = true;
  const auto ephemerals = NewScan(target, "/t", options);
  const ScanPage page = NextPage(ephemerals.get());
  REQUIRE(page.entries.size() == 1);
  CHECK(page.entries[0].kind == ZnodeKind::kEphemeral);
  REQUIRE(page.entries[0].stat.has_value());
  CHECK(page.entries[0].stat->ephemeral_session == client->session_id());
  options = {};
  options.with_data = true;
  options.depth_max = 1;
  options.prefix = "b";
  const auto data = NewScan(target, "/t", options);
  CHECK(NextPage(data.get()).entries[0].data == "data of /root/t/b");
  CHECK(ErrorOf(NewScan(target, "/none")->Next().status()) == ErrorCode::kNoNode);
  CHECK(Scan::Create({.servers = target}, "t").status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(Scan::Create({.servers = ""}, "/t").status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("a scan goes on at another member when its member is killed, and from a token") {
  const auto servers = StartServers(3);
  const auto client = Connect(servers->servers());
  constexpr int kChildren = 5000;
  const int64_t zxid = CreateLarge(client.get(), kChildren);
  ScanOptions options;
  options.with_data = true;
  options.min_zxid = zxid;
  // The member that serves the scan is the first one of the list.
  const std::string list =
      servers->address(1) + "," + servers->address(2) + "," + servers->address(3);
  const auto scan = NewScan(list, "/large", options);
  Strings paths;
  const ScanPage first = NextPage(scan.get());
  for (const ScanEntry& entry : first.entries) paths.push_back(entry.path);
  REQUIRE(paths.size() < kChildren);
  servers->Kill(1);
  const Strings rest = PathsOf(scan.get());
  CHECK_FALSE(rest.empty());
  paths.insert(paths.end(), rest.begin(), rest.end());
  REQUIRE(paths.size() == kChildren);
  for (int i = 0; i < kChildren; ++i)
    CHECK(paths[static_cast<size_t>(i)] == "/large/" + std::to_string(100'000 + i));
  options.token = first.token;
  CHECK(PathsOf(NewScan(list, "/large", options).get()).size() == kChildren - first.entries.size());
}

TEST_CASE("a scan that no member serves fails after its patience, and Cancel ends one that waits") {
  TreeStreamOptions options;
  options.servers = "127.0.0.1:1";
  options.patience_ms = 200;
  auto scan = Scan::Create(options, "/");
  REQUIRE(scan.ok());
  const absl::Status status = (*scan)->Next().status();
  CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK(status.message().find("127.0.0.1:1") != absl::string_view::npos);
  CHECK((*scan)->Next().status() == status);

  const auto servers = StartServers(1);
  auto watch = EventStream::Create({.servers = servers->servers()}, "/a",
                                   {.progress_interval = std::chrono::hours(1)});
  REQUIRE(watch.ok());
  REQUIRE((*watch)->Next().ok());  // the watch has begun
  std::thread canceller([&] { (*watch)->Cancel(); });
  CHECK((*watch)->Next().status().code() == absl::StatusCode::kCancelled);
  canceller.join();
}

TEST_CASE("a watch returns each event once with its data while members are killed") {
  const auto servers = StartServers(3);
  const auto client = Connect(servers->servers());
  const auto created = client->Create("/t", "0");
  REQUIRE(created.ok());
  EventStreamOptions options;
  options.after_zxid = created->zxid;  // also where a member has not applied it yet
  options.scope = WatchScope::kSubtree;
  options.with_value = true;
  options.with_previous_value = true;
  options.progress_interval = std::chrono::milliseconds(200);
  const std::string list =
      servers->address(1) + "," + servers->address(2) + "," + servers->address(3);
  auto watch = EventStream::Create({.servers = list}, "/t", options);
  REQUIRE(watch.ok());
  REQUIRE((*watch)->Next().ok());  // the watch has begun
  constexpr int kSets = 60;
  std::atomic<int> failed{0};
  std::thread writer([&] {
    for (int i = 1; i <= kSets; ++i) {
      if (i == kSets / 3) servers->Kill(1);
      if (!client->Set("/t", std::to_string(i)).ok()) ++failed;
    }
  });
  std::vector<TreeEvent> events;
  while (events.size() < kSets) {
    absl::StatusOr<EventBatch> batch = (*watch)->Next();
    INFO(batch.status().ToString());
    REQUIRE(batch.ok());
    for (TreeEvent& event : batch->events) events.push_back(std::move(event));
  }
  writer.join();
  CHECK(failed == 0);
  int with_data = 0;
  for (int i = 0; i < kSets; ++i) {
    const TreeEvent& event = events[static_cast<size_t>(i)];
    CHECK(event.event.path == "/t");
    CHECK(event.event.type == EventType::kNodeDataChanged);
    if (i > 0) CHECK(event.event.zxid > events[static_cast<size_t>(i - 1)].event.zxid);
    if (event.values_lost) continue;
    ++with_data;
    CHECK(event.value == std::to_string(i + 1));
    CHECK(event.previous_value == std::to_string(i));
  }
  CHECK(with_data > 0);
  // Nothing happens any more, and the zxid is reported nevertheless.
  const absl::StatusOr<EventBatch> quiet = (*watch)->Next();
  REQUIRE(quiet.ok());
  CHECK(quiet->events.empty());
}

// A server that breaks its streams at chosen places.
class BreakingServer final : public v1::TreeService::Service {
 public:
  BreakingServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    REQUIRE(server_ != nullptr);
  }
  ~BreakingServer() override { server_->Shutdown(); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  // Sets the messages of the next streams, each of which breaks after its last one.
  void SetWatches(std::vector<std::vector<v1::WatchResponse>> streams) {
    const std::lock_guard lock(mutex_);
    watches_ = std::move(streams);
  }
  // Returns the after_zxid of the streams.
  std::vector<int64_t> begins() {
    const std::lock_guard lock(mutex_);
    return begins_;
  }
  int scans() {
    const std::lock_guard lock(mutex_);
    return scans_;
  }

  grpc::Status Watch(grpc::ServerContext*, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::WatchResponse>* writer) override {
    const std::lock_guard lock(mutex_);
    const size_t stream = begins_.size();
    begins_.push_back(request->after_zxid());
    if (stream >= watches_.size()) return {grpc::StatusCode::OUT_OF_RANGE, "no more streams"};
    for (const v1::WatchResponse& message : watches_[stream]) writer->Write(message);
    return {grpc::StatusCode::UNAVAILABLE, "broken"};
  }
  // Ends without an error after a page that is not the last one.
  grpc::Status Scan(grpc::ServerContext*, const v1::ScanRequest*,
                    grpc::ServerWriter<v1::ScanResponse>* writer) override {
    const std::lock_guard lock(mutex_);
    ++scans_;
    v1::ScanResponse page;
    page.set_zxid(5);
    page.set_token("t");
    writer->Write(page);
    return grpc::Status::OK;
  }

 private:
  int port_ = 0;
  std::mutex mutex_;
  std::vector<std::vector<v1::WatchResponse>> watches_;
  std::vector<int64_t> begins_;
  int scans_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

v1::WatchResponse MessageOf(int64_t zxid, const std::vector<int64_t>& events) {
  v1::WatchResponse message;
  if (zxid != 0) message.set_zxid(zxid);
  for (const int64_t each : events) {
    v1::Event* event = message.add_events();
    event->set_type(v1::EVENT_TYPE_NODE_DATA_CHANGED);
    event->set_path("/a");
    event->set_zxid(each);
  }
  return message;
}

TEST_CASE("a watch goes on before its last event if the members have sent no zxid since then") {
  BreakingServer server;
  server.SetWatches({
      {MessageOf(10, {}), MessageOf(0, {20, 20})},
      // The first two events of 20 come again.
      {MessageOf(19, {}), MessageOf(0, {20, 20, 20})},
      // It breaks before the events of 20 have come again.
      {MessageOf(19, {})},
      {MessageOf(19, {20, 20, 20, 21})},
      {MessageOf(30, {21, 22})},
  });
  auto watch = EventStream::Create({.servers = server.address()}, "/a");
  REQUIRE(watch.ok());
  std::vector<int64_t> zxids;
  absl::StatusOr<EventBatch> batch = (*watch)->Next();
  for (; batch.ok(); batch = (*watch)->Next()) {
    for (const TreeEvent& event : batch->events) zxids.push_back(event.event.zxid);
  }
  CHECK(batch.status().code() == absl::StatusCode::kOutOfRange);
  CHECK(zxids == std::vector<int64_t>{20, 20, 20, 21, 22});
  CHECK(server.begins() == std::vector<int64_t>{0, 19, 19, 19, 20, 30});
}

TEST_CASE("a scan that a server has ended too early does not go on") {
  BreakingServer server;
  const auto scan = NewScan(server.address(), "/");
  CHECK(NextPage(scan.get()).zxid == 5);
  const absl::Status status = scan->Next().status();
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK(scan->Next().status() == status);
  CHECK(server.scans() == 1);
}

TEST_CASE("a watch leaves a member that has vanished with its connections open") {
  const auto servers = StartServers(3);
  const auto client = Connect(servers->servers());
  REQUIRE(client->Create("/t", "0").ok());
  const int leader = servers->Leader();
  REQUIRE(leader != 0);
  const int watched = leader % 3 + 1;
  const int other = watched % 3 + 1;
  auto watch = EventStream::Create(
      {.servers = servers->address(watched) + "," + servers->address(other), .patience_ms = 60'000},
      "/t", {.progress_interval = std::chrono::hours(1)});
  REQUIRE(watch.ok());
  REQUIRE((*watch)->Next().ok());  // the watch has begun
  servers->Pause(watched);
  const auto writer = Connect(servers->address(leader));
  REQUIRE(writer->Set("/t", "1").ok());
  std::vector<TreeEvent> events;
  while (events.empty()) {
    absl::StatusOr<EventBatch> batch = (*watch)->Next();
    INFO(batch.status().ToString());
    REQUIRE(batch.ok());
    events = std::move(batch->events);
  }
  CHECK(events[0].event.path == "/t");
  servers->Resume(watched);
}

TEST_CASE("a watch obeys its patience where a member accepts connections and does not answer") {
  const auto servers = StartServers(1);
  servers->Pause(1);
  auto watch = EventStream::Create({.servers = servers->servers(), .patience_ms = 300}, "/t",
                                   {.progress_interval = std::chrono::hours(1)});
  REQUIRE(watch.ok());
  const absl::Status status = (*watch)->Next().status();
  CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK(status.message().find(servers->address(1)) != absl::string_view::npos);
  servers->Resume(1);
}

}  // namespace
}  // namespace quorate
