// SPDX-License-Identifier: Apache-2.0

// Owners of the files that commands make as root for a server that runs as another user.
//
// Thread-safety: functions of their arguments.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace quorate::tools {

// Gives the file or directory `path`, with all that is in it, to the user and the group that own
// `directory`. Changes nothing unless the process runs as root and `directory` belongs to another
// user. A `path` that does not exist is no error. Symbolic links are not followed.
absl::Status GiveToOwnerOf(const std::string& directory, const std::string& path);

}  // namespace quorate::tools
