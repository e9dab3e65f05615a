// SPDX-License-Identifier: Apache-2.0

// How `quorate restore` changes the tree of a backup before it writes a member's directory.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tree/store/backup_file.h"
#include "tree/tree.h"

namespace quorate::tools {

// How far above the backup's zxid the new cluster begins. The old cluster may have continued after
// the backup: clients have seen those zxids, and hold fencing tokens derived from them (the zxid of
// a znode's creation). 2^40 is more than the old cluster can have written in four months at 100,000
// writes per second; zxids have 63 bits, enough for eight million restores of restores.
inline constexpr uint64_t kZxidBump = uint64_t{1} << 40;

struct RestoreOptions {
  // Closes all sessions, as if each client had closed its own after the backup: their ephemerals
  // are deleted.
  bool without_sessions = false;
  // The restored tree has the backup's zxid plus this number.
  uint64_t zxid_bump = kZxidBump;
};

// Changes the tree according to the options. InvalidArgument: less than half of all zxids would be
// left.
absl::Status PrepareRestoredTree(const RestoreOptions& options, tree::Tree* tree);

// Returns the id of the new cluster. It is the same for all members that are restored from the same
// file with the same options, on any machine and with the members listed in any order. It differs
// from the id of the cluster that made the backup, and from those of clusters that are restored
// from another file, or with other options, members or names. `tree` is the prepared one.
std::string RestoredClusterId(const tree::BackupTotals& totals, const RestoreOptions& options,
                              const tree::Tree& tree, std::vector<uint64_t> voters,
                              std::vector<uint64_t> observers, const std::string& cluster_name);

}  // namespace quorate::tools
