// SPDX-License-Identifier: Apache-2.0

// The stable names of the messages of the log, as docs/messages.md lists them.
//
// Thread-safety: a constant table.
#pragma once

#include <span>
#include <string_view>

namespace quorate::rpc {

struct LogEvent {
  std::string_view name;
  // The message as the sources have it: what a message fills in is in braces.
  std::string_view text;
};

// docs/check_messages.py compares the table with the sources and with docs/messages.md.
std::span<const LogEvent> LogEvents();

}  // namespace quorate::rpc
