// SPDX-License-Identifier: Apache-2.0

// Leader election with a yes-or-no answer: a simpler form of Election.
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
// While no member serves, HasLeadership returns false, because another participant may get the
// leadership at any time; if the session continues, the leadership comes back. If the session is lost
// and the client replaces it, the latch goes to the end of the line by itself; if the client's last
// session has ended, the latch has failed for good. The rules of mutex.h about fencing apply here,
// too.
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

// Who a participant is, and who hears that it leads.
struct LeaderLatchOptions {
  // The id of this participant, which others see in Participants.
  std::string id{};
  // Called alternately with true and false, when this participant gets and loses the leadership;
  // otherwise as ElectionOptions::listener.
  std::function<void(bool has_leadership)> listener{};
};

// Thread-safety: all functions may be called from any thread. The client must outlive this object.
class LeaderLatch {
 public:
  LeaderLatch(Client* client, std::string path, LeaderLatchOptions options);

  // These functions are those of Election. The destructor closes the latch without waiting.
  absl::Status Start() { return election_.Start(); }
  absl::Status Close(int deadline_ms = 0) { return election_.Stop(deadline_ms); }
  bool HasLeadership() const { return election_.is_leader(); }
  absl::StatusOr<int64_t> Await(int deadline_ms = 0) {
    return election_.AwaitLeadership(deadline_ms);
  }
  absl::Status Guard(Transaction* transaction) const { return election_.Guard(transaction); }
  absl::StatusOr<std::vector<Participant>> Participants(ReadOptions options = {}) {
    return election_.Participants(options);
  }
  absl::StatusOr<Participant> Leader(ReadOptions options = {}) { return election_.Leader(options); }

 private:
  Election election_;
};

}  // namespace quorate
