// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/runner.h"

#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/assert.h"
#include "tests/simulation/cluster.h"
#include "tests/simulation/options.h"
#include "tests/simulation/simulation.h"
#include "tests/simulation/store_disk.h"

namespace quorate::simulation {
namespace {

// Real time; a run usually takes a second.
constexpr unsigned kRunSecondsMax = 300;

Simulation* running = nullptr;  // for signals

void OnAbort(int) {
  if (running != nullptr) {
    running->PrintFailure("no assertion of a server fails", "its message is above");
  }
  std::_Exit(Simulation::kFailed);
}

void OnCrash(int signal) {
  std::signal(signal, SIG_DFL);
  if (running != nullptr) {
    running->PrintFailure("the servers do not crash", fmt::format("signal {}", signal));
  }
  std::_Exit(Simulation::kFailed);
}

void OnAlarm(int) {
  if (running != nullptr) {
    running->PrintFailure("a run ends", "it has taken minutes of real time");
  }
  std::_Exit(Simulation::kFailed);
}

// Adds what servers log to the trace.
class TraceSink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit TraceSink(Simulation* simulation) : simulation_(*simulation) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    simulation_.Line("log", "{}", std::string_view(message.payload.data(), message.payload.size()));
  }
  void flush_() override {}

  Simulation& simulation_;
};

// A result as text: numbers, and a line for each count.
std::string Encode(const RunResult& result) {
  std::string text =
      fmt::format("\nRESULT {} {} {}\n", result.hash, result.events, result.virtual_us);
  for (const auto& [name, count] : result.counts) text += fmt::format("{} {}\n", count, name);
  return text;
}

void Decode(const std::string& output, RunResult* result) {
  const size_t begin = output.rfind("\nRESULT ");
  result->passed = begin != std::string::npos;
  if (!result->passed) {
    result->output = output;
    return;
  }
  char* next = nullptr;
  const char* text = output.c_str() + begin + 8;
  result->hash = std::strtoull(text, &next, 10);
  result->events = std::strtoull(next, &next, 10);
  result->virtual_us = std::strtoll(next, &next, 10);
  result->output = output.substr(0, begin);
  while (*next == '\n' && next[1] != '\0') {
    const uint64_t count = std::strtoull(next + 1, &next, 10);
    const char* name = next + 1;
    while (*next != '\n' && *next != '\0') ++next;
    result->counts[std::string(name, static_cast<const char*>(next))] = count;
  }
}

struct Child {
  uint64_t seed = 0;
  pid_t pid = 0;
  int pipe = -1;
  std::string output;
};

Child StartChild(uint64_t seed, Trace::Lines lines) {
  int ends[2];
  ASSERT(::pipe(ends) == 0);
  std::fflush(stdout);
  const pid_t pid = ::fork();
  ASSERT(pid >= 0);
  if (pid == 0) {
    ::close(ends[0]);
    ::dup2(ends[1], 1);
    ::dup2(ends[1], 2);
    ::close(ends[1]);
    const RunResult result = RunHere(seed, lines);
    const std::string text = Encode(result);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    std::_Exit(0);
  }
  ::close(ends[1]);
  return {seed, pid, ends[0], {}};
}

}  // namespace

RunResult RunHere(uint64_t seed, Trace::Lines lines) {
  auto* simulation = new Simulation(ChooseOptions(seed), lines);
  running = simulation;
  std::signal(SIGABRT, OnAbort);
  for (int crash : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(crash, OnCrash);
  std::signal(SIGALRM, OnAlarm);
  ::alarm(kRunSecondsMax);
  if (lines == Trace::Lines::kNone) {
    spdlog::set_level(spdlog::level::off);
  } else {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("", std::make_shared<TraceSink>(simulation)));
  }
  if (lines == Trace::Lines::kAll) std::printf("%s\n", ToString(simulation->options()).c_str());
  auto* cluster = new Cluster(simulation);
  cluster->Run();
  ::alarm(0);
  RunResult result;
  result.seed = seed;
  result.passed = true;
  result.hash = simulation->trace().hash();
  result.events = simulation->scheduler().executed();
  result.virtual_us = simulation->now_us();
  for (const auto& [name, count] : simulation->trace().counts()) result.counts[name] = count;
  // Neither object is destroyed: the process ends, and pending work would only get in the way.
  return result;
}

void RunSeeds(uint64_t first, uint64_t last, size_t jobs, Trace::Lines lines,
              const std::function<bool(const RunResult&)>& done) {
  std::vector<Child> children;
  uint64_t next = first;
  bool go_on = true;
  while (!children.empty() || (go_on && next <= last)) {
    while (go_on && next <= last && children.size() < jobs) {
      children.push_back(StartChild(next++, lines));
    }
    std::vector<pollfd> polls;
    for (const Child& child : children) polls.push_back({child.pipe, POLLIN, 0});
    ASSERT(::poll(polls.data(), polls.size(), -1) > 0);
    for (size_t i = children.size(); i-- > 0;) {
      if (polls[i].revents == 0) continue;
      char buffer[65536];
      const ssize_t size = ::read(children[i].pipe, buffer, sizeof(buffer));
      if (size > 0) {
        children[i].output.append(buffer, static_cast<size_t>(size));
        continue;
      }
      ::close(children[i].pipe);
      ::waitpid(children[i].pid, nullptr, 0);
      // The child ends without running destructors.
      StoreDisk::RemoveAllOf(children[i].pid);
      RunResult result;
      result.seed = children[i].seed;
      Decode(children[i].output, &result);
      children.erase(children.begin() + static_cast<ptrdiff_t>(i));
      go_on = done(result) && go_on;
    }
  }
}

}  // namespace quorate::simulation
