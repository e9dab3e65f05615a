// SPDX-License-Identifier: Apache-2.0

// The lines of a file of Java's Properties, such as a configuration file.
//
// Thread-safety: functions without state.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace quorate::rpc {

// Removes the next line, as Java's Properties define it, from `*text`, together with its
// continuation lines. Returns it without surrounding space, and adds the number of removed lines to
// `*count`. The line is empty if it is a comment.
std::string NextPropertyLine(absl::string_view* text, int* count);

// Returns the offset of the end of the key in `line`; npos if no separator ("=", ":" or space) follows
// the key.
size_t PropertyKeyEnd(absl::string_view line);

// Appends `text` to `*to` with its backslash escapes resolved: except for a few letters, a
// character after a backslash stands for itself. Returns false if there is an escape that is not
// supported.
bool UnescapeProperty(absl::string_view text, std::string* to);

}  // namespace quorate::rpc
