// SPDX-License-Identifier: Apache-2.0

// curator_peer: uses recipes together with curator/Peer.java, which does the other half with
// Curator's classes. At the first result that is not as expected, prints the source line and exits
// with status 1.
//
//   curator_peer HOST:PORT[,HOST:PORT...]

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/recipes/atomic_value.h"
#include "client/recipes/barrier.h"
#include "client/recipes/counter.h"
#include "client/recipes/delayed_queue.h"
#include "client/recipes/double_barrier.h"
#include "client/recipes/group_membership.h"
#include "client/recipes/id_queue.h"
#include "client/recipes/leader_selector.h"
#include "client/recipes/priority_queue.h"
#include "client/recipes/queue.h"
#include "client/recipes/semaphore_mutex.h"
#include "client/recipes/service_discovery.h"
#include "client/recipes/shared_value.h"

namespace {

constexpr int kPatienceMs = 20'000, kShortMs = 50;
constexpr int kPort = 8080;
constexpr int64_t kRegisteredMs = 1'700'000'000'000;

void Expect(bool condition, int line) {
  if (condition) return;
  std::fprintf(stderr, "curator_peer.cc:%d: not as expected\n", line);
  std::exit(1);
}
#define EXPECT(condition) Expect((condition), __LINE__)

bool Takes(quorate::ItemQueue* queue, const std::string& wanted) {
  const absl::StatusOr<std::string> item = queue->Take(kPatienceMs);
  if (item.ok() && *item == wanted) return true;
  std::fprintf(stderr, "%s was expected, not %s\n", wanted.c_str(),
               item.ok() ? item->c_str() : item.status().ToString().c_str());
  return false;
}

void UseQueues(quorate::Client* client) {
  quorate::Queue queue(client, "/queue");
  for (const char* item : {"java-1", "java-2", "java-3"}) EXPECT(Takes(&queue, item));
  EXPECT(queue.Offer("cpp-1").ok() && queue.Offer("cpp-2").ok());
  quorate::PriorityQueue priority(client, "/priority");
  EXPECT(Takes(&priority, "java-sooner") && Takes(&priority, "java-later"));
  EXPECT(priority.Offer("cpp-later", 1).ok() && priority.Offer("cpp-sooner", -1).ok());
  quorate::DelayedQueue delayed(client, "/delayed");
  EXPECT(Takes(&delayed, "java-due"));
  EXPECT(absl::IsDeadlineExceeded(delayed.Take(kShortMs).status()) && *delayed.Size() == 1);
  EXPECT(delayed.Offer("cpp-due", 1).ok());
  quorate::Queue simple(client, "/simple", quorate::Queue::Layout::kSimple);
  EXPECT(Takes(&simple, "java-simple"));
  EXPECT(simple.Offer("cpp-simple").ok());
  quorate::IdQueue ids(client, "/ids");
  EXPECT(ids.Count("a/1").value_or(0) == 2);
  EXPECT(ids.RemoveAll("b").value_or(0) == 1);
  EXPECT(ids.Take(kPatienceMs).value_or("") == "java-1");
  EXPECT(ids.Take(kPatienceMs).value_or("") == "java-3");
  EXPECT(ids.Offer("cpp-1", "x").ok());
  EXPECT(ids.Offer("cpp-2", "y").ok());
  EXPECT(ids.Offer("cpp-3", "x").ok());
}

void UseValues(quorate::Client* client) {
  auto shared = quorate::SharedValue::Start(client, "/value", "seed of cpp");
  EXPECT(shared.ok() && (*shared)->Get().data == "java");
  EXPECT(quorate::AtomicValue(client, "/value").CompareAndSet("java", "cpp").value_or(false));
  EXPECT((*shared)->WaitUntilCurrent(kPatienceMs).ok() && (*shared)->Get().data == "cpp");
}

// Finds the two instances that Curator has registered: one with all fields set, and one with as few
// as possible.
void FindServices(quorate::ServiceDiscovery* services) {
  const auto provider = services->Follow("web");
  EXPECT(provider.ok());
  const std::vector<quorate::ServiceInstance> found = (*provider)->All();
  const quorate::ServiceInstance full{.name = "web",
                                      .id = "java",
                                      .address = "10.0.0.1",
                                      .port = kPort,
                                      .tls_port = kPort + 1,
                                      .payload = "from \"java\"",
                                      .registered_ms = kRegisteredMs};
  EXPECT(found.size() == 2 && found[0] == full);
  const quorate::ServiceInstance plain{.name = "web",
                                       .id = "java-plain",
                                       .address = "10.0.0.2",
                                       .registered_ms = found[1].registered_ms,
                                       .is_static = true};
  EXPECT(found[1] == plain && plain.registered_ms > kRegisteredMs);
  EXPECT((*provider)->Next()->name == "web");
}

std::vector<std::unique_ptr<quorate::ServiceRegistration>> RegisterServices(
    quorate::ServiceDiscovery* services) {
  const std::vector<quorate::ServiceInstance> instances = {{.name = "web",
                                                            .id = "cpp",
                                                            .address = "10.0.0.3",
                                                            .port = kPort,
                                                            .tls_port = kPort + 1,
                                                            .payload = "from \"cpp\"",
                                                            .registered_ms = kRegisteredMs},
                                                           {.name = "web",
                                                            .id = "cpp-plain",
                                                            .address = "10.0.0.4",
                                                            .is_enabled = false,
                                                            .is_static = true}};
  std::vector<std::unique_ptr<quorate::ServiceRegistration>> registrations;
  for (const quorate::ServiceInstance& instance : instances) {
    auto registration = services->Register(instance);
    EXPECT(registration.ok() && (*registration)->WaitUntilThere(kPatienceMs).ok());
    registrations.push_back(*std::move(registration));
  }
  return registrations;
}

void UseAll(quorate::Client* client) {
  quorate::Barrier gate(client, "/gate");
  EXPECT(absl::IsDeadlineExceeded(gate.Wait(kShortMs)));
  UseQueues(client);
  EXPECT(quorate::Counter(client, "/number").Add(37).value_or(kShortMs) == 42);
  quorate::Counter count(client, "/count", quorate::Counter::Width::k32Bits);
  EXPECT(count.CompareAndSet(7, 8).value_or(false));
  auto group = quorate::GroupMembership::Start(client, "/group");
  EXPECT(group.ok() && (*group)->Join("cpp", "from cpp").ok());
  const std::map<std::string, std::string> both = {{"cpp", "from cpp"}, {"java", "from java"}};
  EXPECT((*group)->CurrentMembers().value_or(std::map<std::string, std::string>()) == both);
  quorate::ServiceDiscovery services(client, "/services");
  FindServices(&services);
  const auto registrations = RegisterServices(&services);
  UseValues(client);
  quorate::SemaphoreMutex mutex(client, "/semaphore-mutex");
  EXPECT(absl::IsDeadlineExceeded(mutex.Acquire(kShortMs)));
  std::promise<void> leads;
  quorate::LeaderSelector selector(client, "/selector",
                                   [&leads](const quorate::Leadership&) { leads.set_value(); },
                                   {.id = "cpp", .requeues = false});
  EXPECT(selector.Start().ok());
  const auto leader = selector.Leader();
  EXPECT(leader.ok() && leader->id == "java");
  quorate::DoubleBarrier barrier(client, "/both", 2);
  EXPECT(barrier.Enter(kPatienceMs).ok());
  // The other program gives up both now.
  EXPECT(mutex.Acquire(kPatienceMs).ok());
  EXPECT(leads.get_future().wait_for(std::chrono::milliseconds(kPatienceMs)) ==
         std::future_status::ready);
  EXPECT(barrier.Leave(kPatienceMs).ok());
  EXPECT(gate.Open().ok());
}

}  // namespace

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  auto client = quorate::Client::Connect({.servers = argv[1]});
  EXPECT(client.ok());
  UseAll(client->get());
  return 0;
}
