// SPDX-License-Identifier: Apache-2.0

// locks_worker RECIPE --servers S --path P: uses a lock or stands for election until SIGTERM, and
// prints a history (history.h) of the locks that it held and when. After a session is lost, it
// begins another one. recipes_locks.py starts many workers, kills some, and checks their histories.
//
//   tick                       each 50 ms: in a gap between ticks the process did not run
//   session ID
//   acquiring KIND             KIND: mutex, read, write, lease, semaphore-mutex; first, second, both
//                              (MultiLock)
//   acquired KIND TOKEN
//   suspended KIND TOKEN
//   resumed KIND TOKEN
//   lost KIND TOKEN
//   release KIND TOKEN         printed right before the release
//   failed KIND STATUS
//   broken KIND                a MultiLock had one of its locks and not the other
//   outlived KIND              the session has ended, and the lock reports that it is not held
//   kept KIND                  the session has ended, and the lock reports that it is still held
//   wrote TOKEN ZXID           the fenced resource accepted a write
//   refused TOKEN NEWER        the fenced resource had seen a newer token
//   elected KIND TOKEN         KIND: election, latch, selector
//   deposed KIND TOKEN

#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/recipes/election.h"
#include "client/recipes/leader_latch.h"
#include "client/recipes/leader_selector.h"
#include "client/recipes/multi_lock.h"
#include "client/recipes/mutex.h"
#include "client/recipes/read_write_lock.h"
#include "client/recipes/semaphore.h"
#include "client/recipes/semaphore_mutex.h"
#include "tests/native/recipes/history.h"

namespace {

using quorate::Client;
using quorate::LockEvent;
using quorate::history::Print;

constexpr int kAcquireMs = 2000;
constexpr int kSyncMs = 10'000;
constexpr int kHoldMsMax = 15;
constexpr int kLeaseMsMax = 60;  // so that several are held at a time
constexpr timespec kTick{.tv_sec = 0, .tv_nsec = 50'000'000};

std::atomic<bool> stops{false};
// Set by SIGUSR1: the process stops itself (SIGSTOP) as soon as it holds a lock, when that does
// most harm.
std::atomic<bool> stops_holding{false};

struct Options {
  std::string servers;
  std::string ca_file;  // empty: without TLS
  std::string path;
  std::string resource;  // a znode; empty: none
  int session_timeout_ms = 3000;
  int threads = 2;
  int leases = 3;
  uint64_t seed = 1;
  bool keeps_client = false;
};

// Ticks until SIGTERM comes. REQUIRES: `signals`, SIGTERM and SIGUSR1, are blocked in all threads.
void TickUntilStopped(const sigset_t& signals) {
  while (!stops) {
    Print("tick");
    const int signal = sigtimedwait(&signals, nullptr, &kTick);
    if (signal == SIGTERM) stops = true;
    if (signal == SIGUSR1) stops_holding = true;
  }
}

// The state of one thread.
struct Turn {
  Client* client;
  // A client with another session, which does not end with the session that holds the locks.
  Client* resource_client;
  const Options* options;
  std::mt19937_64 random;

  // Holds the acquired lock for a moment; `holds` returns whether the lock reports that it is held.
  // If `stops_holding` is set, first stops the process until SIGCONT.
  void Hold(const std::string& kind, const std::function<bool()>& holds, int ms_max = kHoldMsMax) {
    if (stops_holding.exchange(false)) {
      const int64_t session = client->session_id();
      raise(SIGSTOP);
      // Listeners of the session get kLost before any call fails because of it, and before any call
      // of the next session succeeds.
      const absl::Status status = client->Sync({.deadline_ms = kSyncMs});
      const bool is_lost =
          quorate::ErrorOf(status) == quorate::ErrorCode::kSessionExpired ||
          (client->session_id() != session && client->Sync({.deadline_ms = kSyncMs}).ok());
      // A candidate may have been elected again, in the next session.
      const bool may_hold_again = options->keeps_client && kind == "office";
      if (is_lost && !(may_hold_again && holds())) Print(holds() ? "kept" : "outlived", kind);
    }
    std::this_thread::sleep_for(
        std::chrono::milliseconds(random() % (static_cast<uint64_t>(ms_max) + 1)));
  }
  int AcquireMs() { return static_cast<int>(random() % 4 == 0 ? 1 + random() % 30 : kAcquireMs); }
};

std::string OneWord(const absl::Status& status) {
  std::string text = status.ToString();
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == ' ' || c == '\n'; }, '_');
  return text;
}

// Returns the sequence number of a lease's znode, which the history has in place of a token.
int64_t NumberOf(const std::string& node) { return std::stoll(node.substr(node.size() - 10)); }

