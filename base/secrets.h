// SPDX-License-Identifier: Apache-2.0

// Comparison of secrets.
//
// Thread-safety: functions without state.
#pragma once

#include <string_view>

namespace quorate {

// Returns whether two secrets are equal, in a time that depends on their lengths and not on their
// bytes: an attacker does not learn from the time how much of a guess was right.
bool SecretsEqual(std::string_view a, std::string_view b);

}  // namespace quorate
