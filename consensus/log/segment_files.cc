// SPDX-License-Identifier: Apache-2.0

#include "consensus/log/segment_files.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"

namespace quorate::consensus {
namespace {

constexpr uint64_t kStepBytes = 4u << 20;

}  // namespace

SegmentFiles::SegmentFiles(Env* env, std::string directory, size_t open_max)
    : env_(*env), directory_(std::move(directory)), open_max_(std::max<size_t>(open_max, 1)) {}

absl::StatusOr<std::shared_ptr<File>> SegmentFiles::Get(const std::shared_ptr<Segment>& segment) {
  MutexLock lock(&mutex_);
  if (segment->file == nullptr) {
    // A reader may have found the segment before it was removed. Opening the file again would keep
    // its space in use.
    if (segment->removed) return absl::NotFoundError(absl::StrCat(segment->path, ": was removed"));
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
  std::shared_ptr<File> file;
  return Remove(segment, &file);
}

absl::Status SegmentFiles::Remove(const std::shared_ptr<Segment>& segment,
                                  std::shared_ptr<File>* file) {
  std::string path;
  {
    MutexLock lock(&mutex_);
    std::erase(open_, segment);
    *file = std::move(segment->file);
    segment->removed = true;
    path = segment->path;
  }
  return env_.Remove(path);
}

absl::Status SegmentFiles::RemoveInSteps(const std::shared_ptr<Segment>& segment) {
  // The file is opened first, because only an open file keeps its space after the name is removed,
  // so that it can be freed in steps.
  Get(segment).IgnoreError();
  std::shared_ptr<File> file;
  if (absl::Status s = Remove(segment, &file); !s.ok()) return s;
  // A file system that discards freed blocks may delay every sync until all blocks of the file are
  // discarded: some ten milliseconds. If a reader still has the file, its space is freed when the
  // reader is done.
  if (file == nullptr || file.use_count() > 1) return absl::OkStatus();
  const absl::StatusOr<uint64_t> size = file->Size();
  for (uint64_t left = size.ok() ? *size : 0; left > kStepBytes;) {
    left -= kStepBytes;
    // If this fails, the rest is freed when the file is closed.
    if (!file->Truncate(left).ok()) break;
  }
  return absl::OkStatus();
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
