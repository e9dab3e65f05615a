// SPDX-License-Identifier: Apache-2.0

// grpc_load: measures how fast three servers of Quorate or of etcd answer the same calls over gRPC.
//
//   grpc_load --system quorate|etcd --servers HOST:PORT,... --operation put|get|linearizable-get|watch|lock
//             [--connections 30] [--depth 1] [--watchers 1000] [--seconds 5] [--warm-up-seconds 1]
//             [--bytes 100] [--pids PID,...]
//
//   put, get, linearizable-get   each connection has a key of its own, and --depth calls under way
//   watch                        one client writes a key again when all watchers have the event of the last
//                                write; an operation is an event at a watcher, a latency that of the last one
//   lock                         each connection takes one lock and gives it up at once; an operation is a
//                                hand-over, a latency the time for which a connection waits
//
// Prints a JSON object: operations_per_second, p50_us, p99_us, p99.9_us, and, with the servers' pids,
// server_cpu_us: the processor time of all servers together for each operation.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tools/performance/grpc_load/calls.h"
#include "tools/performance/grpc_load/connection.h"

namespace quorate::grpc_load {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kLockName[] = "/grpc-load-lock";
constexpr char kWatchedKey[] = "/grpc-load-watched";

struct Options {
  std::string system;
  std::vector<std::string> servers;
  std::string operation;
  int connections = 30;
  int depth = 1;
  int watchers = 1000;
  double seconds = 5;
  double warm_up_seconds = 1;
  int bytes = 100;
  std::vector<int> pids;
};

void RequireOk(const grpc::Status& status) {
  if (!status.ok()) Die(status.error_message());
}

// The state of a run, which all its loops share.
struct Run {
  std::atomic<bool> is_measuring{false};
  std::atomic<bool> is_ending{false};
};

// Does one operation again and again until the run ends, and keeps the latencies of those that end while it
// measures.
class Loop {
 public:
  using Begin = std::function<void(Done)>;

  // `begin` begins an operation. `pause`, if there is one, is done after it, and not measured.
  Loop(const Run* run, Begin begin, Begin pause = {})
      : run_(*run), begin_(std::move(begin)), pause_(std::move(pause)) {}
  void Start() { Next(); }
  void AwaitEnd() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return has_ended_; });
  }
  // REQUIRES: it has ended.
  const std::vector<int64_t>& latencies_us() const { return latencies_us_; }

 private:
  void Next() {
    if (run_.is_ending) {
      const std::lock_guard lock(mutex_);
      has_ended_ = true;
      changed_.notify_all();
      return;
    }
    began_ = Clock::now();
    begin_([this](const grpc::Status& status) {
      RequireOk(status);
      if (run_.is_measuring) {
        latencies_us_.push_back(
            std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began_).count());
      }
      if (!pause_) return Next();
      pause_([this](const grpc::Status& paused) {
        RequireOk(paused);
        Next();
      });
    });
  }

  const Run& run_;
  const Begin begin_;
  const Begin pause_;
  Clock::time_point began_;
  std::vector<int64_t> latencies_us_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_ended_ = false;
};

// Counts the events of all watchers, and says when the last one has that of the newest write.
class Watchers {
 public:
  explicit Watchers(int count) : count_(count), missing_(count) {}

  void OnEvents(int events) {
    const std::lock_guard lock(mutex_);
    // The first call of each says that its watch has begun.
    missing_ -= std::max(events, 1);
    if (missing_ < 0) Die("a watcher received more events than were written");
    if (missing_ > 0) return;
    changed_.notify_all();
    if (is_written_) Report();
  }
  void AwaitBegin() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return missing_ == 0; });
    missing_ = count_;
  }
  void OnWritten(const grpc::Status& status) {
    RequireOk(status);
    const std::lock_guard lock(mutex_);
    is_written_ = true;
    if (missing_ == 0) Report();
  }
  // REQUIRES: no other write is under way.
  void SetDone(Done done) {
    const std::lock_guard lock(mutex_);
    done_ = std::move(done);
  }

 private:
  // REQUIRES: mutex_ is held. The next write may begin in `done`, so it runs on a thread of its own.
  void Report() {
    missing_ = count_;
    is_written_ = false;
    std::thread(std::move(done_), grpc::Status::OK).detach();
  }

  const int count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int missing_;
  bool is_written_ = false;
  Done done_;
};

