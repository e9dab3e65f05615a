// SPDX-License-Identifier: Apache-2.0

// Real members under many clients, while snapshots are installed, leaders change and members stop
// and start: run under ThreadSanitizer and AddressSanitizer, with checks of the clients' answers.
// See README.md in this directory.
#include <ftw.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "base/assert.h"
#include "rpc/zookeeper/wire/connection.h"
#include "rpc/zookeeper/wire/wire.h"
#include "tests/threads/clients.h"
#include "tests/threads/cluster.h"

// The gRPC library is not instrumented: the sanitizer sees how its templates in our code use
// objects that the library passes between threads, but not the library's mutexes, nor the reference
// count that tells when a message was sent and its bytes can be freed.
extern "C" const char* __tsan_default_suppressions() {
  return "race:grpc_event_engine::experimental::ThreadPool::Queue\n"
         "race:grpc::internal::\n"
         "race:grpc_core::NewSliceRefcount::Destroy\n";
}
extern "C" const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1 halt_on_error=1 second_deadlock_stack=1";
}

namespace quorate::threads {
namespace {

using std::chrono::milliseconds;

constexpr char kUsage[] =
    "usage: threads [--seconds S | --minutes M] [--seed N]\n"
    "\n"
    "Runs three members with clients for that time (30 s), and fails if a client gets a wrong\n"
    "answer, members differ at the end, or a kind of event never happened. Built with\n"
    "--config=tsan or --config=asan, it also ends at the first report of the sanitizer.\n";

constexpr int kZooKeeperClients = 4;
constexpr int kZooKeeperReaders = 6;
constexpr int kSessionClients = 2;
constexpr int kCallClients = 2;
constexpr auto kRound = std::chrono::seconds(2);
constexpr auto kLeaderPeriod = milliseconds(50);

// Counts the installed snapshots in the members' log; keeps the other lines for a failure.
class CountingSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  uint64_t snapshots() const { return snapshots_.load(); }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    if (text.starts_with("snapshot of zxid")) snapshots_.fetch_add(1);
  }
  void flush_() override {}

  std::atomic<uint64_t> snapshots_{0};
};

struct Options {
  std::chrono::seconds time{30};
  uint64_t seed = std::random_device{}();
};

