// SPDX-License-Identifier: Apache-2.0

#include "client/latency.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>

#include "rpc/proto/quorate/v1/cluster.grpc.pb.h"

namespace quorate::internal {
namespace {

using Clock = std::chrono::steady_clock;

// The round trips to each server. The first one includes the connection, and is not counted.
constexpr int kCalls = 4;
constexpr std::chrono::milliseconds kStopInterval{20};

// The calls to one server, one after the other.
class Probe {
 public:
  Probe(const Access& access, std::string address, std::chrono::system_clock::time_point deadline)
      : address_(std::move(address)), deadline_(deadline) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    stub_ = v1::ClusterService::NewStub(access.channels().NewChannel(address_, arguments));
  }

  // Begins the next call; this object is its tag in `queue`. The call shows no credentials: an answer
  // that refuses it takes as long.
  void Begin(grpc::CompletionQueue* queue) {
    context_.emplace();
    context_->set_deadline(deadline_);
    begun_ = Clock::now();
    call_ = stub_->AsyncVersion(&*context_, v1::VersionRequest(), queue);
    call_->Finish(&response_, &status_, this);
  }
  // Takes the outcome of a call. Returns whether another one is to be begun.
  bool OnFinished() {
    const auto duration = Clock::now() - begun_;
    const grpc::StatusCode code = status_.error_code();
    if (code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::DEADLINE_EXCEEDED ||
        code == grpc::StatusCode::CANCELLED) {
      return false;
    }
    if (calls_++ > 0) best_ = std::min<std::chrono::nanoseconds>(best_, duration);
    return calls_ < kCalls;
  }
  void Cancel() { context_->TryCancel(); }

  bool is_measured() const { return calls_ == kCalls; }
  const std::string& address() const { return address_; }
  std::chrono::nanoseconds best() const { return best_; }

 private:
  const std::string address_;
  const std::chrono::system_clock::time_point deadline_;
  std::unique_ptr<v1::ClusterService::Stub> stub_;
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::VersionResponse>> call_;
  v1::VersionResponse response_;
  grpc::Status status_;
  Clock::time_point begun_;
  int calls_ = 0;
  std::chrono::nanoseconds best_ = std::chrono::nanoseconds::max();
};

}  // namespace

Latencies MeasureLatencies(const Access& access, const std::vector<std::string>& addresses,
                           std::chrono::milliseconds patience, const std::stop_token& stop) {
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<Probe>> probes;
  for (const std::string& address : addresses) {
    probes.push_back(
        std::make_unique<Probe>(access, address, std::chrono::system_clock::now() + patience));
    probes.back()->Begin(&queue);
  }
  size_t running = probes.size();
  bool is_stopped = false;
  while (running > 0) {
    if (!is_stopped && stop.stop_requested()) {
      is_stopped = true;
      for (const auto& probe : probes) probe->Cancel();
    }
    void* tag = nullptr;
    bool ok = false;
    if (queue.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kStopInterval) !=
        grpc::CompletionQueue::GOT_EVENT) {
      continue;
    }
    auto* probe = static_cast<Probe*>(tag);
    if (probe->OnFinished() && !stop.stop_requested()) {
      probe->Begin(&queue);
    } else {
      --running;
    }
  }
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
  Latencies latencies;
  for (const auto& probe : probes) {
    if (probe->is_measured()) latencies[probe->address()] = probe->best();
  }
  return latencies;
}

int RankOf(std::chrono::nanoseconds latency) {
  const int64_t ms = std::chrono::duration_cast<std::chrono::milliseconds>(latency).count();
  return std::bit_width(static_cast<uint64_t>(std::max<int64_t>(ms, 0)));
}

}  // namespace quorate::internal
