// SPDX-License-Identifier: Apache-2.0

// counting_clients: many clients increment counters and append znodes alternately, while the leader
// is killed again and again. Each acknowledged change must have been made once, and there must be
// no others; no call may fail; a watch must report each appended znode once.
//
//   counting_clients [--clients 50] [--kills 100] [--program QUORATED]
//
// After a failure, prints what was wrong and exits with status 1.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/testing/server_fixture.h"

namespace {

using Clock = std::chrono::steady_clock;
using quorate::Client;
using quorate::testing::ServerFixture;

constexpr int kCounters = 5;
constexpr int kSessionTimeoutMs = 15'000;
constexpr std::chrono::seconds kProgressTimeout{60};

// Collects the changes and failures of all clients.
class Board {
 public:
  void CountOne(Clock::duration took) {
    std::lock_guard<std::mutex> lock(mutex_);
    ++changes_;
    longest_ = std::max(longest_, took);
    changed_.notify_all();
  }
  void Fail(const std::string& what) {
    std::lock_guard<std::mutex> lock(mutex_);
    failures_.push_back(what);
    changed_.notify_all();
  }
  // Waits until `count` more changes are made. Returns false after a failure of any client, or if
  // the clients make no progress.
  bool WaitForMore(int64_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    const int64_t wanted = changes_ + count;
    const bool done = changed_.wait_for(lock, kProgressTimeout,
                                        [&] { return changes_ >= wanted || !failures_.empty(); });
    if (!done) failures_.push_back("the clients make no progress");
    return failures_.empty();
  }
  Clock::duration TakeLongest() {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(longest_, Clock::duration::zero());
  }
  int64_t changes() {
    std::lock_guard<std::mutex> lock(mutex_);
    return changes_;
  }
  bool Report() {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const std::string& failure : failures_) std::printf("FAIL %s\n", failure.c_str());
    return failures_.empty();
  }

  std::atomic<bool> stops{false};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t changes_ = 0;
  Clock::duration longest_{};
  std::vector<std::string> failures_;
};

class Worker {
 public:
  Worker(std::unique_ptr<Client> client, int number, Board* board)
      : client_(std::move(client)), number_(number), board_(board) {
    thread_ = std::thread([this] { Run(); });
  }
  void Join() { thread_.join(); }
  const std::vector<std::string>& appended() const { return appended_; }
  int counter() const { return number_ % kCounters; }
  int64_t increments() const { return increments_; }

 private:
  void Run() {
    for (bool counts = true; !board_->stops; counts = !counts) {
      const Clock::time_point begin = Clock::now();
      const absl::Status status = counts ? Increment() : Append();
      if (!status.ok()) {
        return board_->Fail("client " + std::to_string(number_) + ": " + status.ToString());
      }
      board_->CountOne(Clock::now() - begin);
    }
    if (absl::Status s = client_->Close(); !s.ok()) board_->Fail("Close: " + s.ToString());
  }
  // Increments a counter by compare-and-set, until no other client was faster.
  absl::Status Increment() {
    const std::string path = "/counter-" + std::to_string(counter());
    for (;;) {
      auto read = client_->Get(path);
      if (!read.ok()) return read.status();
      const absl::Status status = client_
                                      ->Set(path, std::to_string(std::stoll(read->data) + 1),
                                            {.version = read->stat.version})
                                      .status();
      if (status.ok()) ++increments_;
      if (quorate::ErrorOf(status) != quorate::ErrorCode::kBadVersion) return status;
    }
  }
  absl::Status Append() {
    auto created =
        client_->Create("/queue/n-", "", {.mode = quorate::CreateMode::kPersistentSequential});
    if (created.ok()) appended_.push_back(created->path);
    return created.status();
  }

  const std::unique_ptr<Client> client_;
  const int number_;
  Board* const board_;
  int64_t increments_ = 0;
  std::vector<std::string> appended_;
  std::thread thread_;
};

std::unique_ptr<Client> Connect(const ServerFixture& servers, Board* board) {
  auto client =
      Client::Connect({.servers = servers.servers(), .session_timeout_ms = kSessionTimeoutMs});
  if (client.ok()) return *std::move(client);
  board->Fail("Connect: " + client.status().ToString());
  return nullptr;
}