std::function<void(const LockEvent&)> PrintEvents(std::string kind) {
  return [kind = std::move(kind)](const LockEvent& event) {
    const int64_t token = kind == "lease" ? NumberOf(event.node) : event.fencing_token;
    switch (event.type) {
      case LockEvent::Type::kSuspended:
        return Print("suspended", kind, token);
      case LockEvent::Type::kResumed:
        return Print("resumed", kind, token);
      case LockEvent::Type::kLost:
        return Print("lost", kind, token);
      default:
        return;
    }
  };
}

// Writes to the resource, a znode whose data is the newest token. The resource refuses writes with
// older tokens.
void WriteFenced(Turn* turn, int64_t token) {
  const std::string& path = turn->options->resource;
  if (path.empty()) return;
  for (;;) {
    const auto read = turn->resource_client->Get(path, {.linearizable = true, .deadline_ms = 5000});
    if (!read.ok()) return;
    const int64_t newest = read->data.empty() ? 0 : std::stoll(read->data);
    if (newest > token) return Print("refused", token, newest);
    const auto set = turn->resource_client->Set(
        path, std::to_string(token), {.version = read->stat.version, .deadline_ms = 5000});
    if (set.ok()) return Print("wrote", token, set->modified_zxid);
    if (quorate::ErrorOf(set.status()) != quorate::ErrorCode::kBadVersion) return;
  }
}

// Acquires, holds and releases one lock once.
void UseLock(Turn* turn, quorate::InterProcessMutex* lock, const std::string& kind) {
  Print("acquiring", kind);
  if (absl::Status s = lock->Acquire(turn->AcquireMs()); !s.ok()) {
    return Print("failed", kind, OneWord(s));
  }
  const absl::StatusOr<int64_t> token = lock->FencingToken();
  if (token.ok()) {
    Print("acquired", kind, *token);
    turn->Hold(kind, [lock] { return lock->IsOwnedByThisThread(); });
    if (kind != "read") WriteFenced(turn, *token);
    Print("release", kind, *token);
  }
  if (absl::Status s = lock->Release(); !s.ok()) Print("failed", kind, OneWord(s));
}

void RunMutex(Turn* turn, quorate::InterProcessMutex* mutex) {
  while (!stops && turn->client->state() != Client::State::kLost) UseLock(turn, mutex, "mutex");
}

// Two mutexes, which are used alone and together.
struct Pair {
  Pair(Client* client, const std::string& path)
      : first(client, path + "/first", {.listener = PrintEvents("first")}),
        second(client, path + "/second", {.listener = PrintEvents("second")}),
        both({&first, &second}) {}

  // Returns the fencing token of each lock, or the error if it was lost or is not held.
  std::vector<std::pair<const char*, absl::StatusOr<int64_t>>> Tokens() const {
    return {{"first", first.FencingToken()}, {"second", second.FencingToken()}};
  }

  quorate::InterProcessMutex first, second;
  quorate::MultiLock both;
};

// Prints `broken` for each of the locks that the calling thread holds.
void CheckNoneIsHeld(const Pair& locks) {
  for (const auto& [kind, token] : locks.Tokens()) {
    if (!absl::IsFailedPrecondition(token.status())) Print("broken", kind);
  }
}

// Acquires, holds and releases both locks together once.
void UseBoth(Turn* turn, Pair* locks) {
  Print("acquiring", "both");
  if (absl::Status s = locks->both.Acquire(turn->AcquireMs()); !s.ok()) {
    CheckNoneIsHeld(*locks);
    return Print("failed", "both", OneWord(s));
  }
  const auto tokens = locks->Tokens();
  for (const auto& [kind, token] : tokens) {
    if (token.ok()) Print("acquired", kind, *token);
    if (absl::IsFailedPrecondition(token.status())) Print("broken", kind);
  }
  if (tokens[0].second.ok() && tokens[1].second.ok()) Print("together", "both");
  turn->Hold("both", [locks] {
    return locks->first.IsOwnedByThisThread() || locks->second.IsOwnedByThisThread();
  });
  for (const auto& [kind, token] : tokens) {
    if (token.ok()) Print("release", kind, *token);
  }
  if (absl::Status s = locks->both.Release(); !s.ok()) Print("failed", "both", OneWord(s));
  CheckNoneIsHeld(*locks);
}

void RunMulti(Turn* turn, Pair* locks) {
  while (!stops && turn->client->state() != Client::State::kLost) {
    const uint64_t what = turn->random() % 4;
    if (what == 0) {
      UseLock(turn, &locks->first, "first");
    } else if (what == 1) {
      UseLock(turn, &locks->second, "second");
    } else {
      UseBoth(turn, locks);
    }
  }
}