double CpuSecondsOf(const std::vector<int>& pids) {
  double ticks = 0;
  for (const int pid : pids) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    // The name, in parentheses, may contain blanks. User and system time are the 12th and 13th fields
    // after it.
    std::istringstream rest(text.substr(text.rfind(')') + 1));
    std::string skipped;
    for (int i = 0; i < 11; ++i) rest >> skipped;
    double user = 0, system = 0;
    if (!(rest >> user >> system)) Die("the server " + std::to_string(pid) + " has ended");
    ticks += user + system;
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

class Load {
 public:
  explicit Load(const Options& options)
      : options_(options), value_(static_cast<size_t>(options.bytes), 'x') {}

  // Runs the load, and returns what it measured.
  nlohmann::json Measure() {
    Connect();
    AddLoops();
    for (const auto& loop : loops_) loop->Start();
    Sleep(options_.warm_up_seconds);
    const double cpu_before = CpuSecondsOf(options_.pids);
    const Clock::time_point begin = Clock::now();
    run_.is_measuring = true;
    Sleep(options_.seconds);
    run_.is_measuring = false;
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const double cpu = CpuSecondsOf(options_.pids) - cpu_before;
    run_.is_ending = true;
    for (const auto& loop : loops_) loop->AwaitEnd();
    for (const auto& connection : connections_) connection->Close();
    return Result(seconds, cpu);
  }

 private:
  static void Sleep(double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
  std::string KeyOf(int number) const { return "/grpc-load-" + std::to_string(number); }

  void Connect() {
    for (int number = 0; number < options_.connections; ++number) {
      const std::string& server =
          options_.servers[static_cast<size_t>(number) % options_.servers.size()];
      connections_.push_back(options_.system == "etcd" ? ConnectToEtcd(server, number)
                                                       : ConnectToQuorate(server, number));
      RequireOk(connections_.back()->Open());
    }
  }

  void AddLoops() {
    if (options_.operation == "watch") return AddWatch();
    for (int number = 0; number < options_.connections; ++number) {
      Connection& connection = *connections_[static_cast<size_t>(number)];
      if (options_.operation == "lock") {
        loops_.push_back(std::make_unique<Loop>(
            &run_, [&connection](Done done) { connection.Lock(kLockName, std::move(done)); },
            [&connection](Done done) { connection.Unlock(std::move(done)); }));
        continue;
      }
      const std::string key = KeyOf(number);
      RequireOk(connection.Create(key, value_));
      for (int i = 0; i < options_.depth; ++i) {
        loops_.push_back(std::make_unique<Loop>(&run_, [this, &connection, key](Done done) {
          if (options_.operation == "put") return connection.Put(key, value_, std::move(done));
          connection.Get(key, options_.operation == "linearizable-get", std::move(done));
        }));
      }
    }
  }

  // Waits until all servers have applied the write of `key`: a watch at a server that is behind would
  // receive that write as an event.
  void AwaitKey(const std::string& key) {
    for (const auto& connection : connections_) {
      Outcome outcome;
      connection->Get(key, /*is_linearizable=*/true,
                      [&outcome](const grpc::Status& status) { outcome.Set(status); });
      RequireOk(outcome.Await());
    }
  }

  void AddWatch() {
    Connection& writer = *connections_.front();
    RequireOk(writer.Create(kWatchedKey, value_));
    AwaitKey(kWatchedKey);
    watchers_ = std::make_unique<Watchers>(options_.watchers);
    for (int number = 0; number < options_.watchers; ++number) {
      Connection& connection = *connections_[static_cast<size_t>(number) % connections_.size()];
      connection.Watch(kWatchedKey, [this](int events) { watchers_->OnEvents(events); });
    }
    watchers_->AwaitBegin();
    loops_.push_back(std::make_unique<Loop>(&run_, [this, &writer](Done done) {
      watchers_->SetDone(std::move(done));
      writer.Put(kWatchedKey, value_,
                 [this](const grpc::Status& status) { watchers_->OnWritten(status); });
    }));
  }

  nlohmann::json Result(double seconds, double cpu) const {
    std::vector<int64_t> latencies;
    for (const auto& loop : loops_) {
      latencies.insert(latencies.end(), loop->latencies_us().begin(), loop->latencies_us().end());
    }
    if (latencies.empty()) Die("no operation ended in time");
    std::sort(latencies.begin(), latencies.end());
    const auto at = [&latencies](double part) {
      return latencies[static_cast<size_t>(static_cast<double>(latencies.size() - 1) * part)];
    };
    const double operations = static_cast<double>(latencies.size()) *
                              (options_.operation == "watch" ? options_.watchers : 1);
    nlohmann::json result = {{"operations_per_second", operations / seconds},
                             {"p50_us", at(0.5)},
                             {"p99_us", at(0.99)},
                             {"p99.9_us", at(0.999)}};
    if (!options_.pids.empty()) result["server_cpu_us"] = cpu * 1e6 / operations;
    return result;
  }

  const Options& options_;
  const std::string value_;
  Run run_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::unique_ptr<Watchers> watchers_;
  std::vector<std::unique_ptr<Loop>> loops_;
};

}  // namespace
}  // namespace quorate::grpc_load

int main(int argc, char** argv) {
  quorate::grpc_load::Options options;
  CLI::App app("Measures how fast servers of Quorate or etcd answer calls over gRPC.");
  app.add_option("--system", options.system)->check(CLI::IsMember({"quorate", "etcd"}))->required();
  app.add_option("--servers", options.servers, "gRPC addresses")->delimiter(',')->required();
  app.add_option("--operation", options.operation)
      ->check(CLI::IsMember({"put", "get", "linearizable-get", "watch", "lock"}))
      ->required();
  app.add_option("--connections", options.connections)->check(CLI::Range(1, 10'000));
  app.add_option("--depth", options.depth, "calls under way on each connection")
      ->check(CLI::Range(1, 1000));
  app.add_option("--watchers", options.watchers)->check(CLI::Range(1, 100'000));
  app.add_option("--seconds", options.seconds)->check(CLI::PositiveNumber);
  app.add_option("--warm-up-seconds", options.warm_up_seconds)->check(CLI::NonNegativeNumber);
  app.add_option("--bytes", options.bytes, "size of each value")->check(CLI::Range(0, 1'000'000));
  app.add_option("--pids", options.pids, "process ids of the servers")->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  std::cout << quorate::grpc_load::Load(options).Measure().dump() << std::endl;
  return 0;
}
