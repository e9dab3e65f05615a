// SPDX-License-Identifier: Apache-2.0

// Runs each program of docs/recipes-cpp.md against a cluster, called with the addresses of gRPC. Prints
// "NAME.cc: as described" for each, and ends with status 1 at the first that does something else.

#include <atomic>
#include <cstdlib>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/docs/recipes.h"

namespace {

using quorate::Client;

void Check(bool holds, const std::string& claim) {
  if (holds) return;
  std::cerr << "not so: " << claim << std::endl;
  std::_Exit(1);
}

void CheckOk(const absl::Status& status, const std::string& call) {
  Check(status.ok(), call + " is OK: " + status.ToString());
}

void Done(const std::string& name) { std::cout << name << ": as described" << std::endl; }

std::unique_ptr<Client> Connect(const std::string& servers) {
  auto client = Client::Connect({.servers = servers, .default_deadline_ms = 20'000});
  CheckOk(client.status(), "Connect");
  return std::move(*client);
}

// Something that happens once or more often, on another thread.
class Signal {
 public:
  void Set() {
    std::call_once(once_, [this] { happened_.set_value(); });
  }
  void Wait() { happened_.get_future().wait(); }

 private:
  std::once_flag once_;
  std::promise<void> happened_;
};

// Blocks until there is a znode at `path`, which no client has deleted since the call.
void AwaitZnode(Client* client, const std::string& path) {
  CheckOk(client->Sync(), "Sync");
  Signal created;
  auto watch = client->Watch(path, quorate::WatchScope::kNode,
                             [&](const quorate::WatchNotification&) { created.Set(); });
  CheckOk(watch.status(), "Watch");
  auto stat = client->Exists(path);
  CheckOk(stat.status(), "Exists");
  if (!stat->has_value()) created.Wait();
}

void RunLocks(Client* client) {
  int64_t newest = 0;
  const auto store = [&](int64_t token) { return token >= newest ? newest = token, true : false; };
  CheckOk(WriteUnderLock(client, store), "the first write");
  const int64_t first = newest;
  CheckOk(WriteUnderLock(client, store), "the second write");
  Check(first > 0 && newest > first, "the second holder has a larger token");
  Check(absl::IsAborted(WriteUnderLock(client, [](int64_t) { return false; })),
        "a refused write is reported");
  Done("lock.cc");

  std::string order;
  CheckOk(Publish(
              client, [&] { order += "change "; }, [&] { order += "read"; }),
          "Publish");
  Check(order == "change read", "Publish changes, then reads");
  Done("readers.cc");

  int uploads = 0;
  for (int i = 0; i < 6; i++) CheckOk(Upload(client, [&] { uploads++; }), "Upload");
  Check(uploads == 6, "a lease is returned: six uploads with five leases");
  Done("uploads.cc");
}

void RunElection(const std::string& servers) {
  auto client = Connect(servers), other = Connect(servers);
  Signal first_leads, second_leads;
  std::atomic<bool> second_is_leader = false;
  auto first = Stand(client.get(), "a", [&](bool leads) {
    if (leads) first_leads.Set();
  });
  CheckOk(first.status(), "Stand");
  first_leads.Wait();
  auto second = Stand(other.get(), "b", [&](bool leads) {
    second_is_leader = leads;
    if (leads) second_leads.Set();
  });
  CheckOk(second.status(), "Stand");
  auto participants = (*first)->Participants();
  CheckOk(participants.status(), "Participants");
  Check(!second_is_leader && participants->front().id == "a",
        "the first candidate leads, and the second one does not");
  first->reset();
  second_leads.Wait();
  Done("leader.cc");
}

void RunPresence(const std::string& servers) {
  auto client = Connect(servers), other = Connect(servers);
  auto mine = Join(client.get(), "host-1");
  auto theirs = Join(other.get(), "host-2");
  CheckOk(mine.status(), "Join");
  CheckOk(theirs.status(), "Join");
  auto members = (*mine)->CurrentMembers();
  CheckOk(members.status(), "CurrentMembers");
  Check(*members == std::map<std::string, std::string>{{"host-1", "10.0.0.1:80"},
                                                       {"host-2", "10.0.0.1:80"}},
        "both are members");
  theirs->reset();
  CheckOk(other->Close(), "Close");
  members = (*mine)->CurrentMembers();
  CheckOk(members.status(), "CurrentMembers");
  Check(members->size() == 1, "a member goes with its session");
  Done("members.cc");

  auto orders = Register(client.get());
  CheckOk(orders.status(), "Register");
  CheckOk((*orders)->WaitUntilThere(), "WaitUntilThere");
  auto provider = FollowOrders(client.get());
  CheckOk(provider.status(), "FollowOrders");
  auto instance = (*provider)->Next();
  CheckOk(instance.status(), "Next");
  Check(instance->address == "10.0.0.1" && instance->port == 8080,
        "the registered address is found");
  Done("services.cc");
}

void RunConfiguration(Client* client) {
  CheckOk(client->Create("/config/limit", "10", {.create_parents = true}).status(), "Create");
  Signal changed;
  std::string value;
  auto cache = Follow(client, [&](const quorate::TreeCache::Change& change) {
    if (change.type == quorate::TreeCache::Change::Type::kChanged) {
      value = change.znode.data;
      changed.Set();
    }
  });
  CheckOk(cache.status(), "Follow");
  auto limit = (*cache)->Find("/config/limit");
  Check(limit.has_value() && limit->data == "10", "the value is there without a call");
  CheckOk(client->Set("/config/limit", "20").status(), "Set");
  changed.Wait();
  Check(value == "20", "a change is reported with its value");
  Done("configuration.cc");
}

void RunQueues(Client* client) {
  auto item = PassOn(client);
  CheckOk(item.status(), "PassOn");
  Check(*item == "first", "the item is taken");
  Done("jobs.cc");

  quorate::LeasedQueue queue(client, "/work");
  CheckOk(queue.Offer("job"), "Offer");
  { CheckOk(queue.Take(5'000).status(), "Take"); }  // as by a consumer that gives up
  std::string done;
  CheckOk(WorkOnce(client, [&](const std::string& data) { done = data; }), "WorkOnce");
  Check(done == "job", "an item that was not acknowledged comes back");
  auto size = queue.Size();
  CheckOk(size.status(), "Size");
  Check(*size == 0, "an acknowledged item is gone");
  Done("leased_jobs.cc");
}

void RunBarrier(const std::string& servers) {
  std::atomic<int> inside = 0;
  std::vector<std::thread> workers;
  for (int i = 0; i < 3; i++) {
    workers.emplace_back([&] {
      auto client = Connect(servers);
      CheckOk(Compute(client.get(), [&] { inside++; }), "Compute");
      Check(inside == 3, "nobody leaves before all have computed");
    });
  }
  for (std::thread& worker : workers) worker.join();
  Done("barrier.cc");
}

// Runs one transfer in which the banks can prepare it or not. Returns what was carried out.
std::vector<quorate::Decision> Transfer(const std::string& servers, bool can_prepare) {
  auto client = Connect(servers);
  std::vector<quorate::Decision> carried_out(2);
  std::vector<std::thread> banks;
  for (int i = 0; i < 2; i++) {
    banks.emplace_back([&, i] {
      auto own = Connect(servers);
      AwaitZnode(own.get(), "/transfers/1");
      CheckOk(TakePart(
                  own.get(), i == 0 ? "bank-a" : "bank-b", [&, i] { return i == 0 || can_prepare; },
                  [&, i](quorate::Decision decision) { carried_out[i] = decision; }),
              "TakePart");
    });
  }
  auto decision = Coordinate(client.get());
  CheckOk(decision.status(), "Coordinate");
  for (std::thread& bank : banks) bank.join();
  Check(carried_out[0] == *decision && carried_out[1] == *decision,
        "all carry out what was decided");
  CheckOk(client->Delete("/transfers/1", {.recursive = true}).status(), "Delete");
  return carried_out;
}

void RunTransfers(const std::string& servers) {
  Check(Transfer(servers, true)[0] == quorate::Decision::kCommit, "two votes yes commit");
  Check(Transfer(servers, false)[0] == quorate::Decision::kAbort, "a vote no aborts");
  Done("transfer.cc");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: run_recipes HOST:PORT[,HOST:PORT...]\n";
    return 2;
  }
  const std::string servers = argv[1];
  auto client = Connect(servers);
  RunLocks(client.get());
  RunElection(servers);
  RunPresence(servers);
  RunConfiguration(client.get());
  RunQueues(client.get());
  RunBarrier(servers);
  RunTransfers(servers);
  return 0;
}
