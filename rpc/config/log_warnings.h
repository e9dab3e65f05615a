// SPDX-License-Identifier: Apache-2.0

// Warnings about files of the configuration, whose words are not in the table of the log's events: they
// begin with the file and the line. With log.format=json, their lines have the event that is given here.
//
// Thread-safety: a function of its arguments.
#pragma once

#include <spdlog/spdlog.h>

#include <span>
#include <string>

namespace quorate::rpc {

inline constexpr char kConfigurationWarning[] = "configuration_warning";
inline constexpr char kJaasWarning[] = "jaas_warning";

// Logs each of the warnings. `event` is a literal, the name of their event: formatters find it as the name
// of the function that logs.
inline void LogWarnings(const char* event, std::span<const std::string> warnings) {
  for (const std::string& warning : warnings) {
    spdlog::log(spdlog::source_loc("", 1, event), spdlog::level::warn, "{}", warning);
  }
}

}  // namespace quorate::rpc
