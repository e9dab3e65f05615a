// SPDX-License-Identifier: Apache-2.0

// A latch that opens when its count reaches zero.
//
// Layout: the data of the znode at `path` is the remaining count, in decimal digits. Its child
// `closed` exists until the count is 0; a child `by-NAME` exists for each name that counted down.
// Curator has no such class.
//
// A latch is in no session. If the session is lost, a call in flight returns UNAUTHENTICATED
// (kSessionExpired), and later calls work. A CountDown of which the message says that it may have
// been made is to be repeated only with a name.
//
// Waiters watch `closed` only, so that each gets one event, at the end. A latch outlives its
// clients, and never closes again. While a latch is being removed in parts, its data is `removed`.
//
// Thread-safety: all functions may be called from any thread except the callback thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace quorate {

// A count that clients lower, and wait for until it is zero.
class CountDownLatch {
 public:
  // REQUIRES: `client` outlives this object.
  CountDownLatch(Client* client, std::string path) : client_(client), path_(std::move(path)) {}

  // Creates the latch, with `count` of at least 0. Returns false, and changes nothing, if it exists
  // already. INVALID_ARGUMENT: a negative count.
  absl::StatusOr<bool> Create(int64_t count);

  // Subtracts one and returns the remaining count; an open latch stays at 0. With a `name`, which
  // must not contain "/", the call counts only if no client has used this name before: a process
  // that was restarted after a crash, and does not know whether it had counted, calls CountDown
  // again with the same name.
  // NO_NODE: the latch does not exist.
  absl::StatusOr<int64_t> CountDown(std::string_view name = {});

  // Returns the remaining count, with all changes that were acknowledged to any client before the
  // call. NO_NODE.
  absl::StatusOr<int64_t> Count();

  // Blocks until the count is 0. DEADLINE_EXCEEDED after `deadline_ms`; 0: without a deadline.
  // NO_NODE: the latch does not exist, or was removed meanwhile.
  absl::Status Wait(int deadline_ms = 0);

  // Removes the latch; OK if it does not exist. A latch with more znodes than one call can delete
  // (10,000) is removed in several steps: it is unusable from the first step on, and waiters return
  // after the last one. If this client crashes in between, the next use of the latch by any client
  // completes the removal.
  absl::Status Remove();

 private:
  // Reads the latch's znode; completes a removal first, if one is in progress. NO_NODE: the latch
  // does not exist, or was removed.
  absl::StatusOr<GetResult> Read(int deadline_ms = 0);
  // Completes a removal in parts, if one is in progress.
  absl::Status FinishRemoval();
  absl::StatusOr<int64_t> Parse(std::string_view data) const;

  Client* const client_;
  const std::string path_;
};

}  // namespace quorate
