// SPDX-License-Identifier: Apache-2.0

// Two workers that take turns by a mutex, and write with fencing tokens.
//
//   mutex 127.0.0.1:2281,127.0.0.1:2282

#include "client/recipes/mutex.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>

#include "client/client.h"

using quorate::Client;

namespace {

// A resource outside of the cluster that two workers must not write at the same time. It remembers
// the largest token, and refuses a write with a smaller one: that writer has lost the lock and does
// not know it yet.
class Storage {
 public:
  bool Write(int64_t token, const std::string& text) {
    if (token < newest_) return false;
    newest_ = token;
    std::printf("%s\n", text.c_str());
    return true;
  }

 private:
  int64_t newest_ = 0;
};

absl::Status Work(Client& client, const std::string& name, Storage& storage) {
  quorate::InterProcessMutex mutex(
      &client, "/examples/mutex",
      {.data = name, .listener = [name](const quorate::LockEvent& event) {
         if (event.type == quorate::LockEvent::Type::kLost) {
           std::printf("%s has lost it: %s\n", name.c_str(), event.reason.ToString().c_str());
         }
       }});
  for (int i = 1; i <= 2; ++i) {
    if (absl::Status s = mutex.Acquire(10'000); !s.ok()) return s;
    if (absl::StatusOr<int64_t> token = mutex.FencingToken(); token.ok()) {
      storage.Write(*token, name + " writes, for the time number " + std::to_string(i));
    }
    if (absl::Status s = mutex.Release(); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string servers = argc > 1 ? argv[1] : "127.0.0.1:2281";
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect({.servers = servers});
  absl::Status first = client.status(), second = client.status();
  if (client.ok()) {
    Storage storage;
    std::thread a([&] { first = Work(**client, "a", storage); });
    std::thread b([&] { second = Work(**client, "b", storage); });
    a.join();
    b.join();
  }
  first.Update(second);
  if (!first.ok()) std::fprintf(stderr, "%s\n", first.ToString().c_str());
  return first.ok() ? 0 : 1;
}
