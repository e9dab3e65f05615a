// SPDX-License-Identifier: Apache-2.0

// Shared by the tests of recipes whose sessions are lost: ends sessions at random moments.
//
// Thread-safety: as the functions say.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/recipes/recipes_test.h"
#include "client/testing/session_end.h"

namespace quorate::testing {

// Returns whether the call has failed because its session was lost.
inline bool IsLost(const absl::Status& status) {
  return absl::IsUnauthenticated(status) && ErrorOf(status) == ErrorCode::kSessionExpired;
}

// Returns whether a write that failed may have been applied.
inline bool MayBeApplied(const absl::Status& status) {
  return std::string(status.message()).find("may or may not be made") != std::string::npos;
}

// Ends the client's session from the server's side, and returns its id when that is done; 0 if the
// client had none, or another one before that.
inline int64_t LoseSession(Client* client) {
  const int64_t id = client->session_id();
  while (id != 0 && client->session_id() == id) {
    // Fails if the client takes its session back over a new stream first.
    if (EndSessionOf(client, Servers().address(1)).ok()) return id;
  }
  return 0;
}

// Waits until the client has a session that it has not lost yet.
inline void WaitForSession(Client* client) {
  while (IsLost(client->Sync())) {
  }
}

// Ends sessions of `clients`, chosen at random, on a thread, until `count` have ended. The clients
// must outlive this object. Functions may be called from any thread.
class Losses {
 public:
  Losses(std::vector<Client*> clients, int count, uint32_t seed)
      : thread_([this, clients = std::move(clients), count, seed] {
          std::mt19937 random(seed);
          while (ended_ < count) {
            // Random moments, as sessions end independently of what their clients do.
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
            if (LoseSession(clients[random() % clients.size()]) != 0) ++ended_;
          }
          is_over_ = true;
        }) {}
  ~Losses() { thread_.join(); }
  Losses(const Losses&) = delete;
  Losses& operator=(const Losses&) = delete;

  bool is_over() const { return is_over_; }

 private:
  std::atomic<int> ended_{0};
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

}  // namespace quorate::testing
