#include "rpc/server/checkpoint_label.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "consensus/core/membership.h"

namespace quorate::rpc {

tree::RecordStore::Label MakeLabel(const consensus::SnapshotMeta& meta, uint64_t digest) {
  return {ZxidOf(meta.index), digest, consensus::EncodeSnapshotMeta(meta)};
}

absl::StatusOr<consensus::SnapshotMeta> DecodeLabel(const tree::RecordStore::Label& label) {
  auto meta = consensus::DecodeSnapshotMeta(label.metadata);
  if (!meta.ok()) {
    return absl::DataLossError(absl::StrCat("the label of a checkpoint is damaged: ",
                                            std::string(meta.status().message())));
  }
  if (ZxidOf(meta->index) != label.zxid) {
    return absl::DataLossError("the label of a checkpoint is damaged: it names two zxids");
  }
  return meta;
}

}  // namespace quorate::rpc
