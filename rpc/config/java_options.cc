// SPDX-License-Identifier: Apache-2.0

#include "rpc/config/java_options.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/strings.h"

namespace quorate::rpc {

std::string JavaOptionsOfEnvironment() {
  std::string options;
  for (const char* variable : {"JAVA_OPTS", "SERVER_JVMFLAGS", "JVMFLAGS"}) {
    if (const char* text = std::getenv(variable)) absl::StrAppend(&options, " ", text);
  }
  return options;
}

std::vector<std::pair<std::string, std::string>> JavaProperties(std::string_view options) {
  std::vector<std::pair<std::string, std::string>> properties;
  for (absl::string_view word :
       absl::StrSplit(ToAbsl(options), absl::ByAnyChar(" \t\n"), absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
    absl::string_view name = parts[0];
    if (parts.size() != 2 || !absl::ConsumePrefix(&name, "-D")) continue;
    properties.emplace_back(name, parts[1]);
  }
  return properties;
}

std::optional<std::string> JavaPropertyOfEnvironment(std::string_view name) {
  std::optional<std::string> value;
  for (const auto& [key, text] : JavaProperties(JavaOptionsOfEnvironment())) {
    if (key == name) value = text;
  }
  if (value.has_value()) return value;
  const char* variable = name == "user.home" ? "HOME" : name == "user.name" ? "USER" : nullptr;
  const char* text = variable == nullptr ? nullptr : std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  return std::string(text);
}

}  // namespace quorate::rpc
