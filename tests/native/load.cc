// SPDX-License-Identifier: Apache-2.0

// native_load: measures how fast the native front end is, and the processor time of the servers,
// with sessions over gRPC that each keep a constant number of requests pending (--depth).
//
//   native_load --servers HOST:PORT,... --operation write|read [--sessions 30] [--depth 1]
//               [--seconds 5] [--bytes 100] [--pids PID,...]
//
// Prints operations per second and the median and the 99th percentile of their latency; with the
// servers' pids, also the processor time of all servers together per operation, in microseconds.

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "rpc/proto/quorate/v1/session.grpc.pb.h"
#include "rpc/proto/times.h"

namespace {

using Clock = std::chrono::steady_clock;
namespace v1 = quorate::v1;

struct Options {
  std::vector<std::string> servers;
  std::string operation = "write";
  int sessions = 30;
  int depth = 1;
  int seconds = 5;
  int bytes = 100;
  std::vector<int> pids;
};

// Latencies of the operations that end while `on` is true.
struct Measurement {
  std::atomic<bool> on{false};
  std::mutex mutex;
  std::vector<int64_t> latencies_us;
};

class Session : public grpc::ClientBidiReactor<v1::SessionRequest, v1::SessionResponse> {
 public:
  Session(const Options& options, const std::string& server, int number, Measurement* measurement)
      : options_(options),
        measurement_(measurement),
        path_("/native-load-" + std::to_string(number)),
        data_(static_cast<size_t>(options.bytes), 'x') {
    // A connection of its own, as a client in a process of its own would have.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(), arguments);
    stub_ = v1::SessionService::NewStub(channel_);
    stub_->async()->Session(&context_, this);
    outgoing_.mutable_open()->set_password("native-load-pass");
    *outgoing_.mutable_open()->mutable_timeout() = v1::DurationOfMs(30'000);
    // It does not matter whether the znode exists already.
    v1::Operation* create = AddWrite();
    create->mutable_create()->set_path(path_);
    create->mutable_create()->set_data(data_);
    StartWrite(&outgoing_);
    StartRead(&incoming_);
    StartCall();
  }

  // Stops sending requests, ends the stream, and waits for its end.
  void Stop() {
    std::unique_lock<std::mutex> lock(mutex_);
    stopped_ = true;
    context_.TryCancel();
    ended_changed_.wait(lock, [this] { return ended_; });
  }
  bool WaitUntilUp() {
    std::unique_lock<std::mutex> lock(mutex_);
    return up_changed_.wait_for(lock, std::chrono::seconds(10), [this] { return up_; });
  }
  void Begin() {
    std::lock_guard<std::mutex> lock(mutex_);
    wanted_ = options_.depth;
    SendWanted();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    const Clock::time_point now = Clock::now();
    std::lock_guard<std::mutex> lock(mutex_);
    for (const v1::SessionItem& item : incoming_.items()) {
      if (!up_) {
        up_ = true;
        up_changed_.notify_all();
        continue;
      }
      if (item.response().error() != v1::ERROR_CODE_UNSPECIFIED) std::abort();
      acknowledged_ = std::max(acknowledged_, item.response().id());
      if (measurement_->on.load(std::memory_order_relaxed)) {
        latencies_us_.push_back(
            std::chrono::duration_cast<std::chrono::microseconds>(now - sent_.front()).count());
      }
      sent_.pop_front();
      ++wanted_;
    }
    SendWanted();
    StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return;
    std::lock_guard<std::mutex> lock(mutex_);
    writing_ = false;
    SendWanted();
  }
  void OnDone(const grpc::Status& status) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!stopped_) {
      std::fprintf(stderr, "native_load: %s\n", status.error_message().c_str());
      std::abort();
    }
    ended_ = true;
    {
      std::lock_guard<std::mutex> all(measurement_->mutex);
      measurement_->latencies_us.insert(measurement_->latencies_us.end(), latencies_us_.begin(),
                                        latencies_us_.end());
    }
    ended_changed_.notify_all();
  }

