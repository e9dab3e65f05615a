// SPDX-License-Identifier: Apache-2.0

// Prints the results of `quorate import` and `quorate export`.
//
// Thread-safety: functions of their arguments.
#pragma once

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_format.h"

namespace quorate::tools::zookeeper {

// Prints one JSON document, or a line for each number and text.
inline void PrintFacts(const nlohmann::ordered_json& facts, bool as_json) {
  if (as_json) {
    std::cout << facts.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    return;
  }
  for (const auto& [key, value] : facts.items()) {
    if (value.is_structured()) continue;
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', ' ');
    std::cout << absl::StreamFormat("%-28s", name)
              << (value.is_string() ? value.get<std::string>() : value.dump()) << '\n';
  }
}

}  // namespace quorate::tools::zookeeper
