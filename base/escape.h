// SPDX-License-Identifier: Apache-2.0

// Makes bytes that came from a client or another server safe to show: they can neither begin a line
// of their own in a log or a table, nor act on a terminal. All text of others that is put into a
// log, a four-letter word's reply, a table or a terminal goes through one of these functions.
//
// Thread-safety: functions of their arguments.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quorate {

// Returns whether `bytes` are UTF-8 without control characters other than tab and line feed, so
// that they can be shown as text. Characters that change the direction of writing count as control
// characters; so do the C1 characters, which can begin escape sequences, too.
bool IsText(std::string_view bytes);

// Returns `bytes` as one line: newline, tab and backslash as in C, other control characters and
// bytes that are not UTF-8 as \xHH. Different bytes give different lines.
std::string Escape(std::string_view bytes);

// Appends Escape(bytes) to `*out`. Of more than `bytes_max` bytes, appends only the first ones (or
// up to three fewer, so that no character is cut), and then "...(N bytes)".
void AppendEscaped(std::string_view bytes, size_t bytes_max, std::string* out);

// Returns `bytes` as one line, as Escape does, but backslashes stay as they are: for text that
// programs compare or that was escaped in part already.
std::string EscapeLine(std::string_view bytes);

// Returns `text`, which may have several lines, with control characters other than tab and line
// feed, and bytes that are not UTF-8, as \xHH. Backslashes stay.
std::string EscapeControls(std::string_view text);

// Returns whether EscapeLine(bytes) differs from `bytes`. Does not allocate.
bool NeedsEscapeLine(std::string_view bytes);

}  // namespace quorate
