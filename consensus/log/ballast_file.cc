// SPDX-License-Identifier: Apache-2.0

#include "consensus/log/ballast_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/strings.h"

namespace quorate::consensus {

BallastFile::BallastFile(Env* env, std::string directory, uint64_t bytes)
    : env_(*env),
      directory_(std::move(directory)),
      path_(absl::StrCat(directory_, "/", ToAbsl(kBallastName))),
      bytes_(bytes) {
  // A file whose allocation was interrupted is shorter; Make completes it.
  if (!env_.Exists(path_)) return;
  const absl::StatusOr<std::unique_ptr<File>> file = env_.OpenFile(path_, /*create=*/false);
  if (!file.ok()) return;
  const absl::StatusOr<uint64_t> size = (*file)->Size();
  exists_ = size.ok() && *size >= bytes_;
}

absl::Status BallastFile::Make() {
  MutexLock lock(&mutex_);
  if (exists_) return absl::OkStatus();
  const absl::Status allocated = Allocate();
  if (!allocated.ok()) {
    // Frees the space of the incomplete file for other files.
    if (absl::IsResourceExhausted(allocated) && env_.Exists(path_)) {
      if (absl::Status s = env_.Remove(path_); !s.ok()) return s;
    }
    return allocated;
  }
  if (absl::Status s = env_.SyncDirectory(directory_); !s.ok()) return s;
  exists_ = true;
  used_ = false;
  return absl::OkStatus();
}

absl::Status BallastFile::Allocate() {
  absl::StatusOr<std::unique_ptr<File>> file = env_.OpenFile(path_, /*create=*/true);
  if (!file.ok()) return file.status();
  if (absl::Status s = (*file)->Preallocate(bytes_); !s.ok()) return s;
  return (*file)->Sync();
}

absl::StatusOr<bool> BallastFile::GiveUp() {
  MutexLock lock(&mutex_);
  if (!exists_) return false;
  if (absl::Status s = env_.Remove(path_); !s.ok()) return s;
  exists_ = false;
  used_ = true;
  return true;
}

absl::StatusOr<std::unique_ptr<File>> BallastFile::TurnInto(const std::string& path,
                                                            std::string_view head) {
  MutexLock lock(&mutex_);
  if (!exists_) return absl::NotFoundError(absl::StrCat(path_, ": is not there"));
  absl::StatusOr<std::unique_ptr<File>> file = env_.OpenFile(path_, /*create=*/false);
  if (!file.ok()) return file.status();
  if (absl::Status s = (*file)->WriteAt(0, {&head, 1}); !s.ok()) return s;
  if (absl::Status s = (*file)->Sync(); !s.ok()) return s;
  if (absl::Status s = env_.Rename(path_, path); !s.ok()) return s;
  exists_ = false;
  used_ = true;
  return file;
}

}  // namespace quorate::consensus
