// The passwords of ZooKeeper's sessions, which follow from their ids.
//
// Thread-safety: functions without state.
#pragma once

#include <string>

#include "tree/types.h"

namespace quorate::tools::zookeeper {

// What every ZooKeeper server gives to, and expects from, the client of a session.
std::string SessionPassword(tree::SessionId session);

}  // namespace quorate::tools::zookeeper
