// Ballast: the preallocated, durable file "spare" in a directory. It is released when the disk is
// full, so that what must go on has free space. It is never part of what the directory holds:
// readers of the directory pass over it, and it may be removed at any time.
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
  // Of `bytes`, in `directory`, which need not be there before Make. One from an earlier process is
  // found. `env` must outlive the object.
  BallastFile(Env* env, std::string directory, uint64_t bytes);

  uint64_t bytes() const { return bytes_; }
  bool exists() const { return exists_; }
  // Whether its space was used, and no other one was made since.
  bool used() const { return used_; }

  // Makes it, if it is not there; durable when it returns. ResourceExhausted if there is no free
  // space: then there is none. Other errors: those of the disk.
  absl::Status Make();
  // Removes it, if it is there, so that others have its space: returns whether it was.
  absl::StatusOr<bool> GiveUp();
  // Makes it the file `path` of the same directory, that begins with `head`: at any time either the
  // ballast is there, or that file with a durable head. The name is durable with the directory. It
  // replaces a file that has the name already. NotFound if there is no ballast file,
  // ResourceExhausted if even that needs space: nothing has changed then. Other errors: those of
  // the disk.
  absl::StatusOr<std::unique_ptr<File>> TurnInto(const std::string& path, std::string_view head);

 private:
  absl::Status Allocate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Env& env_;
  const std::string directory_;
  const std::string path_;
  const uint64_t bytes_;
  Mutex mutex_;  // held while the disk works
  // Written under the lock; to look at them waits for no disk.
  std::atomic<bool> exists_{false};
  std::atomic<bool> used_{false};
};

}  // namespace quorate::consensus
