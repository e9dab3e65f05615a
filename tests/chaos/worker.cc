// SPDX-License-Identifier: Apache-2.0

// worker: the clients of a chaos run that share a process. Records in a history
// (tests/chaos/history.h) what they send and receive.
//
//   worker --process 1 --frontend zookeeper --servers 127.0.0.1:2181,127.0.0.1:2182 --clients 8
//       --first-client 0 --workloads register,bank --seed 7 --history /tmp/history-1.jsonl
//
// Prepares the workloads, prints "worker ready" on standard output, and runs until SIGTERM or a
// line "finish" on standard input (or its end). Then the clients do their last reads, for 60
// seconds at most, and close their sessions. Once a second a line of JSON on standard output
// reports the progress.
//
// Exit status 1: the preparation or a last read did not succeed, or a server broke the protocol.

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/chaos/client.h"
#include "tests/chaos/native_client.h"
#include "tests/chaos/workload.h"
#include "tests/chaos/zookeeper_client.h"

namespace quorate::chaos {
namespace {

constexpr int64_t kPrepareNs = 60'000 * kNsInMs;
constexpr int64_t kFinishNs = 60'000 * kNsInMs;
constexpr int64_t kReportNs = 1000 * kNsInMs;
// Clients move to another server after this many operations on average.
constexpr double kOperationsAServer = 300;
constexpr int64_t kAwayMsMax = 200;

struct Options {
  int32_t process = 0;
  std::string frontend = "zookeeper";
  std::string servers;
  int32_t clients = 8;
  int32_t first_client = 0;
  std::string workloads;
  uint64_t seed = 0;
  int32_t session_timeout_ms = 4000;
  std::string history;
  double rate = 50;
  std::string tls_directory;
  bool has_weak_sync = false;
};

// A client with its workloads, and its thread.
class Runner {
 public:
  Runner(const Options& options, int32_t place, Recorder* recorder)
      : rate_(options.rate),
        recorder_(recorder),
        random_(simulation::Spread(options.seed) + static_cast<uint64_t>(Number(options, place)),
                "runner") {
    const bool is_native = options.frontend == "native";
    const ClientSettings settings = {
        .number = Number(options, place),
        .servers = absl::StrSplit(options.servers, ','),
        .tls_directory = options.tls_directory,
        .session_timeout_ms = options.session_timeout_ms,
        .seed = random_.Next(),
        .is_sync_linearizable = !options.has_weak_sync,
        // Every second client, but not with ZooKeeper's servers.
        .has_linearizable_chroot = !options.has_weak_sync && place % 2 == 1};
    if (is_native) {
      client_ = std::make_unique<NativeClient>(settings, recorder);
    } else {
      client_ = std::make_unique<ZookeeperClient>(settings, recorder);
    }
    // Workloads are spread evenly over the clients; if there are few clients, each has several.
    const std::vector<std::string> names = absl::StrSplit(options.workloads, ',');
    const size_t groups = std::min(names.size(), static_cast<size_t>(options.clients));
    for (size_t i = 0; i < names.size(); ++i) {
      if ((names.size() > groups ? i % groups : i) != static_cast<size_t>(place) % names.size()) {
        continue;
      }
      workloads_.push_back(MakeWorkload(names[i], client_.get(), random_.Next(), is_native));
    }
  }

  bool Prepare(int64_t until_ns) {
    for (const auto& workload : workloads_) {
      if (!workload->Prepare(until_ns)) return false;
    }
    return true;
  }

  void Start(const std::atomic<bool>* finish) {
    thread_ = std::thread([this, finish] { Run(*finish); });
  }
  // Waits for the client's end; returns whether the last reads succeeded.
  bool Join() {
    thread_.join();
    return is_good_;
  }

 private:
  static int32_t Number(const Options& options, int32_t place) {
    return options.first_client + place;
  }

  void Run(const std::atomic<bool>& finish) {
    const double interval_ns = 1000.0 * static_cast<double>(kNsInMs) / rate_;
    int64_t next_ns = NowNs();
    while (!finish) {
      Workload& workload = *workloads_[random_.Below(workloads_.size())];
      const int64_t before = workload.operations();
      workload.Step();
      const auto made = static_cast<double>(std::max<int64_t>(workload.operations() - before, 1));
      if (random_.Chance(made / kOperationsAServer)) client_->Move(random_.Between(0, kAwayMsMax));
      // Operations that could not be done in time are not made up for.
      const double pause_ns = made * interval_ns * (0.5 + random_.Unit());
      next_ns = std::max(next_ns + static_cast<int64_t>(pause_ns), NowNs());
      client_->Idle(next_ns);
    }
    const int64_t until_ns = NowNs() + kFinishNs;
    for (const auto& workload : workloads_) is_good_ &= workload->Finish(until_ns);
    client_->CloseSession();
    Line end;
    end.what = What::kEnd;
    end.client = client_->number();
    recorder_->Write(end);
  }

