// The files to which standard output and standard error, and with them the log, are redirected.
//
// Thread-safety: the constructor before other threads start; Reopen from one thread at a time.
// Other threads may write to the log meanwhile: each line goes whole to the old file or to the new
// one.
#pragma once

#include <array>
#include <string>

#include "absl/status/status.h"

namespace quorate::rpc {

class LogFiles {
 public:
  // Finds the regular files to which descriptors 1 and 2 lead. Reopen does nothing for a terminal,
  // a pipe or a socket.
  LogFiles();

  // Opens those files again by their names, and creates them if log rotation has moved them away.
  // On an error, which names the file, the descriptors stay as they were.
  absl::Status Reopen();

 private:
  std::array<std::string, 2> paths_;  // of descriptors 1 and 2; empty: no regular file
};

}  // namespace quorate::rpc
