// SPDX-License-Identifier: Apache-2.0

// Prints bytes from clients so that a terminal shows them and does not execute control sequences.
//
// Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/escape.h"

namespace quorate::tools {

// Returns `bytes` in quotes and escaped if they are text; otherwise "hex:" and the bytes in
// hexadecimal.
std::string TextOrHex(std::string_view bytes);

// Returns a number and a noun: "1 file", "2 files".
std::string Count(uint64_t count, std::string_view word);

std::string Hex(std::string_view bytes);
// Returns the number in hexadecimal: "0x1f".
std::string HexNumber(uint64_t number);

// Returns a time since the epoch as "2026-11-21 19:09:31.123 UTC"; the number itself if its year
// does not have four digits.
std::string TimeText(int64_t time_ms);

// Sets object[name] to the text; object[name + "_hex"] if `bytes` are not text.
void SetText(std::string_view name, std::string_view bytes, nlohmann::ordered_json* object);

}  // namespace quorate::tools
