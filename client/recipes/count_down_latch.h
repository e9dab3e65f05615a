// Waits until something was done a number of times.
//
// Layout: the znode at `path` has what is left to be done as its data, in decimal digits. Its child
// `closed` is there until nothing is left; `by-NAME` is there for each name that counted down.
// Curator has no such class.
//
// Those who wait look at `closed` only, so that they are told once, at the end. A latch outlives
// its clients, and stays open once it is. While it is removed its data is `removed`.
//
// Thread-safety: all functions from any thread but that of callbacks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace quorate {

class CountDownLatch {
 public:
  // REQUIRES: `client` lives longer.
  CountDownLatch(Client* client, std::string path) : client_(client), path_(std::move(path)) {}

  // Makes the latch, with `count` of at least 0. Returns false, and changes nothing, if there is
  // one already. INVALID_ARGUMENT: a negative count.
  absl::StatusOr<bool> Create(int64_t count);

  // Counts one down. Returns what is left; an open latch stays at 0. With a name, which has no "/",
  // it counts only the first time that this name is given, by whatever client: a process that does
  // not know whether it counted before it crashed gives its work a name and counts again.
  // NO_NODE: nobody made the latch.
  absl::StatusOr<int64_t> CountDown(std::string_view name = {});

  // What is left, after all that was acknowledged to anybody before the call. NO_NODE.
  absl::StatusOr<int64_t> Count();

  // Waits until nothing is left. DEADLINE_EXCEEDED after `deadline_ms`; 0: without a
  // deadline. NO_NODE: nobody made the latch, or it was removed meanwhile.
  absl::Status Wait(int deadline_ms = 0);

  // Removes it, if it is there. One with more znodes than go at once (10,000) is removed in parts:
  // it is of no use from the first one on, and is gone, for those who wait too, after the last one.
  // If this client crashes in between, whoever uses the latch next removes it.
  absl::Status Remove();

 private:
  // NO_NODE if it was removed, also in part.
  absl::StatusOr<GetResult> Read(int deadline_ms = 0);
  // Of one that is being removed in parts, if there is one.
  absl::Status FinishRemoval();
  absl::StatusOr<int64_t> Parse(std::string_view data) const;

  Client* const client_;
  const std::string path_;
};

}  // namespace quorate
