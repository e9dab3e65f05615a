// SPDX-License-Identifier: Apache-2.0

// The command line program that compares Quorate with ZooKeeper.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "tests/differential/runner.h"

namespace quorate::differential {
namespace {

struct Arguments {
  RunOptions run;
  std::string subject = "quorate";
  std::string quorated = "rpc/quorated/quorated";  // its path in this program's runfiles
  std::string script = "tests/differential/servers";
  std::string ours, reference;
  std::string seeded_bug;
};

constexpr char kUsage[] =
    "usage: differential [--ops N] [--seed S] [--servers 1|3]\n"
    "                    [--ours HOST:PORT,... --reference HOST:PORT,...]\n"
    "\n"
    "Does the same random operations at a Quorate server and at Debian's ZooKeeper, and compares\n"
    "what clients see. Exit status: 0 if there was no difference but intended ones, 1 if there\n"
    "was, 2 for wrong usage, 3 if the servers could not be run or compared.\n"
    "\n"
    "  --ops N            operations (20000)\n"
    "  --seed S           seed of the first episode (random); the next ones have S + 1, ...\n"
    "  --episode-ops N    operations of an episode, which begins with empty trees (500)\n"
    "  --servers N        members on each side (1)\n"
    "  --ours, --reference  running servers, with the settings of tests/differential/servers\n"
    "  --quorated PATH    the server's binary\n"
    "  --without OP,...   requests that are not generated (createTTL, ...)\n"
    "  --self             compares ZooKeeper with itself\n"
    "  --no-shrink        does not search for the fewest operations that show a difference\n"
    "  --seeded-bug NAME  spoils the answers of one side, which has to be found\n"
    "  --list-seeded-bugs\n";

[[noreturn]] void Usage() {
  std::fprintf(stderr, "%s", kUsage);
  std::exit(2);
}

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  arguments.run.operations = 20'000;
  arguments.run.seed = std::random_device()() % 1'000'000;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    auto value = [&] {
      if (++i == argc) Usage();
      return std::string(argv[i]);
    };
    auto number = [&] { return std::strtoll(value().c_str(), nullptr, 10); };
    if (name == "--ops") {
      arguments.run.operations = number();
    } else if (name == "--seed") {
      arguments.run.seed = static_cast<uint64_t>(number());
    } else if (name == "--episode-ops") {
      arguments.run.episode_operations = number();
    } else if (name == "--servers") {
      arguments.run.members = static_cast<size_t>(number());
    } else if (name == "--ours") {
      arguments.ours = value();
      arguments.run.members = SplitList(arguments.ours).size();
    } else if (name == "--reference") {
      arguments.reference = value();
    } else if (name == "--quorated") {
      arguments.quorated = value();
    } else if (name == "--self") {
      arguments.subject = "zookeeper";
    } else if (name == "--no-shrink") {
      arguments.run.shrink = false;
    } else if (name == "--without") {
      for (const std::string& op : SplitList(value())) arguments.run.without.insert(op);
    } else if (name == "--seeded-bug") {
      arguments.seeded_bug = value();
    } else if (name == "--list-seeded-bugs") {
      for (const std::string& bug : Spoiler::Names()) std::printf("%s\n", bug.c_str());
      std::exit(0);
    } else {
      Usage();
    }
  }
  if (arguments.ours.empty() != arguments.reference.empty() || arguments.run.members < 1) Usage();
  return arguments;
}

int Run(const Arguments& arguments) {
  // The script that starts the servers finds the binary through this variable.
  char* path = realpath(arguments.quorated.c_str(), nullptr);
  if (path != nullptr) setenv("QUORATED", path, /*replace=*/1);
  std::free(path);
  Servers servers(arguments.script, arguments.subject, static_cast<int>(arguments.run.members));
  bool given = false;
  Runner runner(arguments.run, Spoiler(arguments.seeded_bug), [&](Addresses* addresses) {
    if (arguments.ours.empty()) return servers.Start(addresses);
    if (std::exchange(given, true)) {
      return absl::UnavailableError("the servers differ, and only their owner can empty them");
    }
    *addresses = {SplitList(arguments.ours), SplitList(arguments.reference)};
    return absl::OkStatus();
  });
  const absl::Status status = runner.Run();
  std::printf("\n%s", runner.Report().c_str());
  if (!status.ok()) std::printf("stopped: %s\n", std::string(status.message()).c_str());
  std::printf("%zu kinds of differences\n", runner.found().size());
  if (!status.ok()) return 3;
  return runner.found().empty() ? 0 : 1;
}

}  // namespace
}  // namespace quorate::differential

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  return quorate::differential::Run(quorate::differential::Parse(argc, argv));
}
