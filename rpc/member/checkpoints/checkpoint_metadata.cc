// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/checkpoints/checkpoint_metadata.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "consensus/core/membership.h"

namespace quorate::rpc {

tree::RecordStore::Metadata MakeCheckpointMetadata(const consensus::SnapshotMeta& meta,
                                                   uint64_t digest) {
  return {ZxidOf(meta.index), digest, consensus::EncodeSnapshotMeta(meta)};
}

absl::StatusOr<consensus::SnapshotMeta> DecodeCheckpointMetadata(
    const tree::RecordStore::Metadata& metadata) {
  auto meta = consensus::DecodeSnapshotMeta(metadata.caller_data);
  if (!meta.ok()) {
    return absl::DataLossError(absl::StrCat("the metadata of a checkpoint is damaged: ",
                                            std::string(meta.status().message())));
  }
  if (ZxidOf(meta->index) != metadata.zxid) {
    return absl::DataLossError("the metadata of a checkpoint is damaged: it names two zxids");
  }
  return meta;
}

}  // namespace quorate::rpc