class Directory {
 public:
  Directory() {
    const char* parent = std::getenv("TMPDIR");
    path_ = std::string(parent == nullptr ? "/tmp" : parent) + "/quorate-threads-XXXXXX";
    ASSERT(mkdtemp(path_.data()) != nullptr, "a temporary directory can be made");
  }
  ~Directory() {
    const auto remove_one = [](const char* path, const struct stat*, int, struct FTW*) {
      return std::remove(path);
    };
    nftw(path_.c_str(), remove_one, 16, FTW_DEPTH | FTW_PHYS);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Applies faults to the members, one kind after the other.
class Rounds {
 public:
  Rounds(Cluster* cluster, uint64_t seed) : cluster_(*cluster), random_(seed) {}

  void Run(std::chrono::steady_clock::time_point end) {
    for (int round = 0; std::chrono::steady_clock::now() < end; ++round) {
      const auto round_end = std::min(end, std::chrono::steady_clock::now() + kRound);
      while (std::chrono::steady_clock::now() < round_end) {
        if (round % 3 == 0) FallBehind();
        if (round % 3 == 1) ChangeLeader();
        if (round % 3 == 2) Restart();
      }
    }
  }
  uint64_t leader_changes() const { return leader_changes_; }
  uint64_t restarts() const { return restarts_; }

 private:
  uint32_t AnyMember() { return 1 + static_cast<uint32_t>(random_() % kMembers); }
  void Sleep(int ms) { std::this_thread::sleep_for(milliseconds(ms)); }

  // A member misses more entries than the others' logs keep, while its clients continue to read.
  void FallBehind() {
    uint32_t member = AnyMember();
    if (member == cluster_.Leader()) member = member % kMembers + 1;
    cluster_.Cut(member);
    Sleep(150 + static_cast<int>(random_() % 200));
    cluster_.Cut(0);
    Sleep(150 + static_cast<int>(random_() % 200));
  }
  void ChangeLeader() {
    if (cluster_.MoveLeadership()) ++leader_changes_;
    std::this_thread::sleep_for(kLeaderPeriod);
  }
  void Restart() {
    const uint32_t member = AnyMember();
    cluster_.Stop(member);
    if (random_() % 2 == 0) Sleep(static_cast<int>(random_() % 200));
    cluster_.Start(member);
    ++restarts_;
    Sleep(static_cast<int>(random_() % 300));
  }

  Cluster& cluster_;
  std::mt19937_64 random_;
  uint64_t leader_changes_ = 0;
  uint64_t restarts_ = 0;
};

// Creates the nodes that the clients use, through its own session. Returns whether it succeeded.
bool MakeNodes(Cluster* cluster) {
  constexpr int kTimeoutMs = 60'000;
  wire::Connection connection =
      wire::Connection::To("127.0.0.1:" + std::to_string(cluster->zookeeper_port(1)), kTimeoutMs);
  wire::Handshake handshake;
  handshake.timeout_ms = 10'000;
  std::string bytes = wire::EncodeHandshake(handshake);
  for (int i = 0; i < kNodes; ++i) {
    wire::RequestWriter request(&bytes, i + 1, wire::kCreate);
    wire::WriteCreate(NodePath(i), "0", tree::CreateMode::kPersistent, request.body());
  }
  connection.Send(bytes, kTimeoutMs);
  std::string packet;
  for (int i = 0; i <= kNodes; ++i) {
    if (connection.Receive(&packet, kTimeoutMs) != wire::Connection::Received::kPacket) {
      return false;
    }
  }
  return true;
}

int Run(const Options& options, const CountingSink& log) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
  std::fflush(stdout);
  const Directory directory;
  Cluster cluster(directory.path());
  for (int tries = 0; !MakeNodes(&cluster); ++tries) {
    if (tries == 100) return std::puts("FAIL no member serves"), 1;
    std::this_thread::sleep_for(milliseconds(200));
  }
  Load load;
  load.cluster = &cluster;
  std::vector<std::thread> clients;
  const auto start = [&](int count, void (*client)(Load*, uint64_t)) {
    for (int i = 0; i < count; ++i) {
      clients.emplace_back(client, &load, options.seed + clients.size());
    }
  };
  start(kZooKeeperClients, RunZooKeeperClient);
  start(kZooKeeperReaders, RunZooKeeperReader);
  start(kSessionClients, RunSessionClient);
  start(kCallClients, RunCallClient);
  Rounds rounds(&cluster, options.seed);
  rounds.Run(std::chrono::steady_clock::now() + options.time);
  load.ends = true;
  for (std::thread& client : clients) client.join();
  const bool equal = cluster.AwaitEqual();
  if (!equal) std::puts("FAIL the members are not equal at the end");
  const std::pair<const char*, uint64_t> counts[] = {
      {"writes", load.writes},         {"reads", load.reads},
      {"events", load.events},         {"connections", load.connections},
      {"snapshots", log.snapshots()},  {"leader changes", rounds.leader_changes()},
      {"restarts", rounds.restarts()},
  };
  bool all = true;
  for (const auto& [what, count] : counts) {
    std::printf("%llu %s\n", static_cast<unsigned long long>(count), what);
    if (count > 0) continue;
    all = false;
    std::printf("FAIL there were no %s\n", what);
  }
  return equal && all && load.wrong == 0 ? 0 : 1;
}

bool ParseOptions(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; i += 2) {
    char* end = nullptr;
    const unsigned long long value = i + 1 < argc ? std::strtoull(argv[i + 1], &end, 10) : 0;
    if (end == nullptr || *end != '\0' || *argv[i + 1] == '\0') return false;
    if (std::strcmp(argv[i], "--seconds") == 0) {
      options->time = std::chrono::seconds(value);
    } else if (std::strcmp(argv[i], "--minutes") == 0) {
      options->time = std::chrono::minutes(value);
    } else if (std::strcmp(argv[i], "--seed") == 0) {
      options->seed = value;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace quorate::threads

int main(int argc, char** argv) {
  quorate::threads::Options options;
  if (!quorate::threads::ParseOptions(argc, argv, &options)) {
    std::fputs(quorate::threads::kUsage, stderr);
    return 2;
  }
  // As quorated does.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  auto sink = std::make_shared<quorate::threads::CountingSink>();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("threads", sink));
  return quorate::threads::Run(options, *sink);
}
