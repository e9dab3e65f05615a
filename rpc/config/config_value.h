// SPDX-License-Identifier: Apache-2.0

// The types of configuration values. They determine how the text of a value is checked, stored in a
// Config, and written again.
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

// Any text that is not empty, unless it may be.
struct Text {
  std::string Config::*field;
  bool may_be_empty = false;
};

// A TCP port, 0 to 65535.
struct Port {
  uint16_t Config::*field;  // nullptr: the value is checked, but not stored
};

// A whole number. REQUIRES: min and max are within the range of int.
struct Integer {
  int Config::*field;
  int64_t min;
  int64_t max;
  Unit unit = Unit::kNone;
  bool hexadecimal = false;  // 0x... is accepted too, as in Java
};

// A time in milliseconds, 1 to `max`, or -1 for no limit.
struct TimeLimit {
  int Config::*field;
  int64_t max;
};

// A value "true" or "false".
struct Boolean {
  bool Config::*field;  // nullptr: the value is checked, but not stored
};

// A value "yes" or "no", for keys whose value ZooKeeper compares with these words.
struct YesNo {
  bool Config::*field;
};

// A list of words, separated by commas unless these may be part of a word.
struct WordList {
  std::vector<std::string> Config::*field;
  char separator = ',';
};

// A value that is not checked and not stored.
using Unchecked = std::monostate;

using Value = std::variant<Unchecked, Text, Port, Integer, TimeLimit, Boolean, YesNo, WordList>;

// Returns `text` as a number. Returns InvalidArgument if it is not a number from `min` to `max`.
// The message names the allowed range, with `what` after "whole number" (" of bytes", or empty).
absl::StatusOr<int64_t> ParseWholeNumber(std::string_view text, int64_t min, int64_t max,
                                         std::string_view what);

// Returns `text` as a TCP port. Returns InvalidArgument as ParseWholeNumber does.
absl::StatusOr<uint16_t> ParsePort(std::string_view text);

// Parses `text` and stores it in the field of `config` that `value` names. If `text` is not
// allowed, returns InvalidArgument and leaves `config` unchanged. The message has the allowed
// values, without file or key.
absl::Status SetValue(const Value& value, const std::string& text, Config* config);

// Returns the field of `config` that `value` names, in the form of a configuration file; empty if
// there is no field.
std::string ValueText(const Value& value, const Config& config);

// Returns `number` with its unit for a reader: "64 MiB", "1 h", "2^30 entries", "10,000".
std::string AmountText(int64_t number, Unit unit);

// Returns the allowed values for a reader: "1 ms to 1 h"; empty if the type does not determine
// them.
std::string RangeText(const Value& value);

}  // namespace quorate::rpc
