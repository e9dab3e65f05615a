// SPDX-License-Identifier: Apache-2.0

#include "rpc/quorated/log_json.h"

#include <spdlog/details/log_msg.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/escape.h"
#include "base/strings.h"

namespace quorate::rpc {
namespace {

constexpr std::string_view kHexPrefix = "0x";

// A part of an event's text: what it fills in (the name of the field; empty: it has none), or literal text.
struct Part {
  bool is_field = false;
  std::string_view text;
  bool is_hex = false;  // the literal text before the field ends with 0x, which is of its value
};

bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

// Returns the name in "name=", "name=\"" or "name=0x" at the end of `text`; empty: there is none.
std::string_view NameBefore(std::string_view text) {
  if (text.ends_with(kHexPrefix)) text.remove_suffix(kHexPrefix.size());
  if (text.ends_with('"')) text.remove_suffix(1);
  if (!text.ends_with('=')) return {};
  text.remove_suffix(1);
  size_t begin = text.size();
  while (begin > 0 && IsNameCharacter(text[begin - 1])) --begin;
  return text.substr(begin);
}

std::vector<Part> PartsOf(std::string_view text) {
  std::vector<Part> parts;
  while (!text.empty()) {
    const size_t open = text.find('{');
    const size_t close = open == std::string_view::npos ? open : text.find('}', open);
    const std::string_view literal = text.substr(0, close == std::string_view::npos ? close : open);
    if (!literal.empty()) parts.push_back({.is_field = false, .text = literal});
    if (close == std::string_view::npos) break;
    parts.push_back({true, NameBefore(literal), literal.ends_with(kHexPrefix)});
    text.remove_prefix(close + 1);
  }
  return parts;
}

struct EventParts {
  const LogEvent* event;
  std::vector<Part> parts;
  size_t prefix = 0;    // bytes of literal text at the beginning
  size_t literals = 0;  // and of all literal text
};

// Returns all events, those first that are to be tried first.
std::vector<EventParts> AllEvents() {
  std::vector<EventParts> all;
  for (const LogEvent& event : LogEvents()) {
    EventParts one{.event = &event, .parts = PartsOf(event.text)};
    if (!one.parts.empty() && !one.parts[0].is_field) one.prefix = one.parts[0].text.size();
    for (const Part& part : one.parts) {
      if (!part.is_field) one.literals += part.text.size();
    }
    all.push_back(std::move(one));
  }
  std::ranges::stable_sort(all, [](const EventParts& a, const EventParts& b) {
    return a.prefix != b.prefix ? a.prefix > b.prefix : a.literals > b.literals;
  });
  return all;
}

// Returns the fields of a message of the event; nullopt if it is none. A field ends where the literal text
// after it is found first, the last one where the message ends with the rest.
std::optional<MatchedEvent> Match(const EventParts& event, std::string_view message) {
  MatchedEvent matched{.event = event.event, .fields = {}};
  size_t unnamed = 0;
  for (size_t i = 0; i < event.parts.size(); ++i) {
    const Part& part = event.parts[i];
    if (!part.is_field) {
      if (!message.starts_with(part.text)) return std::nullopt;
      message.remove_prefix(part.text.size());
      continue;
    }
    size_t length = message.size();
    if (i + 1 < event.parts.size() && !event.parts[i + 1].is_field) {
      const std::string_view next = event.parts[i + 1].text;
      const bool is_last = i + 2 == event.parts.size();
      if (is_last && !message.ends_with(next)) return std::nullopt;
      length = is_last ? message.size() - next.size() : message.find(next);
    } else if (i + 1 < event.parts.size()) {
      length = 0;  // two fields without text between them: the second one has all of it
    }
    if (length == std::string_view::npos) return std::nullopt;
    std::string name = part.text.empty() ? std::to_string(++unnamed) : std::string(part.text);
    const size_t before = part.is_hex ? kHexPrefix.size() : 0;
    matched.fields.emplace_back(std::move(name),
                                std::string_view(message.data() - before, before + length));
    message.remove_prefix(length);
  }
  if (!message.empty()) return std::nullopt;
  return matched;
}

std::string_view LevelName(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::warn:
      return "warning";
    case spdlog::level::err:
      return "error";
    case spdlog::level::critical:
      return "critical";
    default:
      return "info";
  }
}

std::string TimeText(spdlog::log_clock::time_point time) {
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900,
                         parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                         ms % 1000);
}

std::string_view NameOf(const MatchedEvent& matched, spdlog::level::level_enum level) {
  if (matched.event != nullptr) return matched.event->name;
  return level == spdlog::level::critical ? "start_failed" : "other";
}

// Appends the first `bytes_max` bytes of `text` as a string of JSON, and the length of a longer one.
void AppendCut(std::string_view text, size_t bytes_max, std::string* to) {
  if (text.size() <= bytes_max) return AppendJsonString(text, to);
  AppendJsonString(
      absl::StrCat(ToAbsl(EscapeLine(text.substr(0, bytes_max))), "...(", text.size(), " bytes)"),
      to);
}

}  // namespace

MatchedEvent MatchEvent(std::string_view message) {
  static const std::vector<EventParts> events = AllEvents();
  for (const EventParts& event : events) {
    if (std::optional<MatchedEvent> matched = Match(event, message)) return *std::move(matched);
  }
  return {};
}

void AppendJsonString(std::string_view text, std::string* to) {
  std::string safe;
  if (NeedsEscapeLine(text)) {
    safe = EscapeLine(text);
    text = safe;
  }
  *to += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') *to += '\\';
    *to += c;
  }
  *to += '"';
}

void JsonFormatter::format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& to) {
  const std::string_view text(message.payload.data(), message.payload.size());
  // LogWarnings names the event in this way.
  const char* const given = message.source.funcname;
  const MatchedEvent matched = given != nullptr ? MatchedEvent() : MatchEvent(text);
  std::string line = "{\"time\":\"" + TimeText(message.time) + "\",\"level\":\"";
  line += LevelName(message.level);
  line += "\",\"event\":\"";
  line += given != nullptr ? given : NameOf(matched, message.level);
  line += "\",\"message\":";
  AppendCut(text, kTextBytesMax, &line);
  size_t left = kTextBytesMax;
  const char* before = ",\"fields\":{";
  for (const auto& [name, value] : matched.fields) {
    line += before;
    AppendJsonString(name, &line);
    line += ':';
    AppendCut(value, left, &line);
    left -= std::min(left, value.size());
    before = ",";
  }
  line += matched.fields.empty() ? "}\n" : "}}\n";
  to.append(line.data(), line.data() + line.size());
}

}  // namespace quorate::rpc
