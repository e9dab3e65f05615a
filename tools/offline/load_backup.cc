// SPDX-License-Identifier: Apache-2.0

#include "tools/offline/load_backup.h"

#include <filesystem>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tree/snapshot.h"

namespace quorate::tools {

absl::StatusOr<LoadedBackup> LoadBackup(const std::string& path, ProgressBar* progress) {
  auto file = tree::BackupFileReader::Open(path);
  if (!file.ok()) return file.status();
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  const uint64_t total = error ? 0 : size;
  const auto in_file = [&](const absl::Status& status) {
    return absl::DataLossError(absl::StrCat(path, ": the backup does not have a whole tree: ",
                                            status.message(), "; use another backup"));
  };
  tree::TreeLoader loader;
  std::string_view key;
  std::string_view value;
  while (true) {
    const auto more = (*file)->Next(&key, &value);
    if (!more.ok()) return more.status();
    if (!*more) break;
    if (absl::Status s = loader.Add(key, value); !s.ok()) return in_file(s);
    progress->Update((*file)->offset(), total, (*file)->offset());
  }
  const tree::BackupHeader& header = (*file)->header();
  auto tree = loader.Finish(header.zxid, header.digest);
  if (!tree.ok()) return in_file(tree.status());
  progress->Finish();
  return LoadedBackup{header, (*file)->totals(), *std::move(tree)};
}

}  // namespace quorate::tools
