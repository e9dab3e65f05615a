// SPDX-License-Identifier: Apache-2.0

// The simulator's command line; README.md says how to use it.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/seeded_bug.h"
#include "tests/simulation/options.h"
#include "tests/simulation/runner.h"
#include "tests/simulation/seeded_bugs.h"

namespace quorate::simulation {
namespace {

struct Arguments {
  uint64_t first = 1;
  uint64_t last = 1;
  size_t jobs = 1;
  bool verbose = false;
  bool check_determinism = false;
  size_t failures_max = 1;
  std::string options;  // those that change what a seed means
};

constexpr char kUsage[] =
    "usage: simulation --seed N [--verbose]        one seed\n"
    "       simulation --seeds A..B [--jobs J] [--failures-max N]\n"
    "                                              all of them\n"
    "       simulation --seeds A..B --check-determinism\n"
    "                                              each twice; both runs must be equal\n"
    "       simulation --rocksdb ...                the same with checkpoints in RocksDB\n"
    "       simulation --keeper ...                 with ClickHouse Keeper's operations in all "
    "seeds\n"
    "       simulation --no-keeper ...              in no seed, and not in some\n"
    "       simulation --list-faults                the seeded bugs (--config=seeded_bugs)\n"
    "       simulation --fault NAME ...             the same with that bug in the servers\n";

[[noreturn]] void Usage() {
  std::fprintf(stderr, "%s", kUsage);
  std::exit(2);
}

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    auto value = [&] {
      if (++i == argc) Usage();
      return std::string(argv[i]);
    };
    if (name == "--seed") {
      arguments.first = arguments.last = std::strtoull(value().c_str(), nullptr, 10);
    } else if (name == "--seeds") {
      const std::string range = value();
      const size_t dots = range.find("..");
      if (dots == std::string::npos) Usage();
      arguments.first = std::strtoull(range.c_str(), nullptr, 10);
      arguments.last = std::strtoull(range.c_str() + dots + 2, nullptr, 10);
    } else if (name == "--jobs") {
      arguments.jobs = std::strtoull(value().c_str(), nullptr, 10);
    } else if (name == "--failures-max") {
      arguments.failures_max = std::strtoull(value().c_str(), nullptr, 10);
    } else if (name == "--verbose") {
      arguments.verbose = true;
    } else if (name == "--check-determinism") {
      arguments.check_determinism = true;
    } else if (name == "--rocksdb") {
      PutStoresInRocksDb();
      arguments.options += " " + name;
    } else if (name == "--keeper" || name == "--no-keeper") {
      ChooseKeeperSeeds(name == "--keeper" ? KeeperSeeds::kAll : KeeperSeeds::kNone);
      arguments.options += " " + name;
    } else if (name == "--fault") {
      if (!kBugsAreSeeded) Usage();
      SeedBug(value());
    } else if (name == "--list-faults") {
      for (const SeededBugCase& fault : kSeededBugs) {
        std::printf("%-40s within %lu seeds from %lu on%s\n", fault.name, fault.seeds_max,
                    fault.first_seed,
                    fault.needs_keeper ? ", with --keeper" : ", with --no-keeper");
      }
      std::exit(0);
    } else {
      Usage();
    }
  }
  if (arguments.first > arguments.last || arguments.jobs == 0) Usage();
  return arguments;
}

// The commit of the source in the directory where the program runs.
std::string Commit() {
  const char* workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  const std::string command = "git -C '" + std::string(workspace != nullptr ? workspace : ".") +
                              "' describe --always --dirty 2>/dev/null";
  std::string commit;
  if (FILE* pipe = ::popen(command.c_str(), "r"); pipe != nullptr) {
    char buffer[256];
    while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) commit += buffer;
    ::pclose(pipe);
  }
  while (!commit.empty() && commit.back() == '\n') commit.pop_back();
  return commit.empty() ? "unknown" : commit;
}

// Runs a failed seed again, with a trace.
void Explain(uint64_t seed, const std::string& options) {
  bool failed_again = false;
  RunSeeds(seed, seed, 1, Trace::Lines::kLast, [&](const RunResult& result) {
    failed_again = !result.passed;
    std::printf("%s", result.output.c_str());
    return true;
  });
  if (!failed_again)
    std::printf("seed %lu passes when it is traced: a run is not deterministic\n", seed);
  std::printf("commit %s\nagain: bazel run --config=opt //tests/simulation -- --seed %lu%s\n\n",
              Commit().c_str(), seed, options.c_str());
}

