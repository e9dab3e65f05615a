#include "consensus/log/segment_files.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"

namespace quorate::consensus {

SegmentFiles::SegmentFiles(Env* env, std::string directory, size_t open_max)
    : env_(*env), directory_(std::move(directory)), open_max_(std::max<size_t>(open_max, 1)) {}

absl::StatusOr<std::shared_ptr<File>> SegmentFiles::Get(const std::shared_ptr<Segment>& segment) {
  MutexLock lock(&mutex_);
  if (segment->file == nullptr) {
    absl::StatusOr<std::unique_ptr<File>> file = env_.OpenFile(segment->path, /*create=*/false);
    if (!file.ok()) return file.status();
    segment->file = *std::move(file);
  }
  Keep(segment);
  return segment->file;
}

void SegmentFiles::Adopt(const std::shared_ptr<Segment>& segment) {
  MutexLock lock(&mutex_);
  ASSERT(segment->file != nullptr);
  Keep(segment);
}

absl::Status SegmentFiles::RenameToBegin(Segment* segment) {
  MutexLock lock(&mutex_);
  if (segment->name.begins_log) return absl::OkStatus();
  SegmentName name = segment->name;
  name.begins_log = true;
  std::string path = absl::StrCat(directory_, "/", ToFileName(name));
  if (absl::Status s = env_.Rename(segment->path, path); !s.ok()) return s;
  segment->name.begins_log = true;
  segment->path = std::move(path);
  return absl::OkStatus();
}

absl::Status SegmentFiles::Remove(const std::shared_ptr<Segment>& segment) {
  MutexLock lock(&mutex_);
  std::erase(open_, segment);
  segment->file.reset();
  return env_.Remove(segment->path);
}

std::string SegmentFiles::PathOf(const Segment& segment) const {
  MutexLock lock(&mutex_);
  return segment.path;
}

void SegmentFiles::Keep(const std::shared_ptr<Segment>& segment) {
  auto found = std::find(open_.begin(), open_.end(), segment);
  if (found != open_.end()) {
    std::rotate(found, std::next(found), open_.end());
    return;
  }
  if (open_.size() == open_max_) {
    open_.front()->file.reset();
    open_.erase(open_.begin());
  }
  open_.push_back(segment);
}

}  // namespace quorate::consensus
