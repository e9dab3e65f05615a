// The records of a tree, in order, and the paths of its znodes.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
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
  // What the log or the backup's header says about the tree.
  struct Source {
    std::string cluster_id;
    uint64_t term = 0;
    std::vector<uint64_t> voters;
    std::vector<uint64_t> observers;
  };

  // `path` is a member's dataDir or a backup file. NotFound if it does not exist,
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
  std::vector<std::pair<std::string, std::string>> records_;  // that were read ahead
  size_t at_ = 0;
  bool more_ = true;
};

// Determines the paths of a tree's znodes, which are added in the order of their keys. Memory: the
// paths of znodes whose children are not all added yet.
class NodePaths {
 public:
  // Returns the path of a node, and remembers it for its children. DataLoss if its parent was not
  // added before it.
  absl::StatusOr<std::string> Add(const tree::NodeRecord& node);

 private:
  struct Parent {
    std::string path;
    uint32_t missing = 0;  // children
  };
  std::map<tree::NodeKey, Parent> parents_;
};

// The number of creations and deletions of children, as in a Stat.
int32_t ChildVersion(const tree::NodeRecord& node);

// A permission's bits as zkCli prints them: "rwcda".
std::string PermissionText(int32_t permissions);
// "world:anyone:rwcda, ..."; escaped.
std::string AclText(const std::vector<tree::Acl>& acl);
// The access control list of a node; a record has none if the list is the open one.
std::vector<tree::Acl> AclOf(const tree::NodeRecord& node);

}  // namespace quorate::tools
