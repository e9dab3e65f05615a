// SPDX-License-Identifier: Apache-2.0

// Reads the records of a tree in order, and shows their fields.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/offline/member_examination.h"
#include "tree/record.h"
#include "tree/store/backup_file.h"
#include "tree/store/record_store.h"

namespace quorate::tools {

// The newest checkpoint of a stopped member, or a backup, read record by record, in the order of
// keys. Memory: about a MiB.
class TreeRecords {
 public:
  // The facts about the tree from the log, or from the backup's header.
  struct Source {
    std::string cluster_id;
    uint64_t term = 0;
    std::vector<uint64_t> voters;
    std::vector<uint64_t> observers;
  };

  // Opens `path`, a member's dataDir or a backup file. NotFound if it does not exist,
  // FailedPrecondition if there is no checkpoint in the directory or a server runs on it,
  // InvalidArgument if the file is not a backup, DataLoss if it is damaged.
  static absl::StatusOr<TreeRecords> Open(const std::string& path);

  const Source& source() const { return source_; }
  // Advances to the next record; returns false at the end. Views are valid until the next call.
  absl::StatusOr<bool> Next();
  std::string_view key() const { return key_; }
  std::string_view value() const { return value_; }

 private:
  TreeRecords() = default;
  absl::Status OpenMember(const std::string& data_dir);
  absl::StatusOr<bool> NextOfView();

  Source source_;
  std::string_view key_;
  std::string_view value_;
  // Exactly one of the two is set.
  std::unique_ptr<tree::BackupFileReader> backup_;
  std::unique_ptr<tree::RecordStore::View> view_;

  std::optional<MemberLock> lock_;                            // of the directory of view_
  std::vector<std::pair<std::string, std::string>> records_;  // records that were read ahead
  size_t at_ = 0;
  bool more_ = true;
};

// Returns the number of creations and deletions of children, as in a Stat.
int32_t ChildVersion(const tree::NodeRecord& node);

// Returns permissions as zkCli prints them: "rwcda".
std::string PermissionText(int32_t permissions);
// Returns the list as escaped text: "world:anyone:rwcda, ...".
std::string AclText(const std::vector<tree::Acl>& acl);
// Returns the access control list of a znode. A record without a list has the open one.
std::vector<tree::Acl> AclOf(const tree::NodeRecord& node);

}  // namespace quorate::tools
