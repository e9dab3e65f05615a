// SPDX-License-Identifier: Apache-2.0

#include "rpc/quorated/log_format.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/strings.h"
#include "rpc/config/config_keys.h"
#include "rpc/config/property_lines.h"

namespace quorate::rpc {

bool WantsJsonLog(std::string_view configuration) {
  absl::string_view rest = ToAbsl(configuration);
  bool is_json = false;
  for (int lines = 0; !rest.empty();) {
    const std::string line = NextPropertyLine(&rest, &lines);
    const size_t end = PropertyKeyEnd(line);
    if (end == absl::string_view::npos) continue;
    absl::string_view text = absl::StripLeadingAsciiWhitespace(absl::string_view(line).substr(end));
    if (absl::StartsWith(text, "=") || absl::StartsWith(text, ":")) text.remove_prefix(1);
    std::string key;
    std::string value;
    if (!UnescapeProperty(absl::string_view(line).substr(0, end), &key) || key != kLogFormatKey) {
      continue;
    }
    // Of a key that is there twice, the last one counts, as in the parser.
    is_json = UnescapeProperty(absl::StripAsciiWhitespace(text), &value) && value == "json";
  }
  return is_json;
}

}  // namespace quorate::rpc
