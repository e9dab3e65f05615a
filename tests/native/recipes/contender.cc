// SPDX-License-Identifier: Apache-2.0

// contender: waits for a lock, prints "held TOKEN", and releases it when a line arrives on standard
// input.
//
//   contender HOST:PORT[,HOST:PORT...] PATH

#include <cstdio>
#include <memory>

#include "client/client.h"
#include "client/recipes/mutex.h"

namespace {

absl::Status Run(quorate::Client* client, const char* path) {
  quorate::InterProcessMutex mutex(client, path);
  if (absl::Status s = mutex.Acquire(); !s.ok()) return s;
  const absl::StatusOr<int64_t> token = mutex.FencingToken();
  if (!token.ok()) return token.status();
  std::printf("held %lld\n", static_cast<long long>(*token));
  std::fflush(stdout);
  std::getchar();
  const absl::Status released = mutex.Release();
  if (released.ok()) std::printf("released\n");
  return released;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto client = quorate::Client::Connect({.servers = argv[1]});
  const absl::Status status = client.ok() ? Run(client->get(), argv[2]) : client.status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
