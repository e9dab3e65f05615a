// SPDX-License-Identifier: Apache-2.0

// Loads the data directory of a ZooKeeper server: the newest intact snapshot, and the logs after
// it.
//
// Thread-safety: functions without state.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/zookeeper/data_tree.h"
#include "tree/types.h"

namespace quorate::tools::zookeeper {

struct DataDirectory {
  std::string data_dir;  // dataDir, or the directory version-2 in it
  std::string log_dir;   // dataLogDir, or version-2 in it; empty: data_dir
  // Whether to continue if a digest of ZooKeeper's differs from that of the tree.
  bool ignore_digest = false;
  // Whether to continue if transactions are missing between two existing ones.
  bool ignore_gaps = false;
};

struct LoadedDirectory {
  std::unique_ptr<DataTree> data_tree;
  tree::Zxid last_zxid;
  std::string snapshot;        // the path of the file
  size_t transactions = 0;     // the number of applied transactions
  size_t digests_checked = 0;  // digests of ZooKeeper's that were equal to the tree's
  size_t orphans = 0;          // ephemerals of sessions that had ended
  std::vector<std::string> warnings;
};

// Loads the directory without changing it. REQUIRES: the server is stopped. `progress` is called
// from time to time with one line. NotFound if there is no snapshot, DataLoss if files are damaged,
// missing, or inconsistent with each other; both name the file, and say what to do.
absl::StatusOr<LoadedDirectory> LoadDirectory(
    const DataDirectory& directory, const std::function<void(const std::string&)>& progress);

}  // namespace quorate::tools::zookeeper
