// SPDX-License-Identifier: Apache-2.0

// Creates the directories of a member that starts with a tree, for a cluster that is restored from
// a backup or that imports the data of another cluster. All members of such a cluster are created
// this way, each with its own number and all with the same records.
//
// Until Finish has returned, and after any error or crash, a server refuses to start on the
// directories: the file "unfinished" marks both as incomplete. They can be created again in the
// same place, which removes the files of the interrupted run.
//
// If root creates them in a directory of another user, they belong to that user: a server that runs
// as that user can start on them.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/core/types.h"
#include "consensus/log/env.h"
#include "consensus/log/new_data_dir.h"
#include "tree/store/rocks_record_store.h"
#include "tree/types.h"

namespace quorate::tools {

struct NewMember {
  std::string data_dir;
  std::string log_dir;  // empty: data_dir
  uint64_t member = 0;  // 1 to 254; among voters or observers
  std::vector<uint64_t> voters;
  std::vector<uint64_t> observers;
  std::string cluster_id;  // consensus::kClusterIdBytes long; the same for all members, and new
  // The values of the server.N lines of members (rpc/config/server_line.h). If there are any, the
  // data says who the members are, whatever the configuration of the server lists; this needs a
  // `version` of consensus::kVersionAddresses at least.
  std::map<uint64_t, std::string> addresses = {};
  uint32_t version = consensus::kVersionBase;  // of the cluster; a leader raises it
};

// The environments of the log and of the store, which tests replace. Both must outlive the writer.
struct MemberDirectoryEnvs {
  consensus::Env* env = consensus::Env::Posix();
  rocksdb::Env* store_env = nullptr;  // nullptr: RocksDB's default
};

class MemberDirectoryWriter {
 public:
  // Begins to create the directories. The tree's records are those of `zxid`, with `digest`. The
  // log begins after zxid, whose term is `term`: greater than 0, and the same for all members.
  // Errors: InvalidArgument, naming it, for an invalid value; FailedPrecondition if a directory
  // contains something that does not belong into a new one (configuration and myid do), naming
  // both, or if a server runs on it; those of the disk.
  static absl::StatusOr<std::unique_ptr<MemberDirectoryWriter>> Create(
      NewMember member, tree::Zxid zxid, uint64_t term, uint64_t digest,
      MemberDirectoryEnvs envs = {});

  // Adds the next record, in the order of keys (tree/record.h), beginning with the head, which must
  // have the zxid and digest given to Create. InvalidArgument otherwise. Does not check that all
  // records together are a tree with that digest: a server checks this when it loads them.
  absl::Status Add(std::string_view key, std::string_view value);

  // Turns the directory into one that a server starts from. It is durable when this returns. If its
  // files cannot be given to the owner of the directory, it is complete, and the error says so.
  // REQUIRES: no error was returned before; called once, after at least the head was added.
  absl::Status Finish();

 private:
  MemberDirectoryWriter(NewMember member, consensus::SnapshotMeta meta, uint64_t digest,
                        MemberDirectoryEnvs envs);

  absl::Status Begin();
  bool is_apart() const;
  absl::Status CheckMyId() const;
  // Creates the data directory, marked as incomplete, and without a store.
  absl::Status PrepareDataDir() const;
  absl::Status CheckHead(std::string_view key, std::string_view value);
  absl::Status WriteMyId();
  // Gives the files to the owners of the directories that they are in.
  absl::Status GiveToOwners() const;

  const NewMember member_;
  const consensus::SnapshotMeta meta_;
  const uint64_t digest_;
  const MemberDirectoryEnvs envs_;
  std::unique_ptr<consensus::NewDataDir> new_data_dir_;
  std::unique_ptr<tree::RocksRecordStore> store_;
  std::string last_key_;
  uint64_t last_incarnation_ = 0;  // the highest in the tree
};

}  // namespace quorate::tools