void KillLeaders(int kills, ServerFixture* servers, Board* board) {
  for (int i = 0; i < kills && board->WaitForMore(100); ++i) {
    const int leader = servers->Leader();
    if (leader == 0) return board->Fail("there is no leader");
    board->TakeLongest();
    servers->Kill(leader);
    if (!board->WaitForMore(100)) return;
    const double took_ms = std::chrono::duration<double, std::milli>(board->TakeLongest()).count();
    std::printf("kill %d: member %d, the longest change took %.0f ms\n", i + 1, leader, took_ms);
    if (absl::Status s = servers->Restart(leader); !s.ok()) return board->Fail(s.ToString());
  }
  board->WaitForMore(100);
}

void CheckResult(Client* reader, const std::vector<std::unique_ptr<Worker>>& workers,
                 std::vector<std::string> told, Board* board) {
  std::vector<int64_t> increments(kCounters);
  std::vector<std::string> appended;
  for (const auto& worker : workers) {
    increments[static_cast<size_t>(worker->counter())] += worker->increments();
    if (worker->increments() == 0) board->Fail("a client never incremented a counter");
    appended.insert(appended.end(), worker->appended().begin(), worker->appended().end());
  }
  for (int i = 0; i < kCounters; ++i) {
    auto counter = reader->Get("/counter-" + std::to_string(i), {.linearizable = true});
    const std::string acknowledged = std::to_string(increments[static_cast<size_t>(i)]);
    const std::string there = counter.ok() ? counter->data : counter.status().ToString();
    if (there != acknowledged) {
      board->Fail("counter " + std::to_string(i) + ": " + acknowledged +
                  " increments were acknowledged, and it is " + there);
    }
  }
  std::sort(appended.begin(), appended.end());
  std::vector<std::string> there;
  if (auto list = reader->List("/queue", {.linearizable = true}); list.ok()) {
    for (const std::string& name : list->children) there.push_back("/queue/" + name);
  }
  if (there != appended) {
    board->Fail(std::to_string(appended.size()) + " znodes were acknowledged, " +
                std::to_string(there.size()) + " are there, or others");
  }
  if (told != there) {
    board->Fail("the watch reported " + std::to_string(told.size()) + " of " +
                std::to_string(there.size()) + " znodes, or other znodes, or in another order");
  }
}

int Run(int clients, int kills, const std::string& program) {
  auto servers = ServerFixture::Start({.members = 3, .program = program});
  if (!servers.ok()) {
    std::printf("%s\n", servers.status().ToString().c_str());
    return 1;
  }
  Board board;
  std::unique_ptr<Client> reader = Connect(**servers, &board);
  if (reader == nullptr) return 1;
  for (int i = 0; i < kCounters; ++i) {
    if (!reader->Create("/counter-" + std::to_string(i), "0").ok()) return 1;
  }
  if (!reader->Create("/queue").ok()) return 1;
  std::vector<std::string> told;  // used by the reader's thread of callbacks until watch->End()
  auto watch = reader->Watch("/queue", quorate::WatchScope::kChildren,
                             [&](const quorate::WatchNotification& notification) {
                               const auto* event = std::get_if<quorate::Event>(&notification);
                               if (event == nullptr) return board.Fail("events were lost");
                               told.push_back(event->path);
                             });
  if (!watch.ok()) return 1;
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < clients; ++i) {
    std::unique_ptr<Client> client = Connect(**servers, &board);
    if (client != nullptr) {
      workers.push_back(std::make_unique<Worker>(std::move(client), i, &board));
    }
  }
  KillLeaders(kills, servers->get(), &board);
  board.stops = true;
  for (const auto& worker : workers) worker->Join();
  // All events are delivered before the answer.
  if (absl::Status s = reader->Sync(); !s.ok()) board.Fail("Sync: " + s.ToString());
  watch->End();
  CheckResult(reader.get(), workers, std::move(told), &board);
  std::printf("%lld changes by %d clients, %d kills\n", static_cast<long long>(board.changes()),
              clients, kills);
  return board.Report() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  int clients = 50, kills = 100;
  std::string program;
  CLI::App app("Runs clients that increment counters while leaders are killed.");
  app.add_option("--clients", clients)->check(CLI::Range(1, 500));
  app.add_option("--kills", kills)->check(CLI::NonNegativeNumber);
  app.add_option("--program", program, "quorated; otherwise $QUORATED, or Bazel's");
  CLI11_PARSE(app, argc, argv);
  return Run(clients, kills, program);
}
