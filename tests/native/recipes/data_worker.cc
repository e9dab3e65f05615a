// SPDX-License-Identifier: Apache-2.0

// data_worker: uses one of the recipes for data (worker.h). The help texts of kRecipes describe them;
// tests/native/recipes_data.py checks the histories.

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/recipes/barrier.h"
#include "client/recipes/count_down_latch.h"
#include "client/recipes/counter.h"
#include "client/recipes/delayed_queue.h"
#include "client/recipes/double_barrier.h"
#include "client/recipes/group_membership.h"
#include "client/recipes/persistent_node.h"
#include "client/recipes/persistent_ttl_node.h"
#include "client/recipes/priority_queue.h"
#include "client/recipes/queue.h"
#include "client/recipes/service_discovery.h"
#include "client/recipes/shared_value.h"
#include "client/recipes/tree_cache.h"
#include "client/recipes/two_phase_commit.h"
#include "client/recipes/waiting.h"
#include "tests/native/recipes/history.h"
#include "tests/native/recipes/worker.h"

namespace {

using quorate::Client;
using quorate::Decision;
using quorate::history::Print;
using quorate::worker::IsOutOfSpace;
using quorate::worker::kPatienceMs;
using quorate::worker::NamedRecipe;
using quorate::worker::Random;
using quorate::worker::Settings;
using quorate::worker::stops;
using quorate::worker::WaitForFreeSpace;

constexpr char kPlain[] = "/queue", kPriority[] = "/priority-queue", kDelayed[] = "/delayed-queue";
constexpr char kTransactions[] = "/2pc", kGate[] = "/gate", kKept[] = "/kept", kTtl[] = "/ttl";
constexpr char kServices[] = "/services", kService[] = "web";
constexpr int kDelayMsMax = 300;

// --- Recipes; each function runs until `stops` (OK) or a failure ---------------------------------

// Adds 1 by CompareAndSet, and returns the sum.
absl::StatusOr<int64_t> CompareAndAdd(quorate::Counter* counter) {
  for (;;) {
    const absl::StatusOr<int64_t> before = counter->Get();
    if (!before.ok()) return before.status();
    const absl::StatusOr<bool> is_set = counter->CompareAndSet(*before, *before + 1);
    if (!is_set.ok()) return is_set.status();
    if (*is_set) return *before + 1;
  }
}

// Adds to a counter. The arguments of `added` are the sum and the method.
absl::Status Count(Client* client, const Settings&) {
  quorate::Counter counter(client, "/counter");
  while (!stops) {
    const bool compares = Random(2) == 0;
    Print("adding");
    const absl::StatusOr<int64_t> sum = compares ? CompareAndAdd(&counter) : counter.Add(1);
    if (!sum.ok()) return sum.status();
    Print("added", *sum, compares ? "compare-and-set" : "add");
  }
  return absl::OkStatus();
}

// Adds to a value of which it follows all changes. The arguments of `added` are the sum and the method.
// After `looking`, the copy has to have at least every sum that was added before; the argument of `saw` is
// what it has.
absl::Status Share(Client* client, const Settings&) {
  auto value = quorate::SharedValue::Start(client, "/shared", "0");
  if (!value.ok()) return value.status();
  while (!stops) {
    Print("looking");
    if (absl::Status s = (*value)->WaitUntilCurrent(); !s.ok()) return s;
    const quorate::VersionedValue before = (*value)->Get();
    Print("saw", before.data);
    const std::string sum = std::to_string(std::stoll(before.data) + 1);
    Print("adding");
    const absl::StatusOr<bool> is_set = (*value)->TrySet(before, sum);
    if (!is_set.ok()) return is_set.status();
    if (*is_set) {
      Print("added", sum, "try-set");
    } else {
      Print("beaten");
    }
  }
  return absl::OkStatus();
}

// Returns the time by the clock of DelayedQueue.
int64_t SystemNowMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// Offers items to three queues. The arguments of `offering` and `offered` are the item, its queue,
// and its rank there: a priority, or the due time.
absl::Status Produce(Client* client, const Settings& settings) {
  static int last = 0;
  quorate::Queue plain(client, kPlain);
  quorate::PriorityQueue priority(client, kPriority);
  quorate::DelayedQueue delayed(client, kDelayed);
  while (!stops) {
    const std::string item =
        settings.name + "-" + std::to_string(getpid()) + "-" + std::to_string(++last);
    absl::Status status;
    const char* queue = kPlain;
    int64_t rank = 0;
    switch (Random(3)) {
      case 0:
        Print("offering", item, queue, rank);
        status = plain.Offer(item);
        break;
      case 1:
        queue = kPriority;
        rank = Random(3) - 1;
        Print("offering", item, queue, rank);
        status = priority.Offer(item, static_cast<int32_t>(rank));
        break;
      default:
        queue = kDelayed;
        rank = SystemNowMs() + Random(kDelayMsMax);
        Print("offering", item, queue, rank);
        status = delayed.Offer(item, rank);
        break;
    }
    if (!status.ok()) return status;
    Print("offered", item, queue, rank);
    // Slow enough that consumers have to wait for items that are not due yet.
    std::this_thread::sleep_for(std::chrono::milliseconds(Random(10)));
  }
  return absl::OkStatus();
}

// Takes items from a queue. The argument of `taking` is the queue; those of `took` are the item,
// the queue, and the time by the system's clock.
absl::Status ConsumeFrom(quorate::ItemQueue* queue, const char* path) {
  while (!stops) {
    Print("taking", path);
    const absl::StatusOr<std::string> item = queue->Take(kPatienceMs);
    if (item.ok()) {
      Print("took", *item, path, SystemNowMs());
    } else if (IsOutOfSpace(item.status())) {
      WaitForFreeSpace();  // needed for a place in the line; writes that only remove are accepted
    } else if (!absl::IsDeadlineExceeded(item.status())) {
      return item.status();
    }
  }
  return absl::OkStatus();
}

absl::Status Consume(Client* client, const Settings&) {
  quorate::Queue plain(client, kPlain);
  quorate::PriorityQueue priority(client, kPriority);
  quorate::DelayedQueue delayed(client, kDelayed);
  absl::Status of_priority, of_delayed;
  std::thread second([&] { of_priority = ConsumeFrom(&priority, kPriority); });
  std::thread third([&] { of_delayed = ConsumeFrom(&delayed, kDelayed); });
  absl::Status status = ConsumeFrom(&plain, kPlain);
  second.join();
  third.join();
  status.Update(of_priority);
  status.Update(of_delayed);
  return status;
}

absl::Status DrainFrom(quorate::ItemQueue* queue, const char* path) {
  for (;;) {
    Print("taking", path);
    // Long enough for all items that are not due yet.
    const absl::StatusOr<std::string> item = queue->Take(kDelayMsMax + kPatienceMs);
    if (absl::IsDeadlineExceeded(item.status())) return absl::OkStatus();
    if (!item.ok()) return item.status();
    Print("took", *item, path, SystemNowMs());
  }
}

// Takes all items that are left in the queues.
absl::Status Drain(Client* client, const Settings&) {
  quorate::Queue plain(client, kPlain);
  quorate::PriorityQueue priority(client, kPriority);
  quorate::DelayedQueue delayed(client, kDelayed);
  absl::Status status = DrainFrom(&plain, kPlain);
  status.Update(DrainFrom(&priority, kPriority));
  status.Update(DrainFrom(&delayed, kDelayed));
  return status;
}

// Closes and opens a gate repeatedly, and leaves it open.
absl::Status KeepGate(Client* client, const Settings&) {
  quorate::Barrier gate(client, kGate);
  while (!stops) {
    Print("closing");
    if (absl::Status s = gate.Close(); !s.ok()) return s;
    Print("closed");
    std::this_thread::sleep_for(std::chrono::milliseconds(Random(Random(4) == 0 ? 150 : 20)));
    Print("opening");
    if (absl::Status s = gate.Open(); !s.ok()) return s;
    Print("opened");
    std::this_thread::sleep_for(std::chrono::milliseconds(Random(3)));
  }
  return absl::OkStatus();
}

absl::Status PassGate(Client* client, const Settings&) {
  quorate::Barrier gate(client, kGate);
  while (!stops) {
    Print("coming");
    // Often without a deadline, so that a lost wake-up makes the worker hang and is noticed.
    const absl::Status status = gate.Wait(Random(2) == 0 ? Random(30) + 1 : 0);
    if (!status.ok() && !absl::IsDeadlineExceeded(status)) return status;
    Print(status.ok() ? "passed" : "gave-up");
  }
  return absl::OkStatus();
}

absl::Status Meet(Client* client, const Settings& settings) {
  quorate::DoubleBarrier barrier(client, "/double-barrier", settings.members);
  while (!stops) {
    Print("entering");
    absl::Status status = barrier.Enter(kPatienceMs);
    if (absl::IsDeadlineExceeded(status)) {
      Print("gave-up");
      continue;
    }
    if (!status.ok()) return status;
    Print("entered");
    if (Random(4) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(Random(20)));
    Print("leaving");
    status = barrier.Leave(kPatienceMs * 100);
    if (!status.ok()) return status;
    Print("left");
  }
  return absl::OkStatus();
}

// Counts a latch down for the jobs, in random order, for a job possibly many times.
absl::Status CountDown(Client* client, const Settings& settings) {
  quorate::CountDownLatch latch(client, "/latch");
  if (const auto made = latch.Create(settings.jobs); !made.ok()) return made.status();
  while (!stops) {
    const int job = Random(settings.jobs);
    Print("counting", job);
    const absl::StatusOr<int64_t> left = latch.CountDown("job-" + std::to_string(job));
    if (!left.ok()) return left.status();
    Print("left", *left);
  }
  return absl::OkStatus();
}

absl::Status WaitForLatch(Client* client, const Settings& settings) {
  quorate::CountDownLatch latch(client, "/latch");
  if (const auto made = latch.Create(settings.jobs); !made.ok()) return made.status();
  while (!stops) {
    const absl::Status status = latch.Wait(kPatienceMs);
    if (absl::IsDeadlineExceeded(status)) continue;
    if (!status.ok()) return status;
    Print("open");
    stops.wait(false);
  }
  return absl::OkStatus();
}

// --- Two-phase commit ----------------------------------------------------------------------------

const char* NameOf(Decision decision) { return decision == Decision::kCommit ? "commit" : "abort"; }

std::vector<std::string> Participants(const Settings& settings) {
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(settings.members));
  for (int i = 0; i < settings.members; ++i) names.push_back("p" + std::to_string(i));
  return names;
}

