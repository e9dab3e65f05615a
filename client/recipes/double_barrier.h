// Lets clients begin something together, and end it together.
//
//   quorate::DoubleBarrier barrier(client.get(), "/computation", 3);
//   if (absl::Status s = barrier.Enter(); !s.ok()) return s;  // when three have entered
//   ...
//   if (absl::Status s = barrier.Leave(); !s.ok()) return s;  // when all of them leave
//
// Layout: below the znode at `path` each member has an ephemeral child, whose name is a UUID, new
// for each time that it enters; the child `ready` opens the barrier. Interoperates with Curator's
// DistributedDoubleBarrier. The data of `path` is empty; its version changes when the barrier opens
// and when somebody enters it late.
//
// The number of members is a threshold: who comes while those inside have not all left is let in at
// once. Such is a client that was started again in place of one that crashed. The znode of a
// crashed member goes with its session: it is not waited for any longer than that.
//
// Better than the usual recipe: the barrier opens in the same transaction that proves that all
// members are there; one that all members have left or crashed inside of is never found open; and
// it can be entered again at once, since those who leave wait only for who was inside.
// (A Curator member among the others still waits for those of the next round, too.)
//
// Those who wait to enter watch `ready` only; those who wait to leave one other member.
//
// Thread-safety: one thread at a time, and not that of callbacks.
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

class DoubleBarrier {
 public:
  // REQUIRES: `client` lives longer; members > 0.
  DoubleBarrier(Client* client, std::string path, int members);

  // Waits until as many have entered. DEADLINE_EXCEEDED after `deadline_ms`, and then it has not
  // entered; 0: without a deadline.
  // FAILED_PRECONDITION: it is inside already.
  // After any other error it may be inside, and Leave takes it out.
  absl::Status Enter(int deadline_ms = 0);

  // Takes itself out, and waits until all that are inside have left too. DEADLINE_EXCEEDED after
  // `deadline_ms`: it has left, and not all others. 0: without a deadline. FAILED_PRECONDITION: it
  // has not entered.
  absl::Status Leave(int deadline_ms = 0);

 private:
  struct View {
    std::vector<std::string> members;
    bool is_ready = false;
    int32_t version = 0;
  };
  absl::StatusOr<View> Read(int deadline_ms);
  absl::Status Join(const internal::WaitDeadline& deadline);
  // Makes it ready if there are enough. Returns whether it is.
  absl::StatusOr<bool> OpenIfComplete(const internal::WaitDeadline& deadline);
  // Takes itself out because of `reason`, which it returns; OK if the barrier has opened before.
  absl::Status GiveUp(absl::Status reason);
  // Whether none of `inside` is there any more.
  absl::StatusOr<bool> CloseIfEmpty(const std::vector<std::string>& inside,
                                    const internal::WaitDeadline& deadline, std::string* next);
  std::string PathOf(std::string_view name) const;

  Client* const client_;
  const std::string path_;
  const int members_;
  std::string own_;  // the name of its child; empty: outside
};

}  // namespace quorate
