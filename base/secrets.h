// Comparison of secrets.
//
// Thread-safety: functions without state.
#pragma once

#include <string_view>

namespace quorate {

// Whether two secrets are equal, in a time that depends on their lengths and not on their bytes:
// who may guess does not learn how much of a guess was right.
bool SecretsEqual(std::string_view a, std::string_view b);

}  // namespace quorate
