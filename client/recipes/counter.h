// A number that many clients count with.
//
//   quorate::Counter served(client.get(), "/served");
//   absl::StatusOr<int64_t> number = served.Add(1);
//
// Layout: the data of the znode at `path` is the number, big-endian: 8 bytes as in Curator's
// DistributedAtomicLong, or 4 as in its SharedCount and DistributedAtomicInteger. A znode that is
// not there, or has no data, counts as 0, and is made by the first change.
//
// A change reads the number and sets it only if it is still the same, again until that succeeds:
// somebody always succeeds; who did not pauses for a random time, longer each time. As writes of a
// session are made once, what was acknowledged was added once, whatever became of servers.
//
// Errors: OUT_OF_RANGE, the number would not fit, and was not changed; FAILED_PRECONDITION, the
// data is of another size; those of Client. DEADLINE_EXCEEDED of the client's own deadline says
// whether the change may have been made.
//
// Thread-safety: all functions from any thread but that of callbacks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace quorate {

class Counter {
 public:
  enum class Width { k64Bits, k32Bits };

  // REQUIRES: `client` lives longer.
  Counter(Client* client, std::string path, Width width = Width::k64Bits)
      : client_(client), path_(std::move(path)), width_(width) {}

  // The number, with all changes that were acknowledged to anybody before the call.
  absl::StatusOr<int64_t> Get();

  // Adds `delta`, which may be negative. Returns the sum.
  absl::StatusOr<int64_t> Add(int64_t delta);

  // Sets it to `desired` if it is `expected`. Returns whether it was.
  absl::StatusOr<bool> CompareAndSet(int64_t expected, int64_t desired);

  // Sets it, whatever it is.
  absl::Status Set(int64_t value);

 private:
  struct Reading {
    int64_t value = 0;
    std::optional<int32_t> version;  // none: there is no znode
  };
  absl::StatusOr<Reading> Read(bool linearizable);
  // False if it is not what was read any more.
  absl::StatusOr<bool> Replace(const Reading& reading, int64_t value);
  absl::StatusOr<std::string> Encode(int64_t value) const;

  Client* const client_;
  const std::string path_;
  const Width width_;
};

}  // namespace quorate