 private:
  v1::Operation* AddWrite() {
    v1::Request* request = outgoing_.add_requests();
    request->set_id(++sequence_);
    request->mutable_write()->set_sequence(sequence_);
    return request->mutable_write()->add_operations();
  }
  // REQUIRES: mutex_ is held.
  void SendWanted() {
    if (writing_ || wanted_ == 0 || stopped_) return;
    outgoing_.Clear();
    outgoing_.set_acknowledged_sequence(options_.operation == "write" ? acknowledged_ : 0);
    for (; wanted_ > 0; --wanted_) {
      if (options_.operation == "write") {
        v1::Operation* set = AddWrite();
        set->mutable_set()->set_path(path_);
        set->mutable_set()->set_data(data_);
      } else {
        v1::Request* request = outgoing_.add_requests();
        request->set_id(++sequence_);
        request->mutable_get()->set_path(path_);
      }
      sent_.push_back(Clock::now());
    }
    writing_ = true;
    StartWrite(&outgoing_);
  }

  const Options& options_;
  Measurement* const measurement_;
  const std::string path_;
  const std::string data_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::SessionService::Stub> stub_;
  grpc::ClientContext context_;
  v1::SessionRequest outgoing_;
  v1::SessionResponse incoming_;

  std::mutex mutex_;
  std::condition_variable up_changed_;
  std::condition_variable ended_changed_;
  bool up_ = false;
  bool stopped_ = false;
  bool ended_ = false;
  bool writing_ = true;  // the constructor sends the first message
  int wanted_ = 0;
  uint64_t sequence_ = 0;
  uint64_t acknowledged_ = 0;
  std::deque<Clock::time_point> sent_;
  std::vector<int64_t> latencies_us_;
};

double CpuSecondsOf(const std::vector<int>& pids) {
  double seconds = 0;
  for (int pid : pids) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    // The name, in parentheses, may contain blanks. User and system time are the 12th and 13th
    // fields after it.
    std::istringstream rest(text.substr(text.rfind(')') + 1));
    std::string skipped;
    for (int i = 0; i < 11; ++i) rest >> skipped;
    double user = 0, system = 0;
    rest >> user >> system;
    seconds += (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return seconds;
}

int Run(const Options& options) {
  Measurement measurement;
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < options.sessions; ++i) {
    const auto server = static_cast<size_t>(i) % options.servers.size();
    sessions.push_back(
        std::make_unique<Session>(options, options.servers[server], i, &measurement));
  }
  for (const auto& session : sessions) {
    if (session->WaitUntilUp()) continue;
    std::fprintf(stderr, "native_load: a session was not opened within 10 s\n");
    return 1;
  }
  for (const auto& session : sessions) session->Begin();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const double cpu_before = CpuSecondsOf(options.pids);
  const Clock::time_point begin = Clock::now();
  measurement.on = true;
  std::this_thread::sleep_for(std::chrono::seconds(options.seconds));
  measurement.on = false;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const double cpu = CpuSecondsOf(options.pids) - cpu_before;
  for (const auto& session : sessions) session->Stop();
  std::vector<int64_t>& latencies = measurement.latencies_us;
  if (latencies.empty()) return 1;
  std::sort(latencies.begin(), latencies.end());
  const auto count = static_cast<double>(latencies.size());
  std::printf("%s %d x %d: %.0f/s, p50 %lld us, p99 %lld us", options.operation.c_str(),
              options.sessions, options.depth, count / seconds,
              static_cast<long long>(latencies[latencies.size() / 2]),
              static_cast<long long>(latencies[latencies.size() * 99 / 100]));
  if (!options.pids.empty()) std::printf(", %.1f us CPU", cpu * 1e6 / count);
  std::printf("\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Measures the speed of the native front end.");
  app.add_option("--servers", options.servers, "gRPC addresses")->delimiter(',')->required();
  app.add_option("--operation", options.operation)->check(CLI::IsMember({"write", "read"}));
  app.add_option("--sessions", options.sessions)->check(CLI::PositiveNumber);
  app.add_option("--depth", options.depth, "number of pending requests of each session")
      ->check(CLI::Range(1, 1000));
  app.add_option("--seconds", options.seconds)->check(CLI::PositiveNumber);
  app.add_option("--bytes", options.bytes, "size of each value in bytes")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--pids", options.pids, "process ids of the servers")->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  return Run(options);
}
