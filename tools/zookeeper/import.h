// Makes the directories of a Quorate member out of those of a ZooKeeper server.
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

// What is imported, in the terms of the tree.
struct ImportedTree {
  tree::Zxid zxid;      // ZooKeeper's last one; the next change has a greater one
  uint64_t digest = 0;  // of our tree
  size_t nodes = 0;
  size_t ephemerals = 0;
  size_t containers = 0;
  size_t ttl_nodes = 0;
  size_t sessions = 0;
  size_t data_bytes = 0;
  int64_t time_ms = 0;  // the newest in it: time goes on from there
  std::vector<std::string> warnings;
};

// Takes a record; an error ends what makes them.
using RecordSink = std::function<absl::Status(std::string_view key, std::string_view value)>;

// Turns a tree of ZooKeeper's into our records (tree/record.h). The same tree gives the same
// records, wherever and whenever.
class Importer {
 public:
  // Checks that all of it can be imported, and counts. FailedPrecondition, naming session or node,
  // for what has no place in a tree of ours. `*loaded` outlives the importer, which numbers its
  // nodes.
  static absl::StatusOr<Importer> Create(LoadedDirectory* loaded);

  const ImportedTree& summary() const { return summary_; }
  // An id for the cluster of these voters and observers: the same for each of its members, and no
  // other cluster's.
  std::string ClusterId(const std::string& cluster_name, const std::vector<uint64_t>& voters,
                        const std::vector<uint64_t>& observers) const;

  // Hands out all records in the order of their keys, the head first. They are loaded on the way as
  // a server would load them, so that none is handed out that a server would refuse, and when it
  // returns without an error they are a whole tree.
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
