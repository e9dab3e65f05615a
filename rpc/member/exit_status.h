// SPDX-License-Identifier: Apache-2.0

// The exit status of the server process, which says why it ended, with ZooKeeper's numbers (and one
// of our own): scripts, monitoring and supervisors read it. It travels with the error, so that what fails decides it.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace quorate::rpc {

enum class ExitStatus : uint8_t {
  kOk = 0,
  kError = 1,          // anything that has no number of its own
  kConfiguration = 2,  // the command line or the configuration is wrong
  kDataDirectory = 3,  // a data directory cannot be used
  kAdminServer = 4,    // an HTTP port cannot be opened
  kRemoved = 5,        // the server was removed from the cluster; ZooKeeper does not have this one
  kPeerPort = 14,      // the port for the other members cannot be opened
};

// Returns the error with the exit status that a process ends with because of it; OK as it is.
absl::Status WithExitStatus(absl::Status error, ExitStatus exit_status);

// Returns the exit status of a process that ends with this result: kError for an error without one.
ExitStatus ExitStatusOf(const absl::Status& result);

}  // namespace quorate::rpc
