// SPDX-License-Identifier: Apache-2.0

#include "rpc/config/config_value.h"

#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/strings.h"

namespace quorate::rpc {
namespace {

constexpr int64_t kPortMax = 65535;
constexpr int64_t kMsPerHour = 3600 * 1000;

std::string_view UnitName(Unit unit) {
  switch (unit) {
    case Unit::kNone:
      return "";
    case Unit::kMilliseconds:
      return "milliseconds";
    case Unit::kTicks:
      return "ticks";
    case Unit::kBytes:
      return "bytes";
    case Unit::kMebibytes:
      return "MiB";
    case Unit::kEntries:
      return "entries";
    case Unit::kRequests:
      return "requests";
    case Unit::kThreads:
      return "threads";
  }
  return "";
}

absl::Status NotAllowed(const std::string& text, absl::string_view allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not allowed; it has to be ", allowed));
}

absl::Status Set(Unchecked, const std::string&, Config*) { return absl::OkStatus(); }

absl::Status Set(const Text& value, const std::string& text, Config* config) {
  if (text.empty() && !value.may_be_empty) return absl::InvalidArgumentError("it has no value");
  config->*value.field = text;
  return absl::OkStatus();
}

absl::Status Set(const Port& value, const std::string& text, Config* config) {
  const absl::StatusOr<uint16_t> port = ParsePort(text);
  if (!port.ok()) return port.status();
  if (value.field != nullptr) config->*value.field = *port;
  return absl::OkStatus();
}

absl::Status Set(const Integer& value, const std::string& text, Config* config) {
  uint64_t hexadecimal = 0;
  const bool is_hexadecimal = value.hexadecimal && absl::StartsWithIgnoreCase(text, "0x") &&
                              absl::SimpleHexAtoi(text, &hexadecimal);
  const std::string_view unit = UnitName(value.unit);
  const absl::StatusOr<int64_t> number =
      ParseWholeNumber(is_hexadecimal ? absl::StrCat(hexadecimal) : text, value.min, value.max,
                       unit.empty() ? "" : " of " + std::string(unit));
  if (!number.ok()) return number.status();
  config->*value.field = static_cast<int>(*number);
  return absl::OkStatus();
}

absl::Status Set(const TimeLimit& value, const std::string& text, Config* config) {
  const absl::StatusOr<int64_t> time = ParseWholeNumber(text, -1, value.max, " of milliseconds");
  if (!time.ok()) return time.status();
  if (*time == 0) {
    return absl::InvalidArgumentError(
        "0 is not allowed; it has to be -1 (no limit) or a time of 1 ms or more");
  }
  config->*value.field = static_cast<int>(*time);
  return absl::OkStatus();
}

absl::Status Set(const Boolean& value, const std::string& text, Config* config) {
  bool is_true = false;
  if (!absl::SimpleAtob(text, &is_true)) return NotAllowed(text, "true or false");
  if (value.field != nullptr) config->*value.field = is_true;
  return absl::OkStatus();
}

absl::Status Set(const YesNo& value, const std::string& text, Config* config) {
  if (text != "yes" && text != "no") return NotAllowed(text, "yes or no");
  config->*value.field = text == "yes";
  return absl::OkStatus();
}

absl::Status Set(const WordList& value, const std::string& text, Config* config) {
  std::vector<std::string>& words = config->*value.field;
  words.clear();
  for (absl::string_view word : absl::StrSplit(text, value.separator, absl::SkipWhitespace())) {
    words.emplace_back(absl::StripAsciiWhitespace(word));
  }
  return absl::OkStatus();
}

std::string TextOf(Unchecked, const Config&) { return ""; }
std::string TextOf(const Text& value, const Config& config) { return config.*value.field; }
std::string TextOf(const Port& value, const Config& config) {
  return value.field == nullptr ? "" : absl::StrCat(config.*value.field);
}
std::string TextOf(const Integer& value, const Config& config) {
  return absl::StrCat(config.*value.field);
}
std::string TextOf(const TimeLimit& value, const Config& config) {
  return absl::StrCat(config.*value.field);
}
std::string TextOf(const Boolean& value, const Config& config) {
  if (value.field == nullptr) return "";
  return config.*value.field ? "true" : "false";
}
std::string TextOf(const YesNo& value, const Config& config) {
  return config.*value.field ? "yes" : "no";
}
std::string TextOf(const WordList& value, const Config& config) {
  return absl::StrJoin(config.*value.field, absl::string_view(&value.separator, 1));
}

// Returns a number as text, and the unit in which it is written. The unit may be empty.
std::pair<std::string, std::string_view> Amount(int64_t number, Unit unit) {
  if (unit == Unit::kMilliseconds) {
    if (number > 0 && number % kMsPerHour == 0) return {absl::StrCat(number / kMsPerHour), "h"};
    return {Amount(number, Unit::kNone).first, "ms"};
  }
  if (unit == Unit::kBytes) {
    for (const auto& [shift, name] : {std::pair{30, "GiB"}, {20, "MiB"}, {10, "KiB"}}) {
      if (number > 0 && number % (int64_t{1} << shift) == 0) {
        return {absl::StrCat(number >> shift), name};
      }
    }
  }
  // Writes large powers of two as powers, which are easier to read.
  if (number == std::numeric_limits<int32_t>::max()) return {"2^31-1", UnitName(unit)};
  for (int exponent = 20; exponent < 63; ++exponent) {
    if (number == int64_t{1} << exponent) return {absl::StrCat("2^", exponent), UnitName(unit)};
  }
  std::string digits = absl::StrCat(number);
  // Numbers of four digits have no separator.
  if (number >= 10'000) {
    for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  }
  return {digits, UnitName(unit)};
}

std::string RangeOf(Unchecked) { return ""; }
std::string RangeOf(const Text&) { return ""; }
std::string RangeOf(const Port&) { return absl::StrCat("0 to ", kPortMax); }
std::string RangeOf(const Integer& value) {
  const auto [min, min_unit] = Amount(value.min, value.unit);
  const bool is_unit_clear = value.min <= 0 || min_unit == Amount(value.max, value.unit).second;
  return absl::StrCat(is_unit_clear ? min : AmountText(value.min, value.unit), " to ",
                      AmountText(value.max, value.unit));
}
std::string RangeOf(const TimeLimit& value) {
  return absl::StrCat("1 ms to ", AmountText(value.max, Unit::kMilliseconds), ", or -1");
}
std::string RangeOf(const Boolean&) { return "true, false"; }
std::string RangeOf(const YesNo&) { return "yes, no"; }
std::string RangeOf(const WordList&) { return ""; }

}  // namespace

absl::StatusOr<int64_t> ParseWholeNumber(std::string_view text, int64_t min, int64_t max,
                                         std::string_view what) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(ToAbsl(text), &number) || number < min || number > max) {
    return NotAllowed(std::string(text),
                      absl::StrCat("a whole number", ToAbsl(what), " from ", min, " to ", max));
  }
  return number;
}

absl::StatusOr<uint16_t> ParsePort(std::string_view text) {
  const absl::StatusOr<int64_t> port = ParseWholeNumber(text, 0, kPortMax, "");
  if (!port.ok()) return port.status();
  return static_cast<uint16_t>(*port);
}

absl::Status SetValue(const Value& value, const std::string& text, Config* config) {
  return std::visit([&](const auto& type) { return Set(type, text, config); }, value);
}

std::string ValueText(const Value& value, const Config& config) {
  return std::visit([&](const auto& type) { return TextOf(type, config); }, value);
}

std::string AmountText(int64_t number, Unit unit) {
  const auto [digits, name] = Amount(number, unit);
  return name.empty() ? digits : absl::StrCat(digits, " ", ToAbsl(name));
}

std::string RangeText(const Value& value) {
  return std::visit([](const auto& type) { return RangeOf(type); }, value);
}

}  // namespace quorate::rpc
