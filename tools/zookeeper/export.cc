// SPDX-License-Identifier: Apache-2.0

#include "tools/zookeeper/export.h"

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/assert.h"
#include "base/strings.h"
#include "rpc/zookeeper_files/tree_snapshot.h"

namespace quorate::tools::zookeeper {
namespace {

constexpr std::string_view kTemporaryName = "snapshot.being-written";

// Writes to a file sequentially.
class Output {
 public:
  explicit Output(std::unique_ptr<consensus::File> file) : file_(std::move(file)) {}

  absl::Status Append(std::string_view bytes) {
    const std::span<const std::string_view> pieces(&bytes, 1);
    absl::Status status = file_->WriteAt(size_, pieces);
    size_ += bytes.size();
    return status;
  }
  absl::Status Sync() { return file_->Sync(); }
  uint64_t size() const { return size_; }

 private:
  const std::unique_ptr<consensus::File> file_;
  uint64_t size_ = 0;
};

absl::StatusOr<std::unique_ptr<Output>> NewFile(consensus::Env* env, const std::string& path) {
  auto file = env->OpenFile(path, /*create=*/true);
  if (!file.ok()) return file.status();
  if (absl::Status s = (*file)->Truncate(0); !s.ok()) return s;
  return std::make_unique<Output>(*std::move(file));
}

absl::Status WriteText(consensus::Env* env, const std::string& path, std::string_view text) {
  auto file = NewFile(env, path);
  if (!file.ok()) return file.status();
  if (absl::Status s = (*file)->Append(text); !s.ok()) return s;
  return (*file)->Sync();
}

absl::Status CheckEmpty(consensus::Env* env, const std::string& directory) {
  const auto names = env->List(directory);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (name == kTemporaryName) continue;
    if (name.starts_with("snapshot.") || name.starts_with("log.")) {
      return absl::FailedPreconditionError(
          absl::StrCat(directory, "/", name,
                       " is there already: a server would mix it with the export; "
                       "give a new directory"));
    }
  }
  return absl::OkStatus();
}

// Calls `add(key, value)` for each record of a tree. An error ends the calls.
template <typename Add>
absl::Status ForEachRecord(const tree::Tree& tree, Add add) {
  absl::Status status;
  tree.ForEachRecord([&](std::string_view key, std::optional<std::string_view> value) {
    if (status.ok()) status = add(key, *value);
  });
  return status;
}

absl::StatusOr<ExportedSnapshot> WriteSnapshot(const tree::Tree& tree, Output* output) {
  zookeeper_files::SnapshotScan scan;
  absl::Status status = ForEachRecord(
      tree, [&](std::string_view key, std::string_view value) { return scan.Add(key, value); });
  if (!status.ok()) return status;
  const zookeeper_files::SnapshotContents contents = scan.Finish();
  zookeeper_files::SnapshotBuilder builder(
      contents, tree.last_zxid(),
      [output](std::string_view bytes) { return output->Append(bytes); });
  if (status = builder.Begin(); !status.ok()) return status;
  status = ForEachRecord(
      tree, [&](std::string_view key, std::string_view value) { return builder.Add(key, value); });
  if (!status.ok()) return status;
  if (status = builder.End(); !status.ok()) return status;
  if (status = output->Sync(); !status.ok()) return status;
  ASSERT(output->size() == contents.bytes, "the size is known before");
  ExportedSnapshot exported;
  exported.zxid = tree.last_zxid();
  exported.nodes = contents.nodes;
  exported.ephemerals = contents.ephemerals;
  exported.ttl_nodes = contents.ttl_nodes;
  exported.sessions = contents.sessions.size();
  exported.bytes = contents.bytes;
  return exported;
}

}  // namespace

absl::StatusOr<ExportedSnapshot> ExportSnapshot(const tree::Tree& tree,
                                                const std::string& directory, consensus::Env* env) {
  const int64_t zxid = tree.last_zxid().value();
  const int64_t epoch = zxid >> 32;
  if (absl::Status s = zookeeper_files::CheckLastZxid(tree.last_zxid()); !s.ok()) return s;
  const std::string inside = directory + "/version-2";
  if (absl::Status s = env->CreateDirectories(inside); !s.ok()) return s;
  if (absl::Status s = CheckEmpty(env, inside); !s.ok()) return s;
  const std::string temporary = absl::StrCat(inside, "/", ToAbsl(kTemporaryName));
  auto output = NewFile(env, temporary);
  if (!output.ok()) return output.status();
  absl::StatusOr<ExportedSnapshot> exported = WriteSnapshot(tree, output->get());
  if (!exported.ok()) return exported;
  for (const char* name : {"acceptedEpoch", "currentEpoch"}) {
    absl::Status s = WriteText(env, absl::StrCat(inside, "/", name), absl::StrCat(epoch));
    if (!s.ok()) return s;
  }
  exported->epoch = epoch;
  exported->file = absl::StrFormat("%s/snapshot.%x", inside, zxid);
  if (absl::Status s = env->Rename(temporary, exported->file); !s.ok()) return s;
  if (absl::Status s = env->SyncDirectory(inside); !s.ok()) return s;
  return exported;
}

}  // namespace quorate::tools::zookeeper
