// SPDX-License-Identifier: Apache-2.0

#include "consensus/log/new_data_dir.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/strings.h"
#include "consensus/log/file_names.h"
#include "consensus/log/hard_state_file.h"
#include "consensus/log/segment.h"
#include "consensus/log/segment_log.h"

namespace quorate::consensus {
namespace {

// The segments have no space for entries: the log has none yet, and the server allocates space when
// it opens the log.
constexpr SegmentLogOptions kSmallSegments{.segment_bytes = 2 * kSegmentHeaderBytes};

// The files that Finish makes.
constexpr std::string_view kOwnFiles[] = {kIdentityName, kIdentityTemporaryName, kHardStateName};

bool IsAmong(NewDataDir::Names names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string MarkOf(const std::string& path) {
  return absl::StrCat(path, "/", ToAbsl(kIncompleteName));
}

// Checks that `path` holds only files that an operator may have put there or that `left` accepts.
template <class Left>
absl::Status CheckNames(Env* env, const std::string& path, Left left) {
  if (!env->Exists(path)) return absl::OkStatus();
  absl::StatusOr<std::vector<std::string>> names = env->List(path);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (name == kLockName || MayStandInNewDirectory(name) || left(name)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": is not empty (it holds ", name,
                     "); it is not touched. Give an empty directory, or move what is in it away"));
  }
  return absl::OkStatus();
}

}  // namespace

NewDataDir::NewDataDir(Env* env, std::string path, std::unique_ptr<DirectoryLock> lock)
    : env_(*env), path_(std::move(path)), lock_(std::move(lock)) {}

std::string NewDataDir::PathOf(std::string_view name) const {
  return absl::StrCat(path_, "/", ToAbsl(name));
}

absl::Status NewDataDir::CheckNew(Env* env, const std::string& path) {
  return CheckNames(env, path, [](std::string_view) { return false; });
}

absl::Status NewDataDir::CheckNewOrIncomplete(Env* env, const std::string& path, Names leftovers) {
  if (!IsMarked(env, path)) return CheckNew(env, path);
  return CheckNames(env, path, [leftovers](std::string_view name) {
    return name == kIncompleteName || name == kLogName || IsAmong(kOwnFiles, name) ||
           IsAmong(leftovers, name);
  });
}

absl::Status NewDataDir::Mark(Env* env, const std::string& path) {
  absl::StatusOr<std::unique_ptr<File>> mark = env->OpenFile(MarkOf(path), /*create=*/true);
  if (!mark.ok()) return mark.status();
  if (absl::Status s = (*mark)->Sync(); !s.ok()) return s;
  return env->SyncDirectory(path);
}

absl::Status NewDataDir::Unmark(Env* env, const std::string& path) {
  if (absl::Status s = env->Remove(MarkOf(path)); !s.ok()) return s;
  return env->SyncDirectory(path);
}

bool NewDataDir::IsMarked(Env* env, const std::string& path) { return env->Exists(MarkOf(path)); }

absl::StatusOr<std::unique_ptr<NewDataDir>> NewDataDir::Create(Env* env, std::string path,
                                                               Names leftovers) {
  if (absl::Status s = env->CreateDirectories(path); !s.ok()) return s;
  // This check comes before the lock, because LockDirectory creates a file, also in a directory
  // that is not new. It is repeated under the lock.
  if (absl::Status s = CheckNewOrIncomplete(env, path, leftovers); !s.ok()) return s;
  absl::StatusOr<std::unique_ptr<DirectoryLock>> lock = env->LockDirectory(path);
  if (!lock.ok()) return lock.status();
  if (absl::Status s = CheckNewOrIncomplete(env, path, leftovers); !s.ok()) return s;
  std::unique_ptr<NewDataDir> result(new NewDataDir(env, std::move(path), *std::move(lock)));
  // An existing mark is made durable, too: it may not be yet.
  if (absl::Status s = Mark(env, result->path_); !s.ok()) return s;
  if (absl::Status s = result->Clear(); !s.ok()) return s;
  return result;
}

absl::Status NewDataDir::Clear() {
  for (std::string_view name : kOwnFiles) {
    if (!env_.Exists(PathOf(name))) continue;
    if (absl::Status s = env_.Remove(PathOf(name)); !s.ok()) return s;
  }
  if (!env_.Exists(PathOf(kLogName))) return absl::OkStatus();
  absl::StatusOr<std::vector<std::string>> segments = env_.List(PathOf(kLogName));
  if (!segments.ok()) return segments.status();
  for (const std::string& name : *segments) {
    if (absl::Status s = env_.Remove(absl::StrCat(PathOf(kLogName), "/", name)); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status NewDataDir::Finish(const Identity& identity, Index index, Term term) {
  ASSERT(identity.member != kNoMember);
  ASSERT(identity.cluster_id.size() == kClusterIdBytes);
  ASSERT(index > Index{0});
  ASSERT(term > Term{0});
  absl::StatusOr<std::unique_ptr<HardStateFile>> hard_state =
      HardStateFile::Create(&env_, PathOf(kHardStateName));
  if (!hard_state.ok()) return hard_state.status();
  absl::StatusOr<std::unique_ptr<SegmentLog>> log =
      SegmentLog::Open(&env_, PathOf(kLogName), kSmallSegments, Index{0});
  if (!log.ok()) return log.status();
  if (absl::Status s = (*log)->Reset(index, term); !s.ok()) return s;
  if (absl::Status s = (*log)->Sync(); !s.ok()) return s;
  const HardState state{term, kNoMember, index, MemberState::kNormal};
  if (absl::Status s = (*hard_state)->Write({state, index}); !s.ok()) return s;
  // WriteIdentityFile syncs the directory, and so makes all names in it durable.
  if (absl::Status s = WriteIdentityFile(&env_, path_, identity); !s.ok()) return s;
  return Unmark(&env_, path_);
}

}  // namespace quorate::consensus
