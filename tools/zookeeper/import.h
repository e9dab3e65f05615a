// SPDX-License-Identifier: Apache-2.0

// Creates the directories of a Quorate member from those of a ZooKeeper server.
//
// Thread-safety: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/zookeeper/data_directory.h"
#include "tree/types.h"

namespace quorate::tools::zookeeper {

// A summary of the imported tree.
struct ImportedTree {
  tree::Zxid zxid;      // ZooKeeper's last zxid; the next change has a greater one
  uint64_t digest = 0;  // of our tree
  size_t nodes = 0;
  size_t ephemerals = 0;
  size_t containers = 0;
  size_t ttl_nodes = 0;
  size_t sessions = 0;
  size_t data_bytes = 0;
  int64_t time_ms = 0;  // the newest time in the tree, which continues from there
  std::vector<std::string> warnings;
};

// Receives a record. An error ends the enumeration.
using RecordSink = std::function<absl::Status(std::string_view key, std::string_view value)>;

// Converts a tree of ZooKeeper's to our records (tree/record.h). The same tree always results in
// the same records.
class Importer {
 public:
  // Checks that the whole tree can be imported, and counts its parts. FailedPrecondition, naming
  // session or znode, for content that our tree cannot hold. `*loaded` must outlive the importer,
  // which assigns numbers to its znodes.
  static absl::StatusOr<Importer> Create(LoadedDirectory* loaded);

  const ImportedTree& summary() const { return summary_; }
  // Returns an id for the cluster of these voters and observers: the same for each of its members,
  // and different from any other cluster's.
  std::string ClusterId(const std::string& cluster_name, const std::vector<uint64_t>& voters,
                        const std::vector<uint64_t>& observers) const;

  // Passes all records in the order of their keys to `record`, the head first. Each record is first
  // loaded as a server would load it, so that a record that a server would reject is not passed on.
  // If the call returns without an error, the records form a complete tree.
  absl::Status ForEachRecord(const RecordSink& record,
                             const std::function<void(const std::string&)>& progress) const;

 private:
  explicit Importer(const DataTree* data_tree) : data_tree_(data_tree) {}

  absl::Status NumberNodes();
  absl::Status Check();
  tree::Session SessionOf(tree::SessionId id, int32_t timeout_ms) const;
  void AddUp();

  const DataTree* data_tree_;
  std::vector<tree::Znode*> nodes_;  // in the order of their keys
  ImportedTree summary_;
};

}  // namespace quorate::tools::zookeeper
