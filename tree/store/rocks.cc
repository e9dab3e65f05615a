// SPDX-License-Identifier: Apache-2.0

#include "tree/store/rocks.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "tree/store/rocks_record_store.h"

namespace quorate::tree {

absl::Status ToStatus(const rocksdb::Status& status, std::string_view what) {
  if (status.ok()) return absl::OkStatus();
  std::string text = status.ToString();
  // Some messages of RocksDB end with a line break.
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  // For some errors of the system, RocksDB's message has only the error number. Appends the text of
  // the error.
  constexpr char kNumber[] = "Unexpected error(";
  if (const size_t at = text.find(kNumber); at != std::string::npos) {
    const int error = std::atoi(text.c_str() + at + sizeof(kNumber) - 1);
    absl::StrAppend(&text, ": ", std::strerror(error));
  }
  const std::string message = absl::StrCat(ToAbsl(what), ": ", text);
  if (status.IsCorruption()) {
    return absl::DataLossError(absl::StrCat(message, ToAbsl(kRebuildAdvice)));
  }
  if (status.IsNoSpace()) {
    return absl::ResourceExhaustedError(absl::StrCat(message, "; free some space on the disk"));
  }
  return absl::InternalError(message);
}

absl::Status SyncDirectory(rocksdb::Env* env, const std::string& directory) {
  std::unique_ptr<rocksdb::Directory> handle;
  rocksdb::Status status = env->NewDirectory(directory, &handle);
  if (status.ok()) status = handle->Fsync();
  return ToStatus(status, "syncing " + directory);
}

absl::Status PrepareFile(rocksdb::Env* env, const std::string& path, std::string_view suffix,
                         std::string_view contents) {
  const rocksdb::Status status =
      rocksdb::WriteStringToFile(env, ToSlice(contents), path + std::string(suffix), true);
  return ToStatus(status, "preparing " + path);
}

absl::Status ReplaceByPrepared(rocksdb::Env* env, const std::string& directory,
                               const std::string& name, std::string_view suffix) {
  if (absl::Status synced = SyncDirectory(env, directory); !synced.ok()) return synced;
  const std::string path = directory + "/" + name;
  const rocksdb::Status status = env->RenameFile(path + std::string(suffix), path);
  if (!status.ok()) return ToStatus(status, "replacing " + path);
  return SyncDirectory(env, directory);
}

absl::Status RemoveDirectory(rocksdb::Env* env, const std::string& directory) {
  std::vector<std::string> names;
  rocksdb::Status status = env->GetChildren(directory, &names);
  if (status.IsNotFound()) return absl::OkStatus();
  for (const std::string& name : names) {
    if (!status.ok()) break;
    if (name == "." || name == "..") continue;
    status = env->DeleteFile(directory + "/" + name);
  }
  if (status.ok()) status = env->DeleteDir(directory);
  return ToStatus(status, "removing " + directory);
}

}  // namespace quorate::tree
