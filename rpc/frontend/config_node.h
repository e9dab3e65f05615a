// SPDX-License-Identifier: Apache-2.0

// The znode /zookeeper/config, which shows the members. Until the members are changed for the first
// time its data is not in the tree: it comes from the configuration, and the front ends insert it
// into their replies.
//
// Thread-safety: functions without state.
#pragma once

#include <string>
#include <string_view>

#include "tree/tree.h"
#include "tree/types.h"

namespace quorate::rpc {

// If `path` is /zookeeper/config, completes the result of a read of it: `members_text`
// (Config::MembersText) becomes its data. `data` and `has_data` may be null.
void CompleteConfigNode(std::string_view members_text, std::string_view path, tree::Stat* stat,
                        std::string_view* data = nullptr, bool* has_data = nullptr);

// Returns the content of /zookeeper/config as a client reads it: the data in the tree or, if there is
// none, `members_text`.
std::string ReadMembersText(const tree::Tree& tree, std::string_view members_text);

}  // namespace quorate::rpc
