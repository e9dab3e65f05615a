// Ballast: the preallocated, durable file "spare" in a directory. It is released when the disk is
// full, so that writes that must go on have free space. Readers of the directory ignore it, and it
// may be removed at any time.
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
  // A ballast file of `bytes` bytes in `directory`, which need not exist before Make. A file that
  // an earlier process made is found. `env` must outlive the object.
  BallastFile(Env* env, std::string directory, uint64_t bytes);

  uint64_t bytes() const { return bytes_; }
  bool exists() const { return exists_; }
  // Whether its space was used, and the file was not made again since.
  bool used() const { return used_; }

  // Makes the file, durably, if it does not exist. ResourceExhausted if there is no free space:
  // then no ballast file exists. Other errors: those of the disk.
  absl::Status Make();
  // Removes the file, if it exists, so that its space is free. Returns whether it existed.
  absl::StatusOr<bool> GiveUp();
  // Turns the ballast file into the file `path` of the same directory, which begins with `head`,
  // and returns that file: at any time either the ballast file exists, or `path` with a durable
  // head. The new name is durable once the directory is synced. A file that has the name already is
  // replaced. NotFound if there is no ballast file, ResourceExhausted if even this needs space:
  // then nothing has changed. Other errors: those of the disk.
  absl::StatusOr<std::unique_ptr<File>> TurnInto(const std::string& path, std::string_view head);

 private:
  absl::Status Allocate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Env& env_;
  const std::string directory_;
  const std::string path_;
  const uint64_t bytes_;
  Mutex mutex_;  // held while the disk works
  // Written under the lock, and read without it, so that readers do not wait for the disk.
  std::atomic<bool> exists_{false};
  std::atomic<bool> used_{false};
};

}  // namespace quorate::consensus
