// SPDX-License-Identifier: Apache-2.0

#include "rpc/config/property_lines.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace quorate::rpc {
namespace {

// Returns the character for which a backslash followed by `c` stands.
char Unescaped(char c) {
  switch (c) {
    case 't':
      return '\t';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 'f':
      return '\f';
    default:
      return c;
  }
}

}  // namespace

std::string NextPropertyLine(absl::string_view* text, int* count) {
  std::string whole;
  for (bool goes_on = true; goes_on && !text->empty(); ++*count) {
    const size_t end = std::min(text->find('\n'), text->size());
    absl::string_view line = text->substr(0, end);
    text->remove_prefix(std::min(end + 1, text->size()));
    line = absl::StripLeadingAsciiWhitespace(line);
    absl::ConsumeSuffix(&line, "\r");
    const bool is_comment = whole.empty() && !line.empty() && (line[0] == '#' || line[0] == '!');
    const size_t backslashes = line.size() - (line.find_last_not_of('\\') + 1);
    goes_on = !is_comment && backslashes % 2 == 1;
    if (goes_on) line.remove_suffix(1);
    if (!is_comment) absl::StrAppend(&whole, line);
  }
  return whole;
}

bool UnescapeProperty(absl::string_view text, std::string* to) {
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escaped = text[i] == '\\' && i + 1 < text.size();
    if (is_escaped) ++i;
    if (is_escaped && text[i] == 'u') return false;
    *to += is_escaped ? Unescaped(text[i]) : text[i];
  }
  return true;
}

size_t PropertyKeyEnd(absl::string_view line) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') {
      ++i;
    } else if (absl::StrContains("=: \t\f", line[i])) {
      return i;
    }
  }
  return absl::string_view::npos;
}

}  // namespace quorate::rpc
