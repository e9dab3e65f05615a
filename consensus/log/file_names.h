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
// Marks a directory that another program than a server is making, or was making when it was
// interrupted (new_data_dir.h).
inline constexpr std::string_view kIncompleteName = "unfinished";
// Directories that hold the data put aside when the member was rebuilt.
inline constexpr std::string_view kAsidePrefix = "aside-";
// The directory that ZooKeeper makes in its data directory.
inline constexpr std::string_view kZooKeeperDataName = "version-2";

// Whether a file of that name may be in a directory that is not yet formatted, because an operator
// or ZooKeeper's conventions put it there.
constexpr bool MayStandInNewDirectory(std::string_view name) {
  return name == "myid" || name == "lost+found" || name.starts_with("zoo.cfg") ||
         name.starts_with("server.log") || name.ends_with(".pid") || name.starts_with(kAsidePrefix);
}

}  // namespace quorate::consensus
