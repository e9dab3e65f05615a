// SPDX-License-Identifier: Apache-2.0

// Finds files of a server that other users of the machine can read or change, although they hold
// data that access control lists protect, or secrets.
//
// Thread-safety: functions of the file system.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "rpc/config/config.h"

namespace quorate::rpc {

struct OpenPath {
  std::string path;
  mode_t mode = 0;       // its permissions
  std::string contents;  // what it holds: "the data of all znodes"
  std::string repair;    // the command that restricts it
};

// Returns the directories of data that users other than their owner can reach, and the files with
// secrets that users outside their group can. A directory that belongs to another user than this
// process counts only if users outside its group can reach it: the process may need the group's
// permissions. Paths that do not exist are left out. `configuration` is the text of config.file.
std::vector<OpenPath> FindOpenPaths(const Config& config, std::string_view configuration);

// Logs a warning for each of them.
void WarnOfOpenPaths(const Config& config, std::string_view configuration);

}  // namespace quorate::rpc
