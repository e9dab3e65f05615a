// SPDX-License-Identifier: Apache-2.0

// The lines of the log as JSON (log.format=json): each line is one object with the fields
//   time     UTC, in the form of RFC 3339, with milliseconds
//   level    info, warning, error or critical
//   event    the name of the message in docs/messages.md; the name that LogWarnings (rpc/config) gives;
//            "start_failed" for other critical lines, and "other" for the rest
//   message  the text, as it is with log.format=text
//   fields   what the message fills in, as text: by the name before it (key=value), or by its place among
//            the others: "1", "2", ... Hexadecimal numbers begin with 0x. Absent if there is nothing
//
// Thread-safety: functions of their arguments; a formatter is used by one thread at a time.
#pragma once

#include <spdlog/formatter.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rpc/quorated/log_events.h"

namespace quorate::rpc {

// A message that was recognized.
struct MatchedEvent {
  const LogEvent* event = nullptr;  // nullptr: of no event
  std::vector<std::pair<std::string, std::string_view>> fields;
};
// Finds the event of a message. Of several that fit, it is the one whose text has the longest beginning, so
// that what clients make a message fill in cannot give it another name.
MatchedEvent MatchEvent(std::string_view message);

// Appends `text` to `*to` as a string of JSON. Bytes that are not UTF-8 and control characters are escaped
// as Escape (base/escape.h) does it.
void AppendJsonString(std::string_view text, std::string* to);

// Takes whole messages (LogOutput::SetLineFormatter): the end of a long one may tell its event.
class JsonFormatter final : public spdlog::formatter {
 public:
  // The bytes of the message that are logged, and those of its fields.
  static constexpr size_t kTextBytesMax = 16u << 10;

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& to) override;
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

}  // namespace quorate::rpc
