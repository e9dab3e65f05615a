// SPDX-License-Identifier: Apache-2.0

// The open files of a log's segments. Limits how many of them are open at a time.
//
// Thread-safety: all of it may be used from any thread. A file that Get returned stays usable after
// the segment was closed or removed.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "consensus/log/env.h"
#include "consensus/log/segment.h"

namespace quorate::consensus {

class SegmentFiles {
 public:
  // Keeps up to `open_max` files open, at least one, besides those that callers hold. `directory`
  // is where the segments are. `env` must outlive the object.
  SegmentFiles(Env* env, std::string directory, size_t open_max);

  // Returns the segment's file, and opens it if it is closed. Errors: as Env::OpenFile; NotFound
  // once Remove was called.
  absl::StatusOr<std::shared_ptr<File>> Get(const std::shared_ptr<Segment>& segment);
  // Counts the open file of `segment` among the open files, and closes it when the limit requires
  // it. REQUIRES: segment->file is set.
  void Adopt(const std::shared_ptr<Segment>& segment);
  // Renames the file to the name that says that the segment begins the log. The name is durable
  // once the caller has synced the directory.
  absl::Status RenameToBegin(Segment* segment);
  // Removes the file from the directory. The removal is durable once the caller has synced the
  // directory. REQUIRES: the segment can no longer be found, except by readers that found it
  // before.
  absl::Status Remove(const std::shared_ptr<Segment>& segment);
  // As Remove, but frees the space of the file in steps, so that other writes do not wait until all
  // of it is free. REQUIRES also: if a power failure brings the file back, the log neither needs it
  // nor expects it to be whole.
  absl::Status RemoveInSteps(const std::shared_ptr<Segment>& segment);
  // Returns the path of the file, for messages.
  std::string PathOf(const Segment& segment) const;

 private:
  // As Remove, but moves the open file, if there is one, to `*file`.
  absl::Status Remove(const std::shared_ptr<Segment>& segment, std::shared_ptr<File>* file);
  void Keep(const std::shared_ptr<Segment>& segment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Env& env_;
  const std::string directory_;
  const size_t open_max_;
  // Also guards path, file, removed and name.begins_log of the segments. Held while a file is
  // opened or renamed, so that no reader opens a file by a name that it no longer has.
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<Segment>> open_ ABSL_GUARDED_BY(mutex_);  // by time of last use
};

}  // namespace quorate::consensus
