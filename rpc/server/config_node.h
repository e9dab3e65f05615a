// /zookeeper/config shows the members. Nobody writes to it: its data is in the configuration, and
// the front ends put it into what they answer.
//
// Thread-safety: functions without state.
#pragma once

#include <string_view>

#include "tree/types.h"

namespace quorate::rpc {

// Completes what was read at `path`, if it is that node: `members_text` (Config::MembersText)
// becomes its data. `data` and `has_data` may be null.
void CompleteConfigNode(std::string_view members_text, std::string_view path, tree::Stat* stat,
                        std::string_view* data = nullptr, bool* has_data = nullptr);

}  // namespace quorate::rpc
