// SPDX-License-Identifier: Apache-2.0

// Finds out whether a port that was given as a gRPC port is one for ZooKeeper clients.
//
// Thread-safety: a pure function of the network.
#pragma once

#include <string>

namespace quorate::tools {

// Returns a message that names the servers of `text` ("host:port[,host:port][/chroot]") on whose
// ports a ZooKeeper front end listens instead of gRPC, and says what to do. Returns an empty string
// if there are none, or if nothing listens there. Waits at most one second.
std::string WrongPortHint(const std::string& text);

}  // namespace quorate::tools
