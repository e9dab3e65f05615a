// SPDX-License-Identifier: Apache-2.0

// The names of the files in a member's directory.
//
// Thread-safety: constants.
#pragma once

#include <string_view>

namespace quorate::consensus {

inline constexpr std::string_view kIdentityName = "identity";
inline constexpr std::string_view kIdentityTemporaryName = "identity.tmp";
inline constexpr std::string_view kMembershipName = "membership";
inline constexpr std::string_view kMembershipTemporaryName = "membership.tmp";
inline constexpr std::string_view kHardStateName = "hard_state";
inline constexpr std::string_view kLogName = "log";
inline constexpr std::string_view kLockName = "LOCK";
// The file that marks an incomplete directory: a tool is making it, or was interrupted while it
// made it (new_data_dir.h).
inline constexpr std::string_view kIncompleteName = "unfinished";
// The directory in which `quorate recover` makes new files, in the data directory and in the log
// directory.
inline constexpr std::string_view kRecoveringName = "recovering";
// The prefix of directories to which `quorate rebuild` has moved the data of the member.
inline constexpr std::string_view kAsidePrefix = "aside-";
// The directory that ZooKeeper makes in its data directory.
inline constexpr std::string_view kZooKeeperDataName = "version-2";

// Returns whether a file of that name may be in a directory that is not yet formatted, because an
// operator put it there, or ZooKeeper's conventions did.
constexpr bool MayStandInNewDirectory(std::string_view name) {
  return name == "myid" || name == "lost+found" || name.starts_with("zoo.cfg") ||
         name.starts_with("server.log") || name.ends_with(".pid") || name.starts_with(kAsidePrefix);
}

}  // namespace quorate::consensus