// Returns the vote, by a rule that the checker knows, too: about one vote in five is no, of varying
// participants.
bool IsInFavour(const std::string& participant, const std::string& transaction) {
  int sum = 0;
  for (const char c : participant + transaction) sum += static_cast<unsigned char>(c);
  return sum % 5 != 0;
}

absl::Status CompleteTransaction(quorate::TwoPhaseCoordinator* coordinator,
                                 const std::string& name) {
  using Clock = std::chrono::steady_clock;
  static int64_t usual_ms = 10;
  // Often such a short deadline that the decision to abort races with the last vote.
  const int64_t soon_ms = std::max<int64_t>(usual_ms - 2 + Random(4), 1);
  const Clock::time_point begin = Clock::now();
  const absl::StatusOr<Decision> decision =
      coordinator->Decide(Random(4) == 0 ? kPatienceMs : static_cast<int>(soon_ms));
  if (!decision.ok()) return decision.status();
  if (*decision == Decision::kCommit) {
    usual_ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
  }
  Print("coordinated", name, NameOf(*decision));
  for (;;) {
    const absl::Status status = coordinator->Finish(kPatienceMs);
    if (!absl::IsDeadlineExceeded(status)) return status;
    if (stops) return absl::OkStatus();
  }
}

absl::Status Coordinate(Client* client, const Settings& settings) {
  const std::string directory = kTransactions;
  if (absl::Status s = quorate::internal::EnsureZnode(client, directory); !s.ok()) return s;
  quorate::Counter numbers(client, "/2pc-numbers");
  // Complete the transactions that an earlier coordinator has left.
  const absl::StatusOr<quorate::ListResult> old = client->List(directory);
  if (!old.ok()) return old.status();
  for (const std::string& name : old->children) {
    auto coordinator = quorate::TwoPhaseCoordinator::Resume(client, directory + "/" + name);
    if (quorate::ErrorOf(coordinator.status()) == quorate::ErrorCode::kNoNode) continue;
    if (!coordinator.ok()) return coordinator.status();
    Print("resumed", name);
    const absl::Status status = CompleteTransaction(&*coordinator, name);
    if (!status.ok() && quorate::ErrorOf(status) != quorate::ErrorCode::kNoNode) return status;
  }
  while (!stops) {
    const absl::StatusOr<int64_t> number = numbers.Add(1);
    if (!number.ok()) return number.status();
    const std::string name = "t" + std::to_string(*number);
    Print("began", name);
    auto coordinator = quorate::TwoPhaseCoordinator::Begin(client, directory + "/" + name,
                                                           Participants(settings), "");
    if (!coordinator.ok()) return coordinator.status();
    if (absl::Status s = CompleteTransaction(&*coordinator, name); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// Takes part in one transaction: votes, waits for the decision, and acknowledges it. Stops at the
// first error.
absl::Status TakePart(Client* client, const std::string& path, const std::string& own) {
  const std::string name = path.substr(path.rfind('/') + 1);
  quorate::TwoPhaseParticipant participant(client, path, own);
  const bool yes = IsInFavour(own, name);
  Print("voting", name, yes ? "yes" : "no");
  const absl::StatusOr<bool> vote = participant.Vote(yes);
  if (!vote.ok() && !absl::IsAborted(vote.status())) return vote.status();
  const absl::StatusOr<Decision> decision = participant.WaitForDecision(kPatienceMs);
  if (!decision.ok()) return decision.status();
  Print("decided", name, NameOf(*decision));
  return participant.Acknowledge();
}

absl::Status Participate(Client* client, const Settings& settings) {
  const std::string directory = kTransactions;
  while (!stops) {
    std::vector<std::string> open;
    absl::Status status = quorate::internal::WaitUntil(
        client, directory, quorate::WatchScope::kChildren,
        quorate::internal::WaitDeadline(kPatienceMs), "transactions",
        [&]() -> absl::StatusOr<bool> {
          const auto list = client->List(directory);
          if (quorate::ErrorOf(list.status()) == quorate::ErrorCode::kNoNode) return false;
          if (!list.ok()) return list.status();
          open = list->children;
          return !open.empty();
        });
    if (!status.ok() && !absl::IsDeadlineExceeded(status)) return status;
    for (const std::string& name : open) {
      status = TakePart(client, directory + "/" + name, settings.name);
      const bool is_gone = quorate::ErrorOf(status) == quorate::ErrorCode::kNoNode;
      if (!status.ok() && !is_gone && !absl::IsDeadlineExceeded(status)) return status;
    }
  }
  return absl::OkStatus();
}

// --- Views ---------------------------------------------------------------------------------------

absl::Status Churn(Client* client, const Settings&) {
  if (absl::Status s = quorate::internal::EnsureZnode(client, "/tree"); !s.ok()) return s;
  while (!stops) {
    std::string path = "/tree";
    for (int depth = Random(3) + 1; depth > 0; --depth) path += "/" + std::to_string(Random(4));
    absl::Status status;
    switch (Random(4)) {
      case 0:
        status = client->Delete(path, {.recursive = true}).status();
        break;
      case 1:
        status = client->Set(path, std::to_string(Random(1000))).status();
        break;
      default:
        status = client->Create(path).status();
        break;
    }
    if (status.ok()) Print("changed", path);
    const auto error = quorate::ErrorOf(status);
    if (!status.ok() && error != quorate::ErrorCode::kNoNode &&
        error != quorate::ErrorCode::kNodeExists) {
      return status;
    }
  }
  return absl::OkStatus();
}

// Reads the znodes at and below `path` into `all`: data by path.
absl::Status ReadAll(Client* client, const std::string& path,
                     std::map<std::string, std::string>* all) {
  const auto read = client->Get(path);
  if (!read.ok()) return read.status();
  (*all)[path] = read->data;
  const auto list = client->List(path);
  if (!list.ok()) return list.status();
  for (const std::string& name : list->children) {
    if (absl::Status s = ReadAll(client, path + "/" + name, all); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// Follows the changes of Churn with a TreeCache, and compares at the end, when no client changes
// the tree any more.
absl::Status Follow(Client* client, const Settings&) {
  std::map<std::string, std::string> told;  // used by the thread of callbacks until cache->reset()
  auto cache =
      quorate::TreeCache::Start(client, "/tree", [&](const quorate::TreeCache::Change& change) {
        using Type = quorate::TreeCache::Change::Type;
        const std::string& path = change.znode.path;
        if (change.type == Type::kRemoved) {
          told.erase(path);
        } else if (change.type == Type::kAdded || change.type == Type::kChanged) {
          const std::string parent = path.substr(0, path.rfind('/'));
          if (path != "/tree" && told.count(parent) == 0) Print("orphan", path);
          told[path] = change.znode.data;
        } else if (change.type == Type::kLost) {
          stops = true;
          stops.notify_all();
        }
      });
  if (!cache.ok()) return cache.status();
  if (absl::Status s = (*cache)->WaitUntilLoaded(); !s.ok()) return s;
  Print("loaded");
  stops.wait(false);
  if (absl::Status s = client->Sync(); !s.ok()) return s;
  if (absl::Status s = (*cache)->WaitUntilCurrent(); !s.ok()) return s;
  std::map<std::string, std::string> copy, there;
  for (const auto& znode : (*cache)->All()) copy[znode.path] = znode.data;
  cache->reset();
  if (absl::Status s = ReadAll(client, "/tree", &there); !s.ok()) return s;
  const bool is_same = copy == there && told == there;
  Print(is_same ? "same" : "different", there.size(), copy.size(), told.size());
  return absl::OkStatus();
}

absl::Status BeMember(Client* client, const Settings& settings) {
  auto group = quorate::GroupMembership::Start(
      client, "/group", [](const quorate::GroupMembership::Change& change) {
        using Type = quorate::GroupMembership::Change::Type;
        if (change.type == Type::kJoined) Print("joined", change.id);
        if (change.type == Type::kLeft) Print("left", change.id);
        if (change.type == Type::kLost) {
          Print("lost");
          stops.notify_all();
        }
      });
  if (!group.ok()) return group.status();
  if (absl::Status s = (*group)->Join(settings.name, "data"); !s.ok()) return s;
  Print("member");
  while (!stops) {
    // Fails when the session is lost.
    const auto members = (*group)->CurrentMembers();
    if (!members.ok()) return members.status();
    std::string names;
    for (const auto& [id, data] : *members) names += (names.empty() ? "" : ",") + id;
    Print("sees", names);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return absl::OkStatus();
}

// --- Persistent nodes and services ---------------------------------------------------------------

// Returns the next number of this process. Numbers that a session writes increase, so that a reader
// knows which data is older.
int64_t NextNumber() {
  static int64_t last = 0;
  return ++last;
}

// Keeps a persistent node of its own, whose data it changes, and now and then one at a path for
// which other workers compete. The data are the session and a number. The arguments of `setting`,
// `set`, `closing` and `closed` are the znode, the session and the number; after `set` a reader has
// to see the data.
absl::Status Keep(Client* client, const Settings& settings) {
  const int64_t session = client->session_id();
  const auto data = [&](int64_t number) {
    return std::to_string(session) + ":" + std::to_string(number);
  };
  const std::string own = std::string(kKept) + "/" + settings.name;
  const std::string contested = std::string(kKept) + "/contested";
  auto node = quorate::PersistentNode::Start(client, own, data(0), {.takes_over = true});
  if (!node.ok()) return node.status();
  std::unique_ptr<quorate::PersistentNode> shared;
  while (!stops) {
    int64_t number = NextNumber();
    Print("setting", own, session, number);
    if (absl::Status s = (*node)->SetData(data(number)); !s.ok()) return s;
    const absl::Status there = (*node)->WaitUntilThere(kPatienceMs);
    if (!there.ok() && !absl::IsDeadlineExceeded(there)) return there;
    if (there.ok()) Print("set", own, session, number);
    if (shared == nullptr && Random(8) == 0) {
      number = NextNumber();
      Print("setting", contested, session, number);
      auto made = quorate::PersistentNode::Start(client, contested, data(number),
                                                 {.takes_over = Random(2) == 0});
      if (!made.ok()) return made.status();
      shared = *std::move(made);
    } else if (shared != nullptr && Random(8) == 0) {
      Print("closing", contested, session, number);
      if (absl::Status s = shared->Close(); !s.ok()) return s;
      Print("closed", contested, session, number);
      shared = nullptr;
    }
  }
  return absl::OkStatus();
}

// Returns the znode of all workers with the same TTL, which is `--jobs` in seconds.
std::string TtlPath(const Settings& settings) {
  return std::string(kTtl) + "-" + std::to_string(settings.jobs);
}

// Keeps a znode with a TTL. `there` is printed when it exists.
absl::Status KeepTtl(Client* client, const Settings& settings) {
  auto node = quorate::PersistentTtlNode::Start(client, TtlPath(settings), settings.name,
                                                {.ttl_ms = settings.jobs * int64_t{1000}});
  if (!node.ok()) return node.status();
  while (!stops) {
    const absl::Status there = (*node)->WaitUntilThere(kPatienceMs);
    if (absl::IsDeadlineExceeded(there)) continue;
    if (!there.ok()) return there;
    Print("there");
    if (absl::Status s = (*node)->SetData(settings.name); !s.ok()) return s;
    quorate::worker::SleepUpTo(10);
  }
  return absl::OkStatus();
}

// Looks for that znode, with `saw` and `missed`.
absl::Status ObserveTtl(Client* client, const Settings& settings) {
  while (!stops) {
    Print("looking");
    const auto read = client->Get(TtlPath(settings), {.linearizable = true});
    const bool is_missing = quorate::ErrorOf(read.status()) == quorate::ErrorCode::kNoNode;
    if (!read.ok() && !is_missing) return read.status();
    Print(is_missing ? "missed" : "saw");
    quorate::worker::SleepUpTo(5);
  }
  return absl::OkStatus();
}

// Deletes znodes that other workers keep.
absl::Status Raid(Client* client, const Settings&) {
  while (!stops) {
    const auto list = client->List(kKept);
    if (!list.ok() && quorate::ErrorOf(list.status()) != quorate::ErrorCode::kNoNode) {
      return list.status();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(Random(10) + 1));
    if (!list.ok() || list->children.empty()) continue;
    const int which = Random(static_cast<int>(list->children.size()));
    const std::string path = std::string(kKept) + "/" + list->children[static_cast<size_t>(which)];
    const absl::Status status = client->Delete(path).status();
    if (status.ok()) Print("deleted", path);
    if (!status.ok() && quorate::ErrorOf(status) != quorate::ErrorCode::kNoNode) return status;
  }
  return absl::OkStatus();
}

// Reads the znodes that other workers keep. The arguments of `saw` are the znode, its session, and
// its data.
absl::Status Observe(Client* client, const Settings&) {
  while (!stops) {
    const auto list = client->List(kKept);
    if (quorate::ErrorOf(list.status()) == quorate::ErrorCode::kNoNode) continue;
    if (!list.ok()) return list.status();
    for (const std::string& name : list->children) {
      const std::string path = std::string(kKept) + "/" + name;
      Print("looking", path);
      const auto read = client->Get(path, {.linearizable = true});
      if (quorate::ErrorOf(read.status()) == quorate::ErrorCode::kNoNode) continue;
      if (!read.ok()) return read.status();
      Print("saw", path, read->stat.ephemeral_session, read->data);
    }
  }
  return absl::OkStatus();
}

// Registers an instance of a service, whose payload has increasing numbers, and follows all
// instances.
absl::Status Serve(Client* client, const Settings& settings) {
  quorate::ServiceDiscovery services(client, kServices);
  quorate::ServiceInstance instance{.name = kService, .id = settings.name, .address = "localhost"};
  const std::string session = std::to_string(client->session_id());
  instance.payload = session + ":0";
  auto registration = services.Register(instance);
  if (!registration.ok()) return registration.status();
  if (absl::Status s = (*registration)->WaitUntilThere(); !s.ok()) return s;
  auto provider = services.Follow(kService);
  if (!provider.ok()) return provider.status();
  while (!stops) {
    const int64_t number = NextNumber();
    instance.payload = session + ":" + std::to_string(number);
    Print("updating", settings.name, session, number);
    if (absl::Status s = (*registration)->Update(instance); !s.ok()) return s;
    Print("updated", settings.name, session, number);
    Print("looking");
    if (absl::Status s = (*provider)->WaitUntilCurrent(); !s.ok()) return s;
    std::string all;
    for (const quorate::ServiceInstance& each : (*provider)->All()) {
      all += (all.empty() ? "" : ",") + each.id + "=" + each.payload;
    }
    Print("found", all);
    const auto next = (*provider)->Next();
    if (!next.ok() && !absl::IsNotFound(next.status())) return next.status();
    if (!next.ok()) Print("nobody");
    std::this_thread::sleep_for(std::chrono::milliseconds(Random(5)));
  }
  return absl::OkStatus();
}

// --- All -----------------------------------------------------------------------------------------

constexpr NamedRecipe kRecipes[] = {
    {"count", "adds 1 to a counter", Count},
    {"share", "adds 1 to a value, of which it follows all changes", Share},
    {"produce", "offers items to three queues", Produce},
    {"consume", "takes items from these queues", Consume},
    {"drain", "takes the remaining items of these queues, and ends", Drain},
    {"gate", "closes and opens a gate", KeepGate},
    {"pass", "waits at the gate", PassGate},
    {"meet", "enters and leaves a double barrier", Meet},
    {"count-down", "counts a latch down", CountDown},
    {"await", "waits for the latch", WaitForLatch},
    {"coordinate", "begins and completes transactions", Coordinate},
    {"participate", "votes on transactions", Participate},
    {"churn", "changes a tree", Churn},
    {"follow", "follows the tree with a cache, and compares it at the end", Follow},
    {"member", "is a member of a group", BeMember},
    {"keep", "keeps persistent znodes", Keep},
    {"raid", "deletes them", Raid},
    {"observe", "reads them", Observe},
    {"keep-ttl", "keeps a znode with a TTL", KeepTtl},
    {"observe-ttl", "looks for it", ObserveTtl},
    {"serve", "is an instance of a service, and follows all instances", Serve},
};

}  // namespace

int main(int argc, char** argv) {
  return quorate::worker::Main(argc, argv, "A worker that uses one of the recipes for data.",
                               kRecipes);
}
