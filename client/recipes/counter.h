// SPDX-License-Identifier: Apache-2.0

// A shared number that many clients change atomically.
//
//   quorate::Counter served(client.get(), "/served");
//   absl::StatusOr<int64_t> number = served.Add(1);
//
// Layout: the data of the znode at `path` is the number, big-endian: 8 bytes as in Curator's
// DistributedAtomicLong, or 4 as in its SharedCount and DistributedAtomicInteger. A znode that does
// not exist, or has no data, counts as 0; the first change creates it.
//
// A change reads the number and sets it on condition that its version is the same, and repeats this
// until it succeeds. Of concurrent changes one always succeeds; the others pause for a random time,
// longer after each attempt. As the client makes each write exactly once, each acknowledged change
// counts once, even if servers fail.
//
// A counter is in no session. If the session is lost, a call in flight returns UNAUTHENTICATED
// (kSessionExpired), and the message says whether the change may have been made; it is not repeated
// in the next session. Later calls work.
//
// Errors: OUT_OF_RANGE, the number would not fit, and was not changed; FAILED_PRECONDITION, the
// data has a different size; those of Client. The message of DEADLINE_EXCEEDED (after
// ClientOptions::default_deadline_ms) says whether the change may have been made.
//
// Thread-safety: all functions may be called from any thread except the callback thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/recipes/atomic_value.h"

namespace quorate {

// A number in a znode.
class Counter {
 public:
  // The size of the number: that of Curator's DistributedAtomicLong, or that of its DistributedAtomicInteger.
  enum class Width { k64Bits, k32Bits };

  // REQUIRES: `client` outlives this object.
  Counter(Client* client, std::string path, Width width = Width::k64Bits)
      : value_(client, path), path_(std::move(path)), width_(width) {}

  // Returns the number, with all changes that were acknowledged to any client before the call.
  absl::StatusOr<int64_t> Get();

  // Adds `delta`, which may be negative. Returns the sum.
  absl::StatusOr<int64_t> Add(int64_t delta);

  // Sets the number to `desired` if it is `expected`. Returns whether it was.
  absl::StatusOr<bool> CompareAndSet(int64_t expected, int64_t desired);

  // Sets the number unconditionally.
  absl::Status Set(int64_t value);

 private:
  absl::StatusOr<int64_t> Decode(std::string_view data) const;
  absl::StatusOr<std::string> Encode(int64_t value) const;

  AtomicValue value_;
  const std::string path_;
  const Width width_;
};

}  // namespace quorate
