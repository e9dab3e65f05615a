// SPDX-License-Identifier: Apache-2.0

// Lets a number of clients begin a computation together, and end it together.
//
//   quorate::DoubleBarrier barrier(client.get(), "/computation", 3);
//   if (absl::Status s = barrier.Enter(); !s.ok()) return s;  // when three have entered
//   ...
//   if (absl::Status s = barrier.Leave(); !s.ok()) return s;  // when all of them leave
//
// Layout: below the znode at `path` each member has an ephemeral child, whose name is a UUID, new
// for each time that the member enters; the child `ready` opens the barrier. Interoperates with
// Curator's DistributedDoubleBarrier. The data of `path` is empty; its version changes when the
// barrier opens and when a member enters late.
//
// The number of members is a threshold: while the barrier is open and not all members inside have
// left, further members enter at once. So a client that was restarted after a crash can enter late.
// The znode of a crashed member is deleted with its session: others wait for it no longer than
// that.
//
// Better than the usual recipe: the barrier opens in the same transaction that checks that all
// members are there; a barrier that all members have left, or inside of which all have crashed, is
// never found open; and members can enter again at once, since a leaving member waits only for
// those who were inside when it left. (A Curator member still waits for those of the next round,
// too.)
//
// A member whose session is lost is outside, and the others do not wait for it. Enter in flight
// returns UNAUTHENTICATED, and may be called again. A member that was inside calls Leave as ever:
// this waits for the others, and then the member can enter again.
//
// A member that waits to enter watches `ready` only; one that waits to leave watches one other
// member.
//
// Thread-safety: one thread at a time, which must not be the callback thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/recipes/waiting.h"

namespace quorate {

// A computation that its members begin and end together.
class DoubleBarrier {
 public:
  // REQUIRES: `client` outlives this object; members > 0.
  DoubleBarrier(Client* client, std::string path, int members);

  // Enters, and blocks until `members` members have entered. DEADLINE_EXCEEDED after `deadline_ms`:
  // this member has not entered; 0: without a deadline.
  // UNAUTHENTICATED: the session was lost, and this member has not entered.
  // FAILED_PRECONDITION: this member is inside already.
  // After any other error this member may be inside; Leave takes it out.
  absl::Status Enter(int deadline_ms = 0);

  // Leaves, and blocks until all members that were inside have left, too. DEADLINE_EXCEEDED after
  // `deadline_ms`: this member has left, but not all others have; 0: without a deadline.
  // FAILED_PRECONDITION: this member has not entered.
  absl::Status Leave(int deadline_ms = 0);

 private:
  struct View {
    std::vector<std::string> members;
    bool is_ready = false;
    int32_t version = 0;
  };
  absl::StatusOr<View> Read(int deadline_ms);
  absl::Status Join(const internal::WaitDeadline& deadline);
  // Opens the barrier if enough members are there. Returns whether the barrier is open.
  absl::StatusOr<bool> OpenIfComplete(const internal::WaitDeadline& deadline);
  // Leaves because of `reason`, and returns it; OK if the barrier has opened before that, and this
  // member is inside.
  absl::Status GiveUp(absl::Status reason);
  // Returns true if none of `inside` is there any more, after closing the barrier if it is empty.
  // Otherwise returns false, with one of those still inside in `next`.
  absl::StatusOr<bool> CloseIfEmpty(const std::vector<std::string>& inside,
                                    const internal::WaitDeadline& deadline, std::string* next);
  std::string PathOf(std::string_view name) const;

  Client* const client_;
  const std::string path_;
  const int members_;
  std::string own_;             // the name of this member's child; empty: outside
  int64_t own_session_id_ = 0;  // the session of that child
};

}  // namespace quorate
