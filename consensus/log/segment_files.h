// The open files of a log's segments: few at a time, however many segments there are.
//
// Thread-safety: all of it may be used from any thread. Who holds a file that Get returned may go
// on with it, whatever becomes of the segment meanwhile.
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
  // Keeps up to `open_max` files open, at least one, besides those that somebody holds. `directory`
  // is where the segments are. `env` must outlive the object.
  SegmentFiles(Env* env, std::string directory, size_t open_max);

  // The segment's file, opened if it is not. Errors: as Env::OpenFile; NotFound once Remove was
  // called.
  absl::StatusOr<std::shared_ptr<File>> Get(const std::shared_ptr<Segment>& segment);
  // Takes over a segment whose file is open. REQUIRES: segment->file is set.
  void Adopt(const std::shared_ptr<Segment>& segment);
  // Gives the file the name by which it begins the log; durable with the directory.
  absl::Status RenameToBegin(Segment* segment);
  // Removes the file from the directory; the removal is durable with that. REQUIRES: nobody looks
  // for the segment any more, but for readers that had found it before.
  absl::Status Remove(const std::shared_ptr<Segment>& segment);
  // The same, and gives its space back in steps, so that nothing else that is written meanwhile
  // waits for all of it. REQUIRES also: should the file come back in a power failure, it is of no
  // use, and need not be whole.
  absl::Status RemoveInSteps(const std::shared_ptr<Segment>& segment);
  // Where the file is, for messages.
  std::string PathOf(const Segment& segment) const;

 private:
  // As Remove. Gives the file to whoever called, if it was open.
  absl::Status Remove(const std::shared_ptr<Segment>& segment, std::shared_ptr<File>* file);
  void Keep(const std::shared_ptr<Segment>& segment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Env& env_;
  const std::string directory_;
  const size_t open_max_;
  // Also guards path, file, removed and name.begins_log of the segments. Held while a file is
  // opened or renamed, so that no reader looks for a file by a name that it just lost.
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<Segment>> open_ ABSL_GUARDED_BY(mutex_);  // last used: last
};

}  // namespace quorate::consensus
