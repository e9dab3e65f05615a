// SPDX-License-Identifier: Apache-2.0

// The worker against a real server, which is killed once: the history is complete and keeps the
// guarantees of history.h.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/testing/server_fixture.h"
#include "nlohmann/json.hpp"
#include "tests/chaos/history.h"

namespace quorate::chaos {
namespace {

using testing::ServerFixture;

constexpr char kProgram[] = "tests/chaos/worker";
constexpr char kAll[] = "register,set,sequence,counter,append,bank,ephemeral,watch";
constexpr int kClients = 8;
constexpr int kRoundsMax = 60;
constexpr int kRestartsMax = 5;

// A worker process and its output.
class Worker {
 public:
  Worker(const std::vector<std::string>& arguments) {
    int to[2], from[2];
    REQUIRE(pipe2(to, O_CLOEXEC) == 0);
    REQUIRE(pipe2(from, O_CLOEXEC) == 0);
    std::vector<char*> argv;
    std::vector<std::string> all = {kProgram};
    all.insert(all.end(), arguments.begin(), arguments.end());
    for (std::string& argument : all) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(to[0], STDIN_FILENO);
      dup2(from[1], STDOUT_FILENO);
      execv(kProgram, argv.data());
      _exit(127);
    }
    close(to[0]);
    close(from[1]);
    input_ = to[1];
    output_ = fdopen(from[0], "r");
  }
  ~Worker() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(input_);
    std::fclose(output_);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Reads a line; returns an empty string at the end.
  std::string Read() {
    char line[4096];
    if (std::fgets(line, sizeof(line), output_) == nullptr) return "";
    return line;
  }
  // Waits until `count` more operations were acknowledged.
  void WaitForMore(int64_t count) {
    for (int64_t wanted = ok_ + count; ok_ < wanted;) {
      const std::string line = Read();
      REQUIRE_FALSE(line.empty());
      ok_ = nlohmann::json::parse(line).at("ok").get<int64_t>();
    }
  }
  // Returns the exit status.
  int Finish() {
    REQUIRE(write(input_, "finish\n", 7) == 7);
    while (!Read().empty()) continue;
    int status = -1;
    REQUIRE(waitpid(std::exchange(pid_, 0), &status, 0) > 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  int pid_ = 0;
  int input_ = -1;
  std::FILE* output_ = nullptr;
  int64_t ok_ = 0;
};

std::vector<Line> Read(const std::string& path) {
  auto reader = HistoryReader::Open(path);
  REQUIRE(reader.ok());
  std::vector<Line> lines;
  for (Line line;;) {
    const absl::StatusOr<bool> more = (*reader)->Next(&line);
    INFO(more.status());
    REQUIRE(more.ok());
    if (!*more) return lines;
    lines.push_back(std::exchange(line, {}));
  }
}

std::string TemporaryFile(const std::string& name) {
  const char* directory = std::getenv("TEST_TMPDIR");
  const std::string path = std::string(directory == nullptr ? "/tmp" : directory) + "/" + name;
  std::remove(path.c_str());
  return path;
}

// Counts over the lines of a history.
struct Summary {
  std::map<std::string, int> acknowledged;  // "register get"
  std::map<std::string, int> kinds;         // "connected"
  std::map<std::string, int> errors;
  std::map<std::string, int> events;  // by type
  int linearizable = 0;
  int with_version = 0;
  int several_at_once = 0;
  std::set<int32_t> ended, disconnected;  // clients
  size_t under_way = 0;                   // operations without an outcome at the end
};

// Checks the guarantees of every history.
Summary Check(const std::vector<Line>& lines) {
  Summary summary;
  std::map<int64_t, Line> open;
  std::map<int32_t, int64_t> session, last_ns;
  std::map<int32_t, int> under_way;
  std::set<std::pair<std::string, std::string>> written;
  for (const Line& line : lines) {
    const auto expect = [&line](bool is_good, const char* what) {
      if (!is_good) FAIL_CHECK(what << ": " << Print(line));
    };
    ++summary.kinds[std::string(NameOf(line.what))];
    expect(line.time_ns >= last_ns[line.client], "time goes back");
    last_ns[line.client] = line.time_ns;
    expect(summary.ended.count(line.client) == 0, "comes after the end");
    switch (line.what) {
      case What::kInvoke: {
        expect(open.emplace(line.operation, line).second, "is invoked twice");
        if (++under_way[line.client] > 1) ++summary.several_at_once;
        expect(session[line.client] != 0, "there is no session");
        summary.linearizable += line.linearizable;
        summary.with_version += line.version >= 0;
        const bool writes = line.function == "set";
        expect(!writes || written.emplace(line.path, line.data).second, "was written before");
        break;
      }
      case What::kOk:
      case What::kRefused:
      case What::kUnknown: {
        const auto invoke = open.find(line.operation);
        REQUIRE(invoke != open.end());
        expect(invoke->second.client == line.client, "another client's");
        const std::string name = invoke->second.workload + " " + invoke->second.function;
        if (line.what == What::kOk) {
          ++summary.acknowledged[name];
        } else {
          ++summary.errors[line.error];
        }
        open.erase(invoke);
        --under_way[line.client];
        break;
      }
      case What::kConnected:
        expect(line.new_session == (session[line.client] == 0), "is it new?");
        expect(line.timeout_ms > 0, "no timeout");
        expect(!line.server.empty(), "no server");
        expect(line.new_session || session[line.client] == line.session, "another session");
        session[line.client] = line.session;
        break;
      case What::kDisconnected:
        expect(session[line.client] == line.session, "another session");
        summary.disconnected.insert(line.client);
        break;
      case What::kExpired:
      case What::kAbandoned:
      case What::kClosed:
        expect(session[line.client] == line.session, "another session");
        session[line.client] = 0;
        break;
      case What::kEvent:
        expect(line.watch > 0, "of no watch that was set");
        ++summary.events[line.type];
        break;
      case What::kWatchReset:
        expect(line.watch > 0, "of no watch that was set");
        break;
      case What::kEnd:
        summary.ended.insert(line.client);
    }
  }
  summary.under_way = open.size();
  return summary;
}

std::vector<std::string> Missing(Summary summary, bool is_native) {
  std::vector<std::string> missing;
  const auto expect = [&missing](bool is_there, const std::string& what) {
    if (!is_there) missing.push_back(what);
  };
  for (const char* name :
       {"register get",   "register set", "register exists",  "register sync",   "set create",
        "set list",       "set exists",   "sequence create",  "sequence delete", "sequence list",
        "counter get",    "counter set",  "append create",    "append get",      "append set",
        "bank multi-get", "bank multi",   "ephemeral create", "ephemeral list",  "watch create",
        "watch set",      "watch get",    "watch watch",      "session close",   "set multi"}) {
    expect(summary.acknowledged[name] > 0, name);
  }
  expect(summary.linearizable > 0, "linearizable reads");
  expect(summary.with_version > 0, "sets with a version");
  expect(summary.several_at_once > 0, "several operations at once");
  for (const char* type : {"created", "deleted", "changed"}) {
    expect(summary.events[type] > 0, absl::StrCat("event ", type));
  }
  if (is_native) {
    expect(summary.acknowledged["counter add"] > 0, "counter add");
    return missing;
  }
  expect(summary.events["children"] > 0, "event children");
  for (const char* kind : {"abandoned", "expired", "watch-reset"}) {
    expect(summary.kinds[kind] > 0, kind);
  }
  expect(summary.errors["ConnectionLoss"] > 0, "connections that were lost in an operation");
  return missing;
}

TEST_CASE("The history of a worker is complete although a server is killed") {
  const bool is_native = GENERATE(false, true);
  INFO((is_native ? "native" : "zookeeper"));
  auto servers = ServerFixture::Start({.settings = {"minSessionTimeout=500"}});
  INFO(servers.status());
  REQUIRE(servers.ok());
  const std::string history = TemporaryFile(is_native ? "native.jsonl" : "zookeeper.jsonl");
  Worker worker({"--process",
                 "3",
                 "--frontend",
                 is_native ? "native" : "zookeeper",
                 "--servers",
                 is_native ? (*servers)->address(1) : (*servers)->zookeeper_address(1),
                 "--clients",
                 std::to_string(kClients),
                 "--first-client",
                 "40",
                 "--workloads",
                 kAll,
                 "--seed",
                 "7",
                 "--session-timeout-ms",
                 "1500",
                 "--history",
                 history,
                 "--rate",
                 "400"});
  REQUIRE(worker.Read() == "worker ready\n");
  worker.WaitForMore(3000);
  // A client that is between two sessions when the server dies loses no connection; then the server dies
  // once more.
  for (int round = 0; round < kRestartsMax; ++round) {
    const absl::Status restarted = (*servers)->Restart(1);
    INFO(restarted);
    REQUIRE(restarted.ok());
    worker.WaitForMore(1500);
    if (Check(Read(history)).disconnected.size() == kClients) break;
  }
  // Kinds of operations are chosen at random: run until all have occurred.
  std::vector<std::string> missing;
  for (int round = 0; round < kRoundsMax; ++round) {
    worker.WaitForMore(1500);
    missing = Missing(Check(Read(history)), is_native);
    if (missing.empty()) break;
  }
  CAPTURE(missing);
  CHECK(missing.empty());
  REQUIRE(worker.Finish() == 0);

  Summary summary = Check(Read(history));
  CHECK(summary.under_way == 0);
  CHECK(summary.ended.size() == kClients);
  CHECK(summary.kinds["closed"] >= kClients);
  CHECK(summary.disconnected.size() == kClients);
  CHECK((summary.acknowledged["counter add"] > 0) == is_native);
}

}  // namespace
}  // namespace quorate::chaos
