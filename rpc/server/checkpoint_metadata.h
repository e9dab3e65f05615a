// The directory in which a member keeps its checkpoint, and the checkpoint's metadata: what
// consensus has to remember of the entries that the checkpoint stands for.
//
// Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "consensus/core/types.h"
#include "tree/store/record_store.h"
#include "tree/types.h"

namespace quorate::rpc {

// The directory of the store.
inline constexpr std::string_view kCheckpointDirectoryName = "checkpoints";
inline std::string CheckpointDirectory(const std::string& data_dir) {
  return data_dir + "/" + std::string(kCheckpointDirectoryName);
}

// zxid = log index.
inline tree::Zxid ZxidOf(consensus::Index index) {
  return tree::Zxid(static_cast<int64_t>(index.value()));
}

// `digest` is the tree's after the entry at meta.index. REQUIRES: meta is valid.
tree::RecordStore::Metadata MakeCheckpointMetadata(const consensus::SnapshotMeta& meta,
                                                   uint64_t digest);

// DataLoss if MakeCheckpointMetadata cannot have made it.
absl::StatusOr<consensus::SnapshotMeta> DecodeCheckpointMetadata(
    const tree::RecordStore::Metadata& metadata);

}  // namespace quorate::rpc
