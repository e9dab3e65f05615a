// SPDX-License-Identifier: Apache-2.0

// The directory in which a member keeps its checkpoint, and the checkpoint's metadata: what
// consensus must know about the entries that the checkpoint replaces.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "consensus/core/types.h"
#include "tree/store/record_store.h"
#include "tree/types.h"

namespace quorate::rpc {

// The name of the directory of the record store, inside dataDir.
inline constexpr std::string_view kCheckpointDirectoryName = "checkpoints";
inline std::string CheckpointDirectory(const std::string& data_dir) {
  return data_dir + "/" + std::string(kCheckpointDirectoryName);
}

// Returns the zxid of the entry at `index`: zxids are log indexes.
inline tree::Zxid ZxidOf(consensus::Index index) {
  return tree::Zxid(static_cast<int64_t>(index.value()));
}

// Returns the metadata of a checkpoint at meta.index. `digest` is the tree's after the entry at
// that index. REQUIRES: meta is valid.
tree::RecordStore::Metadata MakeCheckpointMetadata(const consensus::SnapshotMeta& meta,
                                                   uint64_t digest);

// Decodes what MakeCheckpointMetadata returned. DataLoss if `metadata` is not in that format.
absl::StatusOr<consensus::SnapshotMeta> DecodeCheckpointMetadata(
    const tree::RecordStore::Metadata& metadata);

}  // namespace quorate::rpc
