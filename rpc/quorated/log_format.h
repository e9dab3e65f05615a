// SPDX-License-Identifier: Apache-2.0

// The form of the log, which has to be known before the configuration is read: reading it logs warnings.
//
// Thread-safety: functions of their arguments.
#pragma once

#include <string_view>

namespace quorate::rpc {

// Returns whether the text of a configuration file has log.format=json. A text that is not valid is refused
// later, by the parser.
bool WantsJsonLog(std::string_view configuration);

}  // namespace quorate::rpc
