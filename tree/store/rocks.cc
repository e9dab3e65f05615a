#include "tree/store/rocks.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/strings.h"

namespace quorate::tree {

absl::Status ToStatus(const rocksdb::Status& status, std::string_view what) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = absl::StrCat(ToAbsl(what), ": ", status.ToString());
  if (status.IsCorruption()) {
    return absl::DataLossError(
        absl::StrCat(message,
                     "; stop the server, move its data directory away and start it again, "
                     "and it is rebuilt from the others"));
  }
  if (status.IsNoSpace()) {
    return absl::ResourceExhaustedError(absl::StrCat(message, "; make room on the disk"));
  }
  return absl::InternalError(message);
}

absl::Status SyncDirectory(rocksdb::Env* env, const std::string& directory) {
  std::unique_ptr<rocksdb::Directory> handle;
  rocksdb::Status status = env->NewDirectory(directory, &handle);
  if (status.ok()) status = handle->Fsync();
  return ToStatus(status, "syncing " + directory);
}

absl::Status WriteFileDurably(rocksdb::Env* env, const std::string& directory,
                              const std::string& name, std::string_view contents) {
  if (absl::Status synced = SyncDirectory(env, directory); !synced.ok()) return synced;
  const std::string path = directory + "/" + name;
  const std::string draft = path + ".new";
  rocksdb::Status status = rocksdb::WriteStringToFile(env, ToSlice(contents), draft, true);
  if (status.ok()) status = env->RenameFile(draft, path);
  if (!status.ok()) return ToStatus(status, "writing " + path);
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
