// Clients of the cluster, each on a thread of its own. They do a little of everything, come back
// when a member stops or sends them away, and check what they are told:
//
//   - what a session reads never goes back,
//   - a client hears the event of a change before it can read the change, also if it comes back
//     with a watch from another connection,
//   - what was acknowledged is there at the end.
//
// Thread-safety: an object belongs to one thread, but for what says otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "tests/threads/cluster.h"

namespace quorate::threads {

// What all clients have in common.
struct Load {
  Cluster* cluster = nullptr;
  std::atomic<bool> ends{false};
  // What clients did. Any thread.
  std::atomic<uint64_t> writes{0};
  std::atomic<uint64_t> reads{0};
  std::atomic<uint64_t> events{0};
  std::atomic<uint64_t> connections{0};
  // That a client was told something wrong.
  std::atomic<uint64_t> wrong{0};

  void Wrong(const std::string& what);
};

inline constexpr int kNodes = 8;
std::string NodePath(int number);

// Each runs until load->ends. `seed`: of what it does.
void RunZooKeeperClient(Load* load, uint64_t seed);
// Waits for no write, and so goes on while its member is cut off and while a snapshot comes.
void RunZooKeeperReader(Load* load, uint64_t seed);
void RunSessionClient(Load* load, uint64_t seed);
void RunCallClient(Load* load, uint64_t seed);

}  // namespace quorate::threads
