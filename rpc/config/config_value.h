// The types of configuration values: how the text of a value is checked, stored in a Config, and
// written again.
//
// Thread-safety: values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/config/config.h"

namespace quorate::rpc {

// The unit of an integer value.
enum class Unit { kNone, kMilliseconds, kTicks, kBytes, kMebibytes, kEntries, kRequests, kThreads };

// Any text that is not empty.
struct Text {
  std::string Config::*field;
};

// A TCP port, 0 to 65535.
struct Port {
  uint16_t Config::*field;  // nullptr: a value is checked and not stored
};

// A whole number. REQUIRES: min and max are within int.
struct Integer {
  int Config::*field;
  int64_t min;
  int64_t max;
  Unit unit = Unit::kNone;
  bool hexadecimal = false;  // 0x... is read too, as Java reads it
};

// A time in milliseconds, 1 to `max`, or -1 for no limit.
struct TimeLimit {
  int Config::*field;
  int64_t max;
};

// true or false.
struct Boolean {
  bool Config::*field;
};

// yes or no, as ZooKeeper compares some values with these words.
struct YesNo {
  bool Config::*field;
};

// A list of words separated by commas.
struct WordList {
  std::vector<std::string> Config::*field;
};

// Every text is accepted, and none is stored.
using Unchecked = std::monostate;

using Value = std::variant<Unchecked, Text, Port, Integer, TimeLimit, Boolean, YesNo, WordList>;

// Returns `text` as a number. InvalidArgument if it is none from `min` to `max`; the message names
// the allowed range, with `what` after "whole number" (" of bytes", or empty).
absl::StatusOr<int64_t> ParseWholeNumber(std::string_view text, int64_t min, int64_t max,
                                         std::string_view what);

// Returns `text` as a TCP port. InvalidArgument as ParseWholeNumber.
absl::StatusOr<uint16_t> ParsePort(std::string_view text);

// Parses `text` and stores it in the field of `config` that `value` names. InvalidArgument, with
// `config` unchanged, if `text` is not allowed; the message says which values are, without file or
// key.
absl::Status SetValue(const Value& value, const std::string& text, Config* config);

// Returns the field of `config` that `value` names, as a configuration file has it; empty if there
// is no field.
std::string ValueText(const Value& value, const Config& config);

// Returns `number` with its unit, for a reader: "64 MiB", "1 h", "2^30 entries", "10,000".
std::string AmountText(int64_t number, Unit unit);

// Returns which values are allowed, for a reader: "1 ms to 1 h"; empty if the type does not say.
std::string RangeText(const Value& value);

}  // namespace quorate::rpc
