// Where a member keeps the checkpoint of its tree, and how that is labelled in the store of its
// records: by what consensus has to remember of the entries before it.
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
tree::RecordStore::Label MakeLabel(const consensus::SnapshotMeta& meta, uint64_t digest);

// DataLoss if MakeLabel cannot have made it.
absl::StatusOr<consensus::SnapshotMeta> DecodeLabel(const tree::RecordStore::Label& label);

}  // namespace quorate::rpc
