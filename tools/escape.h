// Makes bytes that came from a client or a server safe for a terminal, which then shows them and
// does not obey them. Everything that the tools print to people goes through one of these
// functions.
//
// Thread-safety: functions of their arguments.
#pragma once

#include <string>
#include <string_view>

namespace quorate::tools {

// Whether it is UTF-8 without control characters but tab and line feed, and so can be shown as
// text. Characters that change the direction of writing count as control characters, and so do
// those of the range C1, with which escape sequences begin, too.
bool IsText(std::string_view bytes);

// One line of it: newline, tab and backslash as in C, other control characters and what is not
// UTF-8 as \xHH.
std::string Escape(std::string_view bytes);

// For texts of several lines: control characters but tab and line feed, and what is not UTF-8, as
// \xHH. Backslashes stay.
std::string EscapeControls(std::string_view text);

}  // namespace quorate::tools
