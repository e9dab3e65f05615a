// SPDX-License-Identifier: Apache-2.0

// Derives the passwords of ZooKeeper's sessions from their ids.
//
// Thread-safety: functions without state.
#pragma once

#include <string>

#include "tree/types.h"

namespace quorate::tools::zookeeper {

// Returns the password that every ZooKeeper server gives to the client of a session, and expects
// from it.
std::string SessionPassword(tree::SessionId session);

}  // namespace quorate::tools::zookeeper
