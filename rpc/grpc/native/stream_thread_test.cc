// SPDX-License-Identifier: Apache-2.0

// Tests threads that drive stream loops, with fake channels instead of gRPC's.
#include "rpc/grpc/native/stream_thread.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/condition_variable.h"
#include "base/mutex.h"
#include "rpc/frontend/frontends.h"
#include "rpc/frontend/testing/fake_service.h"
#include "rpc/grpc/native/frontend.h"
#include "rpc/proto/quorate/v1/tree.pb.h"
#include "tree/testing/tree_test_util.h"

namespace quorate::rpc::native {
namespace {

constexpr size_t kDataBytes = 600'000;

// A clock that the test advances and the loop's thread reads.
class TestClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point Now() const override {
    return std::chrono::steady_clock::time_point(std::chrono::milliseconds(ms_.load()));
  }
  int64_t WallMs() const override { return ms_; }
  void Advance(int64_t ms) { ms_ += ms; }

 private:
  std::atomic<int64_t> ms_{kStartMs};
};

// A channel that counts the calls to it. Threads can wait for them.
class FakeChannel final : public Channel {
 public:
  explicit FakeChannel(bool is_call) : is_call_(is_call) {}

  void Read() override { Set(&reads_); }
  void Write(std::string message) override {
    MutexLock lock(&mutex_);
    bytes_ = message.size();
    ++writes_;
    changed_.NotifyAll();
  }
  void Finish(const absl::Status&) override { Set(&finished_); }
  bool sends_with_finish() const override { return is_call_; }
  void Cancel() override { Set(&cancelled_); }

  void AwaitRead() { Await(&reads_); }
  // Waits for a Write, and returns the size of the message.
  size_t AwaitWrite() {
    Await(&writes_);
    MutexLock lock(&mutex_);
    return bytes_;
  }
  void AwaitFinish() { Await(&finished_); }
  void AwaitCancel() { Await(&cancelled_); }
  bool cancelled() const {
    MutexLock lock(&mutex_);
    return cancelled_ > 0;
  }

 private:
  void Set(int* count) {
    MutexLock lock(&mutex_);
    ++*count;
    changed_.NotifyAll();
  }
  void Await(const int* count) {
    MutexLock lock(&mutex_);
    while (*count == 0) changed_.Wait(&mutex_);
  }

  const bool is_call_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  size_t bytes_ = 0;
  int reads_ = 0;
  int writes_ = 0;
  int finished_ = 0;
  int cancelled_ = 0;
};

// A stream thread in front of a tree that has the znode /long.
CallerProof SomeCaller() {
  CallerProof proof;
  proof.principal.address = "10.0.0.1";
  return proof;
}

class Front {
 public:
  Front() {
    service.current.caught_up = service.current.in_touch = true;
    const std::string data(kDataBytes, 'x');
    tree::Request request;
    request.ops.push_back(tree::MakeCreate("/long", data));
    CommandBatch batch;
    tree::CommandHeader header;
    header.proposer = {1, 1};  // another server
    tree::AppendRequest(header, request, batch.bytes.get());
    batch.commands.push_back({0, batch.bytes->size()});
    service.Submit(std::move(batch));
    service.Apply(&frontends);
    service.memory().SetLimit(4'000'000);  // replies may take a million of these bytes
    threads.Start();
  }
  ~Front() { threads.Stop(); }

  int64_t unsent() { return service.memory().used(MemoryUse::kUnsent); }
  StreamHandle Get(FakeChannel* channel) {
    const StreamHandle handle = threads.NewHandle();
    handle.Open(Method::kGet, SomeCaller(), channel);
    channel->AwaitRead();
    v1::GetRequest get;
    get.set_path("/long");
    handle.OnMessage(get.SerializeAsString());
    return handle;
  }

  const Config config = TestConfig();
  TestClock clock;
  CountingBytes random;
  FakeService service;
  EventHistory history{1 << 20};
  NativeFrontend frontend{config, &service, &clock, &random, &history};
  Frontends frontends{{{&frontend, kNativeTags}}, &history};
  StreamThreads threads{&frontend, 1};
};

TEST_CASE("the reply of a call counts as unsent until it is sent") {
  Front f;
  FakeChannel channel(/*is_call=*/true);
  const StreamHandle handle = f.Get(&channel);
  const size_t bytes = channel.AwaitWrite();
  channel.AwaitFinish();  // Finish sends the reply
  CHECK(bytes > kDataBytes);
  CHECK(f.unsent() == static_cast<int64_t>(bytes));
  handle.OnWritten();
  CHECK(f.unsent() == 0);
}

TEST_CASE("calls whose clients do not read the reply are cut off when replies exceed their share") {
  Front f;
  FakeChannel first(/*is_call=*/true);
  FakeChannel second(/*is_call=*/true);
  const StreamHandle first_handle = f.Get(&first);
  first.AwaitFinish();
  const StreamHandle second_handle = f.Get(&second);
  second.AwaitFinish();
  f.clock.Advance(1500);
  // Cutting off one of the calls frees enough memory, and is done in one pass.
  while (f.service.memory().closed() == 0) std::this_thread::yield();
  CHECK(first.cancelled() != second.cancelled());
  first_handle.OnWritten();
  second_handle.OnWritten();
  CHECK(f.unsent() == 0);
}

TEST_CASE("a stream's message counts as unsent until it is written, even if the stream ends") {
  Front f;
  FakeChannel channel(/*is_call=*/false);
  const StreamHandle handle = f.threads.NewHandle();
  handle.Open(Method::kWatch, SomeCaller(), &channel);
  channel.AwaitRead();
  v1::WatchRequest watch;
  watch.set_path("/");
  handle.OnMessage(watch.SerializeAsString());
  const size_t bytes = channel.AwaitWrite();
  CHECK(f.unsent() == static_cast<int64_t>(bytes));
  handle.OnCancelled();
  handle.OnWritten();
  channel.AwaitFinish();
  CHECK(f.unsent() == 0);
}

}  // namespace
}  // namespace quorate::rpc::native
