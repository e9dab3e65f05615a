// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/disk/incarnation.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace quorate::rpc {
namespace {

std::string IncarnationPath(const std::string& dir) { return dir + "/" + kIncarnationName; }

absl::Status WriteText(consensus::File* file, uint64_t incarnation) {
  const std::string text = std::to_string(incarnation);
  const std::string_view pieces[] = {text};
  if (absl::Status s = file->WriteAt(0, pieces); !s.ok()) return s;
  return file->Sync();
}

absl::Status SaveAnew(consensus::Env* env, const std::string& dir, uint64_t incarnation) {
  const std::string temporary = dir + "/" + kIncarnationTemporaryName;
  auto file = env->OpenFile(temporary, /*create=*/true);
  if (!file.ok()) return file.status();
  if (absl::Status s = (*file)->Truncate(0); !s.ok()) return s;
  if (absl::Status s = WriteText(file->get(), incarnation); !s.ok()) return s;
  return env->Rename(temporary, IncarnationPath(dir));
}

// Overwrites the file, which takes no new space. That is safe: the few bytes are within one sector,
// which a disk writes whole or not at all, and a greater number is never shorter.
absl::Status SaveInPlace(consensus::Env* env, const std::string& dir, uint64_t incarnation) {
  const std::string temporary = dir + "/" + kIncarnationTemporaryName;
  if (env->Exists(temporary)) {
    if (absl::Status s = env->Remove(temporary); !s.ok()) return s;
  }
  auto file = env->OpenFile(IncarnationPath(dir), /*create=*/false);
  if (!file.ok()) return file.status();
  return WriteText(file->get(), incarnation);
}

}  // namespace

absl::Status SaveIncarnation(consensus::Env* env, const std::string& dir, uint64_t incarnation) {
  absl::Status saved = SaveAnew(env, dir, incarnation);
  if (absl::IsResourceExhausted(saved) && env->Exists(IncarnationPath(dir))) {
    saved = SaveInPlace(env, dir, incarnation);
  }
  return saved.ok() ? env->SyncDirectory(dir) : saved;
}

absl::StatusOr<uint64_t> NextIncarnation(consensus::Env* env, const std::string& dir,
                                         int64_t wall_ms) {
  const std::string path = IncarnationPath(dir);
  uint64_t last = 0;
  if (env->Exists(path)) {
    auto file = env->OpenFile(path, /*create=*/false);
    if (!file.ok()) return file.status();
    char text[32];
    auto size = (*file)->ReadAt(0, sizeof(text), text);
    if (!size.ok()) return size.status();
    if (!absl::SimpleAtoi(absl::string_view(text, *size), &last)) {
      return absl::DataLossError(absl::StrCat(path,
                                              ": it has to hold one number; remove the file, "
                                              "and the server goes on by its clock"));
    }
  }
  const uint64_t next = std::max(last + 1, static_cast<uint64_t>(wall_ms));
  if (absl::Status s = SaveIncarnation(env, dir, next); !s.ok()) return s;
  return next;
}

}  // namespace quorate::rpc