  const double rate_;
  Recorder* const recorder_;
  simulation::Random random_;
  std::unique_ptr<Client> client_;
  std::vector<std::unique_ptr<Workload>> workloads_;
  std::thread thread_;
  bool is_good_ = true;
};

void Report(const Recorder& recorder) {
  const int64_t last_ns = recorder.last_write_ok_ns();
  nlohmann::ordered_json age_ms;  // null: no write was acknowledged
  if (last_ns != 0) age_ms = (NowNs() - last_ns) / kNsInMs;
  const nlohmann::ordered_json line = {
      {"ok", recorder.ok()},           {"refused", recorder.refused()},
      {"unknown", recorder.unknown()}, {"events", recorder.events()},
      {"expired", recorder.expired()}, {"last_write_ok_ms_ago", age_ms}};
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

// Prints a report each second, until the end is requested.
void WaitForEnd(int signals, const Recorder& recorder) {
  std::string input;
  for (int64_t next_ns = NowNs() + kReportNs;;) {
    const int64_t left_ms = std::max<int64_t>((next_ns - NowNs()) / kNsInMs + 1, 0);
    pollfd sources[] = {{signals, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    poll(sources, std::size(sources), static_cast<int>(left_ms));
    if (sources[0].revents != 0) return;
    if (sources[1].revents != 0) {
      char bytes[256];
      const ssize_t size = read(STDIN_FILENO, bytes, sizeof(bytes));
      if (size <= 0) return;
      input.append(bytes, static_cast<size_t>(size));
      if (input.find("finish\n") != std::string::npos) return;
    }
    if (NowNs() < next_ns) continue;
    Report(recorder);
    next_ns = NowNs() + kReportNs;
  }
}

int Run(const Options& options, int signals) {
  absl::StatusOr<std::unique_ptr<HistoryWriter>> history =
      HistoryWriter::Open(options.history, options.process);
  if (!history.ok()) {
    std::fprintf(stderr, "%s\n", history.status().ToString().c_str());
    return 1;
  }
  Recorder recorder(history->get());
  std::vector<std::unique_ptr<Runner>> runners;
  for (int32_t i = 0; i < options.clients; ++i) {
    runners.push_back(std::make_unique<Runner>(options, i, &recorder));
  }
  const int64_t until_ns = NowNs() + kPrepareNs;
  const size_t workloads =
      static_cast<size_t>(std::count(options.workloads.begin(), options.workloads.end(), ',') + 1);
  for (size_t i = 0; i < std::min(workloads, runners.size()); ++i) {
    if (runners[i]->Prepare(until_ns)) continue;
    std::fprintf(stderr, "the cluster does not serve: the workloads could not be prepared\n");
    return 1;
  }
  std::atomic<bool> finish{false};
  for (const auto& runner : runners) runner->Start(&finish);
  std::printf("worker ready\n");
  std::fflush(stdout);
  WaitForEnd(signals, recorder);
  finish = true;
  bool is_good = true;
  for (const auto& runner : runners) is_good &= runner->Join();
  Report(recorder);
  if (!is_good) std::fprintf(stderr, "some of the last reads did not succeed\n");
  return is_good && recorder.protocol_errors() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace quorate::chaos

int main(int argc, char** argv) {
  quorate::chaos::Options options;
  CLI::App app("Runs clients of a chaos run.");
  app.add_option("--process", options.process, "number of the process in the history")->required();
  app.add_option("--frontend", options.frontend)->check(CLI::IsMember({"zookeeper", "native"}));
  app.add_option("--servers", options.servers, "host:port,...; numeric addresses")->required();
  app.add_option("--clients", options.clients)->check(CLI::Range(1, 200));
  app.add_option("--first-client", options.first_client,
                 "number of the first client; no other process may ever use the same numbers");
  app.add_option("--workloads", options.workloads, "of them, by name")->required();
  app.add_option("--seed", options.seed);
  app.add_option("--session-timeout-ms", options.session_timeout_ms)->check(CLI::PositiveNumber);
  app.add_option("--history", options.history, "the file")->required();
  app.add_option("--rate", options.rate, "the most operations of a client in a second")
      ->check(CLI::PositiveNumber);
  app.add_option("--tls-directory", options.tls_directory,
                 "use TLS, with ca.pem and client.pem of this directory");
  app.add_flag("--weak-sync", options.has_weak_sync,
               "reads after a sync are not linearizable (as with ZooKeeper)");
  CLI11_PARSE(app, argc, argv);
  const std::vector<std::string>& known = quorate::chaos::WorkloadNames();
  const std::vector<std::string> names = absl::StrSplit(options.workloads, ',');
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::fprintf(stderr, "there is no workload \"%s\"\n", name.c_str());
    return 2;
  }
  // Before threads are started, which inherit the mask.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return quorate::chaos::Run(options, signalfd(-1, &ends, SFD_CLOEXEC));
}
