// Who leads, as yes or no: the smaller form of an Election.
//
//   quorate::LeaderLatch latch(client.get(), "/leader", {.id = "host-1"});
//   latch.Start();
//   if (latch.HasLeadership()) { ... }
//
// Layout, that of Curator's LeaderLatch, with which it can share a path:
//   PATH                                  a container, created when it is needed
//   PATH/_c_<uuid>-latch-<10 digits>      ephemeral sequential, one for each participant, with its
//                                         id; the oldest has the leadership
//
// While no member serves, nobody here has the leadership (others may get it any time); it comes
// back with the session if that went on. If the session has ended, the latch has failed for good,
// and another Client is needed. What is said in mutex.h about fencing holds here, too.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/recipes/election.h"

namespace quorate {

struct LeaderLatchOptions {
  // By which others know the participant.
  std::string id{};
  // Told when the leadership comes and when it goes, in turns; otherwise as
  // ElectionOptions::listener.
  std::function<void(bool has_leadership)> listener{};
};

// Thread-safety: all functions from any thread. The client must live longer.
class LeaderLatch {
 public:
  LeaderLatch(Client* client, std::string path, LeaderLatchOptions options);

  // As of Election; the destructor closes it without waiting.
  absl::Status Start() { return election_.Start(); }
  absl::Status Close(int deadline_ms = 0) { return election_.Stop(deadline_ms); }
  bool HasLeadership() const { return election_.is_leader(); }
  absl::StatusOr<int64_t> Await(int deadline_ms = 0) {
    return election_.AwaitLeadership(deadline_ms);
  }
  absl::StatusOr<std::vector<Participant>> Participants(ReadOptions options = {}) {
    return election_.Participants(options);
  }
  absl::StatusOr<Participant> Leader(ReadOptions options = {}) { return election_.Leader(options); }

 private:
  Election election_;
};

}  // namespace quorate
