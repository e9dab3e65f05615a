// Finds out what listens on a port that was given as a gRPC port and does not answer gRPC.
//
// Thread-safety: a pure function of the network.
#pragma once

#include <string>

namespace quorate::tools {

// Returns a message about those servers of `text` ("host:port[,host:port][/chroot]") where a
// ZooKeeper front end listens instead of gRPC, and what to do. Empty if there are none, even if
// nothing listens there. Waits a second at most.
std::string WrongPortHint(const std::string& text);

}  // namespace quorate::tools