// Acquires the write lock, downgrades to the read lock, and releases that.
void Downgrade(Turn* turn, quorate::ReadWriteLock* lock) {
  Print("acquiring", "write");
  if (!lock->write_lock().Acquire(turn->AcquireMs()).ok()) return Print("failed", "write");
  const auto token = lock->write_lock().FencingToken();
  if (token.ok()) Print("acquired", "write", *token);
  turn->Hold("write", [lock] { return lock->write_lock().IsOwnedByThisThread(); });
  const bool reads = lock->read_lock().Acquire(kAcquireMs).ok();
  if (token.ok() && reads) Print("acquired", "read", *token);
  if (token.ok()) Print("release", "write", *token);
  lock->write_lock().Release().IgnoreError();
  if (!reads) return;
  if (token.ok()) Print("downgraded", "read", *token);
  turn->Hold("read", [lock] { return lock->read_lock().IsOwnedByThisThread(); });
  if (token.ok()) Print("release", "read", *token);
  lock->read_lock().Release().IgnoreError();
}

void RunReadWrite(Turn* turn, quorate::ReadWriteLock* lock) {
  while (!stops && turn->client->state() != Client::State::kLost) {
    const uint64_t what = turn->random() % 6;
    if (what == 0) {
      Downgrade(turn, lock);
    } else if (what == 1) {
      UseLock(turn, &lock->write_lock(), "write");
    } else {
      UseLock(turn, &lock->read_lock(), "read");
    }
  }
}

void RunSemaphore(Turn* turn, quorate::Semaphore* semaphore) {
  while (!stops && turn->client->state() != Client::State::kLost) {
    Print("acquiring", "lease");
    auto lease = semaphore->Acquire(turn->AcquireMs());
    if (!lease.ok()) {
      Print("failed", "lease", OneWord(lease.status()));
      continue;
    }
    const int64_t number = NumberOf(lease->node());
    Print("acquired", "lease", number);
    turn->Hold(
        "lease", [&lease] { return lease->is_held(); }, kLeaseMsMax);
    Print("release", "lease", number);
    lease->Return().IgnoreError();
  }
}

// Acquires, holds and releases a semaphore mutex, which has no token: a number of this process stands for it.
void RunSemaphoreMutex(Turn* turn) {
  static std::atomic<int64_t> last{0};
  std::atomic<int64_t> number{0};
  quorate::SemaphoreMutex mutex(turn->client, turn->options->path,
                                {.listener = [&number](const LockEvent& event) {
                                  if (event.type == LockEvent::Type::kSuspended)
                                    Print("suspended", "semaphore-mutex", number);
                                  if (event.type == LockEvent::Type::kResumed)
                                    Print("resumed", "semaphore-mutex", number);
                                  if (event.type == LockEvent::Type::kLost)
                                    Print("lost", "semaphore-mutex", number);
                                }});
  while (!stops && turn->client->state() != Client::State::kLost) {
    number = ++last;
    Print("acquiring", "semaphore-mutex");
    if (absl::Status s = mutex.Acquire(turn->AcquireMs()); !s.ok()) {
      Print("failed", "semaphore-mutex", OneWord(s));
      continue;
    }
    Print("acquired", "semaphore-mutex", number);
    turn->Hold("semaphore-mutex", [&mutex] { return mutex.IsAcquiredInThisProcess(); });
    Print("release", "semaphore-mutex", number);
    if (absl::Status s = mutex.Release(); !s.ok()) Print("failed", "semaphore-mutex", OneWord(s));
  }
}

// Prints when this worker begins to lead and when it stops leading. A latch has no token here, so a
// number is printed instead. Used by a listener only.
class Leadership {
 public:
  explicit Leadership(std::string kind) : kind_(std::move(kind)) {}
  void Tell(bool leads, int64_t token) {
    if (leads == leads_) return;
    static std::atomic<int64_t> last{0};
    leads_ = leads;
    if (leads) token_ = token != 0 ? token : ++last;
    Print(leads ? "elected" : "deposed", kind_, token_);
  }

 private:
  const std::string kind_;
  bool leads_ = false;
  int64_t token_ = 0;
};

// Is a candidate of an election and a latch. When it leads, it holds the leadership for a moment,
// then resigns or closes the latch.
void RunElection(Turn* turn) {
  const std::string& path = turn->options->path;
  Leadership leadership("election"), latched("latch");
  quorate::Election election(turn->client, path + "/election",
                             {.id = "worker", .listener = [&](const quorate::ElectionEvent& event) {
                                leadership.Tell(event.state == quorate::ElectionState::kElected,
                                                event.fencing_token);
                              }});
  quorate::LeaderLatch latch(turn->client, path + "/latch",
                             {.id = "worker", .listener = [&](bool has) { latched.Tell(has, 0); }});
  if (!election.Start().ok()) return;
  while (!stops && turn->client->state() != Client::State::kLost) {
    // Fails, which does no harm, unless the latch was closed.
    latch.Start().IgnoreError();
    const bool leads = election.AwaitLeadership(20).ok();
    const bool has = latch.Await(20).ok();
    turn->Hold("office", [&] { return election.is_leader() || latch.HasLeadership(); });
    if (leads) election.Resign().IgnoreError();
    if (has) latch.Close(kAcquireMs).IgnoreError();
  }
  election.Stop(kAcquireMs).IgnoreError();
  latch.Close(kAcquireMs).IgnoreError();
}

