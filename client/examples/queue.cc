// SPDX-License-Identifier: Apache-2.0

// A producer offers jobs to a queue, and two consumers take them, each once.
//
//   queue 127.0.0.1:2281,127.0.0.1:2282

#include "client/recipes/queue.h"

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>

#include "client/client.h"

namespace {

constexpr char kPath[] = "/example-queue";
constexpr int kJobs = 6;
constexpr int kPatienceMs = 500;

// Takes jobs until none is added for a while. Usually the consumer is another program on another
// machine.
void Consume(const std::string& servers, int number, std::atomic<int>* taken) {
  auto client = quorate::Client::Connect({.servers = servers});
  if (!client.ok()) return;
  quorate::Queue queue(client->get(), kPath);
  for (;;) {
    const absl::StatusOr<std::string> job = queue.Take(kPatienceMs);
    if (!job.ok()) return;  // DEADLINE_EXCEEDED: there was no job
    std::printf("consumer %d took %s\n", number, job->c_str());
    ++*taken;
  }
}

absl::Status Produce(const std::string& servers) {
  auto client = quorate::Client::Connect({.servers = servers});
  if (!client.ok()) return client.status();
  quorate::Queue queue(client->get(), kPath);
  for (int i = 1; i <= kJobs; ++i) {
    if (absl::Status s = queue.Offer("job " + std::to_string(i)); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string servers = argc > 1 ? argv[1] : "127.0.0.1:2281";
  std::atomic<int> taken{0};
  std::thread one([&] { Consume(servers, 1, &taken); });
  std::thread two([&] { Consume(servers, 2, &taken); });
  const absl::Status status = Produce(servers);
  one.join();
  two.join();
  std::printf("%d of %d jobs were taken\n", taken.load(), kJobs);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() && taken == kJobs ? 0 : 1;
}
