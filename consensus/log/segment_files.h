// The open files of a log's segments: few at a time, however many segments there are.
//
// Thread-safety: all of it may be used from any thread. A file that Get returned stays usable,
// whatever happens to the segment meanwhile.
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

  // The segment's file, opened if it is not. Errors: as Env::OpenFile; NotFound once Remove was
  // called.
  absl::StatusOr<std::shared_ptr<File>> Get(const std::shared_ptr<Segment>& segment);
  // Takes over a segment whose file is open. REQUIRES: segment->file is set.
  void Adopt(const std::shared_ptr<Segment>& segment);
  // Renames the file to the name by which it begins the log; durable once the directory is synced.
  absl::Status RenameToBegin(Segment* segment);
  // Removes the file from the directory; durable once that is synced. REQUIRES: the segment can no
  // longer be found, except by readers that had found it before.
  absl::Status Remove(const std::shared_ptr<Segment>& segment);
  // The same, and frees its space in steps, so that other writes do not wait until all of it is
  // free. REQUIRES also: if the file comes back after a power failure, it is not needed, and need
  // not be whole.
  absl::Status RemoveInSteps(const std::shared_ptr<Segment>& segment);
  // The path of the file, for messages.
  std::string PathOf(const Segment& segment) const;

 private:
  // As Remove. Moves the open file, if there is one, to `*file`.
  absl::Status Remove(const std::shared_ptr<Segment>& segment, std::shared_ptr<File>* file);
  void Keep(const std::shared_ptr<Segment>& segment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Env& env_;
  const std::string directory_;
  const size_t open_max_;
  // Also guards path, file, removed and name.begins_log of the segments. Held while a file is
  // opened or renamed, so that no reader opens a file by a name that it no longer has.
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<Segment>> open_ ABSL_GUARDED_BY(mutex_);  // last used: last
};

}  // namespace quorate::consensus
