// SPDX-License-Identifier: Apache-2.0

// Ballast: the preallocated, durable file "spare" in a directory. It is released when the disk is
// full, so that the writes that are needed even then have free space. Readers of the directory
// ignore it, and it may be removed at any time.
//
// Thread-safety: all of it may be used from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "consensus/log/env.h"

namespace quorate::consensus {

inline constexpr std::string_view kBallastName = "spare";

class BallastFile {
 public:
  // Manages the ballast file of `bytes` bytes in `directory`, which must exist when Make is called.
  // A file that an earlier process made counts, unless it is shorter than `bytes`. `env` must
  // outlive the object.
  BallastFile(Env* env, std::string directory, uint64_t bytes);

  uint64_t bytes() const { return bytes_; }
  bool exists() const { return exists_; }
  // Returns whether GiveUp or TurnInto of this object used the file, and Make has not made it
  // again.
  bool used() const { return used_; }

  // Creates the file durably, if it does not exist. Returns ResourceExhausted, and leaves no file,
  // if there is no free space. Other errors: those of the disk.
  absl::Status Make();
  // Removes the file, if it exists, so that its space is free. Returns whether it existed.
  absl::StatusOr<bool> GiveUp();
  // Durably writes `head` to the beginning of the ballast file, renames the file to `path`, which
  // is in the same directory, and returns it. At any time either the ballast file exists, or `path`
  // with a durable head. The new name is durable once the caller has synced the directory. An
  // existing file `path` is replaced. Returns NotFound if there is no ballast file. Returns
  // ResourceExhausted if the disk is too full even for this; the ballast file then stays. Other
  // errors: those of the disk.
  absl::StatusOr<std::unique_ptr<File>> TurnInto(const std::string& path, std::string_view head);

 private:
  absl::Status Allocate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Env& env_;
  const std::string directory_;
  const std::string path_;
  const uint64_t bytes_;
  Mutex mutex_;  // held during operations on the disk
  // Written under the lock, and read without it, so that readers do not wait for the disk.
  std::atomic<bool> exists_{false};
  std::atomic<bool> used_{false};
};

}  // namespace quorate::consensus
