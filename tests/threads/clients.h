// SPDX-License-Identifier: Apache-2.0

// Clients of the cluster, each on its own thread. They use all kinds of requests, reconnect when a
// member stops or closes their connection, and check the answers:
//
//   - reads of a session never go back in time,
//   - a client gets the event of a change before it can read the change, also if it sets the
//     watch again on a new connection,
//   - acknowledged writes are there at the end.
//
// Thread-safety: an object belongs to one thread, except where a comment says otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "tests/threads/cluster.h"

namespace quorate::threads {

// The state that all clients share.
struct Load {
  Cluster* cluster = nullptr;
  std::atomic<bool> ends{false};
  // Counters of the clients' work. Any thread.
  std::atomic<uint64_t> writes{0};
  std::atomic<uint64_t> reads{0};
  std::atomic<uint64_t> events{0};
  std::atomic<uint64_t> connections{0};
  // Reports a wrong answer to a client.
  std::atomic<uint64_t> wrong{0};

  void Wrong(const std::string& what);
};

inline constexpr int kNodes = 8;
std::string NodePath(int number);

// Each runs until load->ends. `seed` determines its requests.
void RunZooKeeperClient(Load* load, uint64_t seed);
// A client that only reads, and so continues while its member is cut off or receives a snapshot.
void RunZooKeeperReader(Load* load, uint64_t seed);
void RunSessionClient(Load* load, uint64_t seed);
void RunCallClient(Load* load, uint64_t seed);

}  // namespace quorate::threads
