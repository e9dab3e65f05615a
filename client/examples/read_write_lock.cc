// SPDX-License-Identifier: Apache-2.0

// Three readers and three writers of one document. Readers read together, a writer writes alone.
//
//   read_write_lock 127.0.0.1:2281,127.0.0.1:2282

#include "client/recipes/read_write_lock.h"

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"

using quorate::Client;

namespace {

struct Document {
  quorate::ReadWriteLock lock;
  std::atomic<int> readers{0};
  std::string text{};  // written with the write lock held, read with the read lock held
};

absl::Status Read(Document& document) {
  quorate::InterProcessMutex& lock = document.lock.read_lock();
  if (absl::Status s = lock.Acquire(10'000); !s.ok()) return s;
  const int readers = ++document.readers;
  std::printf("%d reading: \"%s\"\n", readers, document.text.c_str());
  --document.readers;
  return lock.Release();
}

absl::Status Write(Document& document, const std::string& word) {
  quorate::InterProcessMutex& lock = document.lock.write_lock();
  if (absl::Status s = lock.Acquire(10'000); !s.ok()) return s;
  document.text += word;
  std::printf("written: \"%s\"\n", document.text.c_str());
  return lock.Release();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string servers = argc > 1 ? argv[1] : "127.0.0.1:2281";
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect({.servers = servers});
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    return 1;
  }
  Document document{{client->get(), "/examples/read-write-lock"}};
  std::vector<absl::Status> statuses(6);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] { statuses[i] = Write(document, std::string(1, "abc"[i])); });
    threads.emplace_back([&, i] { statuses[3 + i] = Read(document); });
  }
  for (std::thread& thread : threads) thread.join();
  absl::Status status;
  for (const absl::Status& each : statuses) status.Update(each);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
