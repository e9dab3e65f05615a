// SPDX-License-Identifier: Apache-2.0

// Writes JSON as ZooKeeper's AdminServer does. Its clients search the text (`grep '"error" : null'`),
// so that the spaces matter.
//
// Thread-safety: functions without state.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace quorate::rpc::admin {

// Keeps the order in which keys were added.
using Json = nlohmann::ordered_json;

// Returns `value` with a line for each member of an object, indented by two spaces for each object
// around it, `"key" : value`, and arrays in one line, `[ 1, 2 ]`, except for objects in them. Bytes
// that are not UTF-8 become U+FFFD. No newline follows.
std::string JsonText(const Json& value);

}  // namespace quorate::rpc::admin
