// SPDX-License-Identifier: Apache-2.0

// tasks_worker: uses one of the recipes for work that is handed out or done once (worker.h). The help
// texts of kRecipes describe them; tests/native/recipes_tasks.py checks the histories.

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/recipes/id_queue.h"
#include "client/recipes/leased_queue.h"
#include "client/recipes/outbox.h"
#include "client/recipes/reaper.h"
#include "client/recipes/rollout.h"
#include "client/recipes/waiting.h"
#include "tests/native/recipes/history.h"
#include "tests/native/recipes/worker.h"

namespace {

using quorate::Client;
using quorate::history::Print;
using quorate::worker::kPatienceMs;
using quorate::worker::NamedRecipe;
using quorate::worker::Random;
using quorate::worker::Settings;
using quorate::worker::SleepUpTo;
using quorate::worker::stops;

constexpr char kJobs[] = "/jobs", kIds[] = "/ids", kDirectories[] = "/directories";
constexpr char kOutbox[] = "/outbox", kSent[] = "/sent", kRollout[] = "/rollout";
constexpr int kAtATime = 2;  // members in their steps; recipes_tasks.py knows it
constexpr int kJobsMax = 30, kMessagesMax = 30;  // more do not wait
constexpr int kDirectoriesMax = 4;

// Returns a name that no other item has.
std::string NewItem(const Settings& settings) {
  static int last = 0;
  return settings.name + "-" + std::to_string(getpid()) + "-" + std::to_string(++last);
}

// --- A queue with leases -------------------------------------------------------------------------

// Offers items. The argument of `offering` and `offered` is the item.
absl::Status OfferJobs(Client* client, const Settings& settings) {
  quorate::LeasedQueue queue(client, kJobs);
  while (!stops) {
    const std::string item = NewItem(settings);
    Print("offering", item);
    if (absl::Status s = queue.Offer(item); !s.ok()) return s;
    Print("offered", item);
    // Consumers that are killed leave their places in line for as long as their sessions last.
    for (;;) {
      SleepUpTo(10);
      const absl::StatusOr<int64_t> size = queue.Size();
      if (!size.ok()) return size.status();
      if (stops || *size < kJobsMax) break;
    }
  }
  return absl::OkStatus();
}

// Works on an item. Prints `acknowledging`, and `acknowledged` or, if the lease was lost, `overtaken`.
absl::Status WorkOn(quorate::LeasedItem job) {
  const std::string item = job.data();
  Print("leased", item);
  SleepUpTo(20);
  if (Random(5) == 0) {
    const absl::Status status = job.Return();
    if (!status.ok() && !absl::IsAborted(status)) return status;
    Print("returned", item);
    return absl::OkStatus();
  }
  Print("acknowledging", item);
  const absl::Status status = job.Acknowledge();
  if (!status.ok() && !absl::IsAborted(status)) return status;
  Print(status.ok() ? "acknowledged" : "overtaken", item);
  return absl::OkStatus();
}

absl::Status DoJobs(Client* client, const Settings&) {
  quorate::LeasedQueue queue(client, kJobs);
  while (!stops) {
    auto job = queue.Take(kPatienceMs);
    if (absl::IsDeadlineExceeded(job.status())) continue;
    if (!job.ok()) return job.status();
    if (absl::Status s = WorkOn(*std::move(job)); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// Works on the items that are left, until there is none.
absl::Status FinishJobs(Client* client, const Settings&) {
  quorate::LeasedQueue queue(client, kJobs);
  for (;;) {
    const absl::StatusOr<int64_t> size = queue.Size();
    if (!size.ok()) return size.status();
    if (*size == 0) return absl::OkStatus();
    auto job = queue.Take(kPatienceMs);
    if (absl::IsDeadlineExceeded(job.status())) continue;
    if (!job.ok()) return job.status();
    if (absl::Status s = WorkOn(*std::move(job)); !s.ok()) return s;
  }
}

// --- A queue with ids ----------------------------------------------------------------------------

// Offers items, whose ids are the items themselves, and removes some of them by their ids. The arguments
// of `removed` are the item and how many items of this id there were.
absl::Status OfferIds(Client* client, const Settings& settings) {
  quorate::IdQueue queue(client, kIds);
  while (!stops) {
    std::vector<std::string> items;
    for (int i = Random(4) + 1; i > 0; --i) {
      items.push_back(NewItem(settings));
      Print("offering", items.back());
      if (absl::Status s = queue.Offer(items.back(), items.back()); !s.ok()) return s;
      Print("offered", items.back());
    }
    const std::string& item = items[static_cast<size_t>(Random(static_cast<int>(items.size())))];
    SleepUpTo(5);
    Print("removing", item);
    const absl::StatusOr<int64_t> removed = queue.RemoveAll(item);
    if (!removed.ok()) return removed.status();
    Print("removed", item, *removed);
  }
  return absl::OkStatus();
}

// Takes items until `stops`, or, if `drains`, until there is none.
absl::Status TakeIds(Client* client, bool drains) {
  quorate::IdQueue queue(client, kIds);
  while (!stops) {
    Print("taking");
    const absl::StatusOr<std::string> item = queue.Take(kPatienceMs);
    if (item.ok()) Print("took", *item);
    if (item.ok()) SleepUpTo(5);
    if (absl::IsDeadlineExceeded(item.status())) {
      if (drains) return absl::OkStatus();
      Print("found-none");
    } else if (!item.ok()) {
      return item.status();
    }
  }
  return absl::OkStatus();
}

absl::Status ConsumeIds(Client* client, const Settings&) { return TakeIds(client, false); }
absl::Status DrainIds(Client* client, const Settings&) { return TakeIds(client, true); }

// --- Rollouts ------------------------------------------------------------------------------------

// Does the steps of one member. The argument of `begun`, `ending`, `failing`, `done` and `failed` is the
// number of the rollout.
absl::Status DoSteps(Client* client, const Settings& settings) {
  quorate::Rollout rollout(client, kRollout, kAtATime);
  while (!stops) {
    auto step = rollout.Begin(settings.name, kPatienceMs);
    if (absl::IsDeadlineExceeded(step.status())) continue;
    if (!step.ok()) return step.status();
    const int64_t generation = step->generation();
    Print("begun", generation);
    SleepUpTo(30);
    const bool fails = Random(10) == 0;
    Print(fails ? "failing" : "ending", generation);
    const absl::Status status = fails ? step->Fail("broken") : step->Done();
    if (!status.ok() && !absl::IsAborted(status)) return status;
    Print(!status.ok() ? "overtaken" : fails ? "failed" : "done", generation);
  }
  return absl::OkStatus();
}

// Returns whether all members have done their steps of the current rollout.
bool IsComplete(const quorate::RolloutProgress& progress, int members) {
  int done = 0;
  for (const quorate::RolloutMember& member : progress.members) {
    done += member.generation == progress.generation &&
            member.state == quorate::RolloutMember::State::kDone;
  }
  return done == members;
}

// Begins rollouts, one after another, and lets those go on that have stopped. The argument of `resuming`,
// `complete` and `starting` is the number of a rollout.
absl::Status Operate(Client* client, const Settings& settings) {
  quorate::Rollout rollout(client, kRollout, kAtATime);
  while (!stops) {
    const absl::StatusOr<quorate::RolloutProgress> progress = rollout.Progress();
    if (!progress.ok()) return progress.status();
    if (progress->stopped.has_value()) {
      SleepUpTo(100);
      Print("resuming", progress->generation);
      if (absl::Status s = rollout.Resume(); !s.ok()) return s;
    } else if (progress->generation == 0 || IsComplete(*progress, settings.members)) {
      if (progress->generation > 0) Print("complete", progress->generation);
      Print("starting", progress->generation + 1);
      const absl::Status status = rollout.Start(progress->generation + 1);
      if (!status.ok() && !absl::IsAlreadyExists(status)) return status;
    }
    SleepUpTo(10);
  }
  return absl::OkStatus();
}

// --- An outbox -----------------------------------------------------------------------------------

// Writes a znode of its own together with a message. Begins with what an earlier process of this name has
// written. The argument of `found`, `adding` and `added` is the message.
absl::Status AddMessages(Client* client, const Settings& settings) {
  const std::string path = std::string(kSent) + "/" + settings.name;
  for (const std::string& znode : {std::string(kSent), path}) {
    if (absl::Status s = quorate::internal::EnsureZnode(client, znode); !s.ok()) return s;
  }
  const auto before = client->Get(path, {.linearizable = true});
  if (!before.ok()) return before.status();
  if (!before->data.empty()) Print("found", before->data);
  quorate::Outbox outbox(client, kOutbox);
  while (!stops) {
    const std::string item = NewItem(settings);
    quorate::Transaction transaction;
    transaction.Set(path, item);
    if (absl::Status s = outbox.Add(item, &transaction); !s.ok()) return s;
    Print("adding", item);
    const auto committed = client->Commit(transaction);
    if (!committed.ok()) return committed.status();
    Print("added", item);
    for (;;) {
      SleepUpTo(10);
      const absl::StatusOr<int64_t> size = outbox.Size();
      if (!size.ok()) return size.status();
      if (stops || *size < kMessagesMax) break;
    }
  }
  return absl::OkStatus();
}

// Delivers messages. The arguments of `delivering` are the message, its id, its zxid, and the token of the
// relay. Ends when none is left if `drains`.
absl::Status Relay(Client* client, const Settings& settings, bool drains) {
  quorate::OutboxRelay relay(client, kOutbox, {.id = settings.name});
  quorate::Outbox outbox(client, kOutbox);
  while (!stops) {
    const auto delivered = relay.Deliver(
        [](const quorate::OutboxMessage& message) {
          const int what = Random(40);
          if (what == 0) return absl::UnavailableError("the receiver is away");
          Print("delivering", message.data, message.id, message.zxid, message.relay_token);
          if (what == 1) return absl::UnavailableError("the answer of the receiver is lost");
          SleepUpTo(5);
          return absl::OkStatus();
        },
        kPatienceMs);
    const absl::Status& status = delivered.status();
    if (!status.ok() && !absl::IsDeadlineExceeded(status) && !absl::IsAborted(status) &&
        !absl::IsUnavailable(status)) {
      return status;
    }
    if (drains) {
      const absl::StatusOr<int64_t> left = outbox.Size();
      if (!left.ok()) return left.status();
      if (*left == 0) break;
    } else if (Random(3) == 0) {
      if (absl::Status s = relay.Resign(); !s.ok() && !absl::IsFailedPrecondition(s)) return s;
    }
  }
  return relay.Stop(kPatienceMs * 10);
}

absl::Status RelayMessages(Client* client, const Settings& settings) {
  return Relay(client, settings, false);
}
absl::Status DrainMessages(Client* client, const Settings& settings) {
  return Relay(client, settings, true);
}

// --- A reaper ------------------------------------------------------------------------------------

// Removes directories that are empty. The argument of `reaped` is how many.
absl::Status Reap(Client* client, const Settings&) {
  quorate::Reaper reaper(client, kDirectories, {.empty_for_ms = 0});
  while (!stops) {
    const absl::StatusOr<int> removed = reaper.Reap();
    const bool is_missing = quorate::ErrorOf(removed.status()) == quorate::ErrorCode::kNoNode;
    if (!removed.ok() && !is_missing) return removed.status();
    if (removed.ok() && *removed > 0) Print("reaped", *removed);
    SleepUpTo(3);
  }
  return absl::OkStatus();
}

// Creates znodes below these directories, and deletes them. While it has a znode, `there` has to be
// printed, and never `vanished`.
absl::Status UseDirectories(Client* client, const Settings& settings) {
  while (!stops) {
    const std::string path = std::string(kDirectories) + "/d" +
                             std::to_string(Random(kDirectoriesMax)) + "/" + settings.name;
    const auto created =
        client->Create(path, "", {.mode = quorate::CreateMode::kEphemeral, .create_parents = true});
    if (!created.ok() && quorate::ErrorOf(created.status()) != quorate::ErrorCode::kNodeExists) {
      return created.status();
    }
    if (!created.ok()) {  // of a session of an earlier process, which has not ended yet
      SleepUpTo(100);
      continue;
    }
    SleepUpTo(5);
    const auto deleted = client->Delete(path);
    const bool is_missing = quorate::ErrorOf(deleted.status()) == quorate::ErrorCode::kNoNode;
    if (!deleted.ok() && !is_missing) return deleted.status();
    Print(is_missing ? "vanished" : "there", path);
  }
  return absl::OkStatus();
}

// --- All -----------------------------------------------------------------------------------------

constexpr NamedRecipe kRecipes[] = {
    {"offer-jobs", "offers items to a queue with leases", OfferJobs},
    {"do-jobs", "takes leases on these items, and acknowledges most of them", DoJobs},
    {"finish-jobs", "does so until none is left, and ends", FinishJobs},
    {"offer-ids", "offers items to a queue with ids, and removes some of them", OfferIds},
    {"consume-ids", "takes items from it", ConsumeIds},
    {"drain-ids", "takes the items that are left, and ends", DrainIds},
    {"step", "does the steps of a member in rollouts", DoSteps},
    {"operate", "begins rollouts, and lets them go on", Operate},
    {"add-messages", "adds messages to an outbox", AddMessages},
    {"relay", "delivers messages", RelayMessages},
    {"drain-messages", "delivers the messages that are left, and ends", DrainMessages},
    {"reap", "removes empty directories", Reap},
    {"use", "uses such directories", UseDirectories},
};

}  // namespace

int main(int argc, char** argv) {
  return quorate::worker::Main(argc, argv, "A worker that uses one of the recipes for tasks.",
                               kRecipes);
}
