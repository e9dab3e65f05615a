// SPDX-License-Identifier: Apache-2.0

// Translates between lines of the history and requests of the ZooKeeper front end.
//
// Thread-safety: functions without state.
#pragma once

#include "tests/chaos/history.h"
#include "tests/simulation/clients/operation.h"

namespace quorate::chaos {

// REQUIRES: `invoke` is an operation that the front end supports (all but "add").
simulation::Request ToRequest(const Line& invoke);

// The outcome: ok, refused or unknown, with the results.
Line ToOutcome(const Line& invoke, const simulation::Reply& reply);

// The name of an event type in the history: "changed" and so on.
const char* NameOf(tree::EventType type);

}  // namespace quorate::chaos