// Leads for a moment, until it is asked to stop at the latest, again and again.
void RunSelector(Turn* turn) {
  quorate::LeaderSelector selector(
      turn->client, turn->options->path,
      [turn](const quorate::Leadership& leadership) {
        const int64_t token = leadership.fencing_token();
        std::atomic<bool> is_over{false};
        const auto end = [&is_over, token] {
          if (!is_over.exchange(true)) Print("deposed", "selector", token);
        };
        Print("elected", "selector", token);
        const std::stop_callback asked(leadership.stop(), end);
        turn->Hold("term", [&leadership] { return !leadership.stop().stop_requested(); });
        quorate::Transaction transaction;
        if (leadership.Guard(&transaction).ok()) {
          transaction.Set(turn->options->resource, std::to_string(token));
          const auto written = turn->client->Commit(transaction);
          if (written.ok()) Print("wrote", token, written->zxid);
        }
        end();
      },
      {.id = "worker"});
  if (!selector.Start().ok()) return;
  while (!stops && turn->client->state() != Client::State::kLost) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(kTick.tv_nsec));
  }
  selector.Close(kAcquireMs).IgnoreError();
}

// The work of one session.
void RunSession(const std::string& recipe, const Options& options, uint64_t session) {
  quorate::ClientOptions client_options;
  client_options.servers = options.servers;
  client_options.tls = {.enabled = !options.ca_file.empty(), .ca_file = options.ca_file};
  client_options.session_timeout_ms = options.session_timeout_ms;
  client_options.connect_timeout_ms = 20'000;
  client_options.on_session_loss =
      options.keeps_client ? quorate::SessionLoss::kReplace : quorate::SessionLoss::kStop;
  auto client = Client::Connect(client_options);
  client_options.session_timeout_ms = 30'000;
  auto resource_client = Client::Connect(client_options);
  if (!client.ok() || !resource_client.ok()) return;
  Print("session", (*client)->session_id());
  quorate::InterProcessMutex mutex(client->get(), options.path,
                                   {.data = "worker", .listener = PrintEvents("mutex")});
  quorate::ReadWriteLock lock(client->get(), options.path, {.listener = PrintEvents("read")},
                              {.listener = PrintEvents("write")});
  quorate::Semaphore semaphore(client->get(), options.path, options.leases,
                               {.listener = PrintEvents("lease")});
  Pair pair(client->get(), options.path);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(options.threads));
  for (int i = 0; i < options.threads; ++i) {
    threads.emplace_back([&, i] {
      Turn turn{client->get(), resource_client->get(), &options,
                std::mt19937_64(options.seed * 1000 + session * 10 + static_cast<uint64_t>(i))};
      if (recipe == "mutex") RunMutex(&turn, &mutex);
      if (recipe == "multi") RunMulti(&turn, &pair);
      if (recipe == "read-write") RunReadWrite(&turn, &lock);
      if (recipe == "semaphore") RunSemaphore(&turn, &semaphore);
      if (recipe == "semaphore-mutex") RunSemaphoreMutex(&turn);
      if (recipe == "election") RunElection(&turn);
      if (recipe == "selector") RunSelector(&turn);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  // Block the signals before any thread is started, so that all threads inherit the mask.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  Options options;
  std::string recipe;
  CLI::App app("Uses a recipe until SIGTERM, and prints a history.");
  app.add_option("recipe", recipe)
      ->required()
      ->check(CLI::IsMember({"mutex", "multi", "read-write", "semaphore", "semaphore-mutex",
                             "election", "selector"}));
  app.add_option("--servers", options.servers)->required();
  app.add_option("--ca", options.ca_file, "use TLS, with these authorities of servers");
  app.add_option("--path", options.path)->required();
  app.add_option("--resource", options.resource,
                 "a znode that accepts writes only of the newest holder");
  app.add_option("--session-timeout-ms", options.session_timeout_ms);
  app.add_option("--threads", options.threads);
  app.add_option("--leases", options.leases);
  app.add_option("--seed", options.seed);
  app.add_flag("--keep-client", options.keeps_client,
               "go on with the client, and what is built on it, after the loss of a session");
  CLI11_PARSE(app, argc, argv);
  std::thread ticker([&signals] { TickUntilStopped(signals); });
  for (uint64_t session = 1; !stops; ++session) RunSession(recipe, options, session);
  ticker.join();
  return 0;
}
