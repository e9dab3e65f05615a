// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/disk/incomplete_directory.h"

#include "absl/strings/str_cat.h"
#include "consensus/log/identity.h"
#include "consensus/log/new_data_dir.h"
#include "rpc/member/checkpoints/checkpoint_metadata.h"
#include "tree/store/rocks_record_store.h"

namespace quorate::rpc {
namespace {

// Returns OK if there is a log, and it is of the same cluster as the checkpoint. Otherwise returns
// why it is not, or why that is unknown.
absl::Status BelongTogether(consensus::Env* env, const std::string& log_dir,
                            const std::string& data_dir) {
  const auto identity = consensus::ReadIdentityFile(env, log_dir);
  if (!identity.ok()) return identity.status();
  const auto view = tree::RocksRecordStore::Look(CheckpointDirectory(data_dir), {});
  if (!view.ok()) return view.status();
  const auto meta = DecodeCheckpointMetadata((*view)->metadata());
  if (!meta.ok()) return meta.status();
  if (!identity->cluster_id.empty() && meta->cluster_id == identity->cluster_id) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the log in ", log_dir, " is not of the same cluster"));
}

}  // namespace

absl::Status CheckWhole(consensus::Env* env, const std::string& log_dir,
                        const std::string& data_dir) {
  using consensus::NewDataDir;
  if (!NewDataDir::IsMarked(env, data_dir) || NewDataDir::IsMarked(env, log_dir)) {
    return absl::OkStatus();
  }
  const absl::Status together = BelongTogether(env, log_dir, data_dir);
  if (together.ok()) return together;
  return absl::FailedPreconditionError(absl::StrCat(
      data_dir,
      ": is incomplete (it holds the file unfinished): `quorate restore` or `quorate import` was "
      "interrupted. Run the same command again: it begins from the start. If it was given another "
      "log directory than ",
      log_dir, ", set dataLogDir to that one. What was found: ", together.message()));
}

}  // namespace quorate::rpc
