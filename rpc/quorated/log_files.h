// SPDX-License-Identifier: Apache-2.0

// The files to which standard output and standard error are redirected, and with them the log.
//
// Thread-safety: construct the object before other threads start; one thread at a time may call
// Reopen. Other threads may write to the log in the meantime: each line goes as a whole to the old
// file or to the new one.
#pragma once

#include <array>
#include <string>

#include "absl/status/status.h"

namespace quorate::rpc {

class LogFiles {
 public:
  // Finds the regular files to which descriptors 1 and 2 are redirected. Reopen does nothing for a
  // terminal, a pipe or a socket.
  LogFiles();

  // Opens those files again by their names, and creates them if log rotation has moved them away.
  // Returns an error that names the file if that fails; then the descriptors stay unchanged.
  absl::Status Reopen();

 private:
  std::array<std::string, 2> paths_;  // paths of descriptors 1 and 2; empty: not a regular file
};

}  // namespace quorate::rpc
