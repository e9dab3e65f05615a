// SPDX-License-Identifier: Apache-2.0

// quorate recover --force-new-cluster: makes a cluster of one member of what is left of a cluster
// that has lost a majority of its voters for good. Uses the surviving data directory with the newest
// log, in its place; sessions and znodes stay.
//
// The new data is first made beside the old in the directory "recovering", while the old data stays
// as it is. Then the directory is marked as incomplete, the old files are moved aside, the new ones
// take their place, and the mark is removed. A process that ends before the mark is set leaves the
// old member; one that ends after it leaves a directory that servers refuse, and the next call
// completes it.
//
// Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "consensus/log/env.h"
#include "tools/cli/command_line.h"
#include "tools/offline/member_examination.h"

namespace quorate::tools {

struct RecoverOptions {
  // Values of server.N lines by member, for directories whose log does not hold addresses.
  std::map<uint64_t, std::string> addresses;
  uint64_t zxid_bump = 0;  // how far above the last zxid the new cluster begins
  std::string new_name;    // any text that no other call has: the new cluster's id depends on it
  bool json = false;
  int64_t now_ms = 0;  // since the epoch
  // With which the new files are put in their place; tests replace it.
  consensus::Env* env = consensus::Env::Posix();
  // Called after the plan is written to `out`. If it returns false, nothing is done.
  std::function<bool()> confirm;
};

// Recovers from `survivors`, the directories of stopped members of one cluster; all but the chosen
// one are only read. Does nothing and succeeds if the only directory is that of the only voter of
// its cluster. Errors, after each of which all directories are as before, except for those of the
// disk: FailedPrecondition if a server runs on a directory, if the directories are of different
// clusters, belong to the same member, hold no data, include a member that the chosen one's
// membership lacks, or are those of a majority; InvalidArgument if an address is missing or
// malformed; NotFound if a directory does not exist; DataLoss, naming it, for the first damage;
// Cancelled.
absl::Status Recover(const std::vector<MemberPaths>& survivors, const RecoverOptions& options,
                     std::ostream& out);

// Adds the command to `command_line`, which must outlive it.
void AddRecoverCommand(CommandLine* command_line);

}  // namespace quorate::tools
