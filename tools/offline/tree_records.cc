// SPDX-License-Identifier: Apache-2.0

#include "tools/offline/tree_records.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "rpc/member/checkpoints/checkpoint_metadata.h"
#include "tools/offline/printing.h"
#include "tree/store/rocks_record_store.h"

namespace quorate::tools {
namespace {

constexpr size_t kPieceBytes = 256u << 10;

}  // namespace

absl::StatusOr<TreeRecords> TreeRecords::Open(const std::string& path) {
  TreeRecords records;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    if (absl::Status s = records.OpenMember(path); !s.ok()) return s;
    return records;
  }
  auto backup = tree::BackupFileReader::Open(path);
  if (!backup.ok()) return backup.status();
  records.backup_ = *std::move(backup);
  const tree::BackupHeader& header = records.backup_->header();
  records.source_ = {header.cluster_id, header.term, header.voters, header.observers};
  return records;
}

absl::Status TreeRecords::OpenMember(const std::string& data_dir) {
  auto lock = MemberLock::Take(MemberPaths::Of(data_dir, ""), consensus::Env::PosixReadOnly());
  if (!lock.ok()) return lock.status();
  lock_ = *std::move(lock);
  auto view = tree::RocksRecordStore::Look(rpc::CheckpointDirectory(data_dir), {});
  if (!view.ok()) return view.status();
  view_ = *std::move(view);
  auto meta = rpc::DecodeCheckpointMetadata(view_->metadata());
  if (!meta.ok()) return meta.status();
  source_.cluster_id = meta->cluster_id;
  source_.term = meta->term.value();
  for (consensus::MemberId id : meta->membership.voters) source_.voters.push_back(id.value());
  for (consensus::MemberId id : meta->membership.learners) source_.observers.push_back(id.value());
  return absl::OkStatus();
}

absl::StatusOr<bool> TreeRecords::Next() {
  return backup_ != nullptr ? backup_->Next(&key_, &value_) : NextOfView();
}

absl::StatusOr<bool> TreeRecords::NextOfView() {
  ++at_;
  if (at_ >= records_.size()) {
    records_.clear();
    at_ = 0;
  }
  while (more_ && records_.empty()) {
    auto more = view_->Next(kPieceBytes, [this](std::string_view key, std::string_view value) {
      records_.emplace_back(key, value);
      return absl::OkStatus();
    });
    if (!more.ok()) return more.status();
    more_ = *more;
  }
  if (records_.empty()) return false;
  key_ = records_[at_].first;
  value_ = records_[at_].second;
  return true;
}

int32_t ChildVersion(const tree::NodeRecord& node) {
  return static_cast<int32_t>(2 * static_cast<uint32_t>(node.created_children) - node.children);
}

std::string PermissionText(int32_t permissions) {
  constexpr std::pair<int32_t, char> kLetters[] = {{tree::permission::kRead, 'r'},
                                                   {tree::permission::kWrite, 'w'},
                                                   {tree::permission::kCreate, 'c'},
                                                   {tree::permission::kDelete, 'd'},
                                                   {tree::permission::kAdmin, 'a'}};
  std::string text;
  for (const auto& [bit, letter] : kLetters) {
    if ((permissions & bit) != 0) text += letter;
  }
  return text;
}

std::string AclText(const std::vector<tree::Acl>& acl) {
  std::string text;
  for (const tree::Acl& entry : acl) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", Escape(entry.identity.scheme), ":",
                    Escape(entry.identity.id), ":", PermissionText(entry.permissions));
  }
  return text;
}

std::vector<tree::Acl> AclOf(const tree::NodeRecord& node) {
  return node.acl.empty() ? tree::OpenAcl() : node.acl;
}

}  // namespace quorate::tools
