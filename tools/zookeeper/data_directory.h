// Loads what a ZooKeeper server has on its disk: the newest snapshot that is whole, and the logs
// behind it.
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
  std::string log_dir;   // likewise dataLogDir; empty: data_dir
  // Go on where a digest of ZooKeeper's differs from that of the tree.
  bool ignore_digest = false;
  // Go on where transactions are missing between two that are there.
  bool ignore_gaps = false;
};

struct LoadedDirectory {
  std::unique_ptr<DataTree> data_tree;
  tree::Zxid last_zxid;
  std::string snapshot;        // the file
  size_t transactions = 0;     // applied
  size_t digests_checked = 0;  // of ZooKeeper's, all right
  size_t orphans = 0;          // ephemerals of sessions that had ended
  std::vector<std::string> warnings;
};

// Nothing in the directory is changed; the server is stopped. `progress` is called now and then
// with one line. NotFound if there is no snapshot, DataLoss if files are damaged, missing, or make
// no sense together; both name the file and the way out.
absl::StatusOr<LoadedDirectory> LoadDirectory(
    const DataDirectory& directory, const std::function<void(const std::string&)>& progress);

}  // namespace quorate::tools::zookeeper
