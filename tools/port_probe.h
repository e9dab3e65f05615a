// Finds out what listens on a port that was given as a gRPC port and does not answer as one.
//
// Thread-safety: a pure function of the network.
#pragma once

#include <string>

namespace quorate::tools {

// Returns what is wrong with the servers of `text` ("host:port[,host:port][/chroot]"): those where
// a ZooKeeper front end listens instead of gRPC, and what to do. Empty if none is known to be
// wrong, be it that nobody listens there. Waits a second at most.
std::string WrongPortHint(const std::string& text);

}  // namespace quorate::tools