int RunOne(const Arguments& arguments) {
  if (arguments.verbose) {
    RunHere(arguments.first, Trace::Lines::kAll);
    std::printf("seed %lu passed\n", arguments.first);
    return 0;
  }
  int status = 0;
  RunSeeds(arguments.first, arguments.first, 1, Trace::Lines::kNone, [&](const RunResult& result) {
    if (result.passed) {
      std::printf("seed %lu passed: %lu events, %.1f s of virtual time, trace %016lx\n",
                  result.seed, result.events, static_cast<double>(result.virtual_us) * 1e-6,
                  result.hash);
      for (const auto& [name, count] : result.counts) {
        std::printf("%12lu  %s\n", count, name.c_str());
      }
    } else {
      status = 1;
    }
    return true;
  });
  if (status != 0) Explain(arguments.first, arguments.options);
  return status;
}

class Sweep {
 public:
  explicit Sweep(const Arguments& arguments) : arguments_(arguments) {}

  int Run() {
    RunSeeds(arguments_.first, arguments_.last, arguments_.jobs, Trace::Lines::kNone,
             [this](const RunResult& result) { return OnResult(result); });
    if (arguments_.check_determinism && failed_.empty()) CheckAgain();
    PrintProgress('\n');
    for (uint64_t seed : failed_) Explain(seed, arguments_.options);
    PrintSummary();
    return failed_.empty() && differing_ == 0 ? 0 : 1;
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool OnResult(const RunResult& result) {
    ++runs_;
    if (!result.passed) {
      failed_.push_back(result.seed);
      std::printf("seed %lu failed%50s\n", result.seed, "");
    }
    events_ += result.events;
    virtual_us_ += result.virtual_us;
    hashes_[result.seed] = result.hash;
    for (const auto& [name, count] : result.counts) {
      counts_[name].first += count;
      ++counts_[name].second;
    }
    if (Clock::now() - printed_ > std::chrono::seconds(1)) PrintProgress('\r');
    return failed_.size() < arguments_.failures_max;
  }

  // Runs the seeds again with a trace, in a process with a different history.
  void CheckAgain() {
    RunSeeds(arguments_.first, arguments_.last, arguments_.jobs, Trace::Lines::kLast,
             [this](const RunResult& result) {
               if (hashes_[result.seed] != result.hash) {
                 ++differing_;
                 std::printf("seed %lu: trace %016lx, and then %016lx\n", result.seed,
                             hashes_[result.seed], result.hash);
               }
               return true;
             });
  }

  double Seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

  void PrintProgress(char end) {
    printed_ = Clock::now();
    std::printf("%lu seeds, %zu failed, %.1f seeds/s, %.0f events/s   %c", runs_, failed_.size(),
                static_cast<double>(runs_) / Seconds(), static_cast<double>(events_) / Seconds(),
                end);
    std::fflush(stdout);
  }

  void PrintSummary() const {
    std::printf(
        "%lu seeds of %lu..%lu, %zu failed, in %.0f s: %.1f hours of virtual time, %lu events\n",
        runs_, arguments_.first, arguments_.last, failed_.size(), Seconds(),
        static_cast<double>(virtual_us_) * 1e-6 / 3600, events_);
    std::printf("%12s %8s\n", "times", "seeds");
    for (const auto& [name, count] : counts_) {
      std::printf("%12lu %8lu  %s\n", count.first, count.second, name.c_str());
    }
    if (arguments_.check_determinism) {
      std::printf("run twice: %zu seeds differ\n", differing_);
    }
  }

  const Arguments arguments_;
  const Clock::time_point began_ = Clock::now();
  Clock::time_point printed_ = began_;
  uint64_t runs_ = 0;
  uint64_t events_ = 0;
  int64_t virtual_us_ = 0;
  size_t differing_ = 0;
  std::vector<uint64_t> failed_;
  std::map<uint64_t, uint64_t> hashes_;
  std::map<std::string, std::pair<uint64_t, uint64_t>> counts_;
};

}  // namespace
}  // namespace quorate::simulation

int main(int argc, char** argv) {
  using namespace quorate::simulation;
  const Arguments arguments = Parse(argc, argv);
  const bool one = arguments.first == arguments.last && !arguments.check_determinism;
  return one ? RunOne(arguments) : Sweep(arguments).Run();
}
