// SPDX-License-Identifier: Apache-2.0

#include "tools/backup/recovered_files.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "consensus/log/file_names.h"
#include "consensus/log/new_data_dir.h"
#include "rpc/member/checkpoints/checkpoint_metadata.h"
#include "rpc/member/checkpoints/divergence_marker.h"
#include "rpc/member/disk/incarnation.h"
#include "tools/offline/file_owner.h"

namespace quorate::tools {
namespace {

namespace fs = std::filesystem;
using consensus::Env;
using consensus::NewDataDir;

constexpr std::string_view kRecoverAside = "recovered-";

// Files of the log directory that a recovered member has, and that it does not have.
constexpr std::string_view kNewInLogDir[] = {consensus::kLogName, consensus::kHardStateName,
                                             rpc::kIncarnationName, consensus::kIdentityName};
constexpr std::string_view kOldInLogDir[] = {
    consensus::kIdentityTemporaryName, consensus::kMembershipName,
    consensus::kMembershipTemporaryName, rpc::kIncarnationTemporaryName,
    rpc::kDivergenceMarkerName};

std::string Join(std::string_view directory, std::string_view name) {
  return absl::StrCat(ToAbsl(directory), "/", ToAbsl(name));
}

absl::Status DiskError(const std::string& path, std::string_view what,
                       const std::error_code& error) {
  return absl::InternalError(absl::StrCat(path, ": cannot be ", ToAbsl(what), ": ", error.message(),
                                          "; correct this, and give the same command again"));
}

// Returns the directory for the old files: that of an interrupted call, or a new one. The number at the
// end of a name is a time, and greater than those of all directories that were there before, even if
// the clock was set back. Therefore the one with the greatest number is the newest.
absl::StatusOr<std::string> AsideOf(Env* env, const std::string& directory, int64_t now_ms) {
  const std::string prefix = absl::StrCat(ToAbsl(consensus::kAsidePrefix), ToAbsl(kRecoverAside));
  auto names = env->List(directory);
  if (!names.ok()) return names.status();
  std::optional<int64_t> newest;
  for (const std::string& name : *names) {
    int64_t number = 0;
    // Names that recover does not give are somebody else's.
    if (!name.starts_with(prefix) || !absl::SimpleAtoi(name.substr(prefix.size()), &number) ||
        name != absl::StrCat(prefix, number) || number == std::numeric_limits<int64_t>::max()) {
      continue;
    }
    newest = std::max(newest.value_or(number), number);
  }
  const bool goes_on = env->Exists(Join(directory, consensus::kIncompleteName));
  if (newest && goes_on) return Join(directory, absl::StrCat(prefix, *newest));
  const int64_t number = newest ? std::max(now_ms, *newest + 1) : now_ms;
  return Join(directory, absl::StrCat(prefix, number));
}

// Renames durably.
absl::Status Move(Env* env, const std::string& from, const std::string& to) {
  if (absl::Status s = env->Rename(from, to); !s.ok()) return s;
  for (const std::string& path : {to, from}) {
    if (absl::Status s = env->SyncDirectory(fs::path(path).parent_path()); !s.ok()) {
      return s;
    }
  }
  return absl::OkStatus();
}

// Puts a new file in the place of an old one, unless an interrupted call has done it.
absl::Status Replace(Env* env, const std::string& directory, const std::string& aside,
                     std::string_view name) {
  const std::string place = Join(directory, name);
  const std::string made = Join(Join(directory, consensus::kRecoveringName), name);
  if (!env->Exists(made)) return absl::OkStatus();
  if (env->Exists(place)) {
    if (absl::Status s = Move(env, place, Join(aside, name)); !s.ok()) return s;
  }
  return Move(env, made, place);
}

std::vector<std::string> DirectoriesOf(const MemberPaths& paths) {
  if (paths.log_dir == paths.data_dir) return {paths.log_dir};
  return {paths.log_dir, paths.data_dir};
}

}  // namespace

MemberPaths NewFilesOf(const MemberPaths& paths) {
  return {Join(paths.data_dir, consensus::kRecoveringName),
          Join(paths.log_dir, consensus::kRecoveringName)};
}

bool IsHalfRecovered(const MemberPaths& paths) {
  return NewDataDir::IsMarked(Env::PosixReadOnly(), paths.log_dir) &&
         Env::PosixReadOnly()->Exists(paths.In(consensus::kRecoveringName));
}

absl::Status RemoveNewFiles(const MemberPaths& paths) {
  for (const std::string& directory : DirectoriesOf(paths)) {
    const std::string made = Join(directory, consensus::kRecoveringName);
    std::error_code error;
    fs::remove_all(made, error);
    if (error) return DiskError(made, "removed", error);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PutNewFilesInPlace(Env* env, const MemberPaths& paths, int64_t now_ms) {
  auto aside = AsideOf(env, paths.log_dir, now_ms);
  if (!aside.ok()) return aside.status();
  // Both directories use the same name, so that a call after an interruption finds it.
  const std::string data_aside = Join(paths.data_dir, fs::path(*aside).filename().string());
  for (const std::string& directory : {*aside, data_aside}) {
    if (absl::Status s = env->CreateDirectories(directory); !s.ok()) return s;
    const std::string parent = fs::path(directory).parent_path();
    if (absl::Status s = GiveToOwnerOf(parent, directory); !s.ok()) return s;
  }
  for (const std::string& directory : DirectoriesOf(paths)) {
    const std::string made = Join(directory, consensus::kRecoveringName);
    if (absl::Status s = GiveToOwnerOf(directory, made); !s.ok()) return s;
  }
  if (absl::Status s = NewDataDir::Mark(env, paths.log_dir); !s.ok()) return s;
  for (std::string_view name : kOldInLogDir) {
    if (!env->Exists(paths.In(name))) continue;
    if (absl::Status s = Move(env, paths.In(name), Join(*aside, name)); !s.ok()) return s;
  }
  if (absl::Status s = Replace(env, paths.data_dir, data_aside, rpc::kCheckpointDirectoryName);
      !s.ok()) {
    return s;
  }
  for (std::string_view name : kNewInLogDir) {
    if (absl::Status s = Replace(env, paths.log_dir, *aside, name); !s.ok()) return s;
  }
  // What is left of "recovering" is not needed, and is removed after the mark: a directory with the
  // mark and without "recovering" would look like an interrupted restore.
  if (absl::Status s = NewDataDir::Unmark(env, paths.log_dir); !s.ok()) return s;
  if (absl::Status s = RemoveNewFiles(paths); !s.ok()) return s;
  return *std::move(aside);
}

}  // namespace quorate::tools
