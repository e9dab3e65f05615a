// SPDX-License-Identifier: Apache-2.0

// Makes bytes that came from a client or a server safe for a terminal, so that it shows them and
// does not execute them as control sequences. Everything that the tools print to people goes
// through one of these functions.
//
// Thread-safety: functions of their arguments.
#pragma once

#include <string>
#include <string_view>

namespace quorate::tools {

// Returns whether `bytes` are UTF-8 without control characters other than tab and line feed, so
// that they can be shown as text. Characters that change the direction of writing count as control
// characters; so do the C1 characters, which can begin escape sequences, too.
bool IsText(std::string_view bytes);

// Returns `bytes` as one line: newline, tab and backslash as in C, other control characters and
// bytes that are not UTF-8 as \xHH.
std::string Escape(std::string_view bytes);

// Returns `text`, which may have several lines, with control characters other than tab and line
// feed, and bytes that are not UTF-8, as \xHH. Backslashes stay.
std::string EscapeControls(std::string_view text);

}  // namespace quorate::tools
