// Prints bytes from clients so that a terminal shows them and does not execute control sequences.
//
// Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tools/cli/escape.h"

namespace quorate::tools {

// In quotes, escaped, if `bytes` are text; otherwise "hex:" and the bytes in hex.
std::string TextOrHex(std::string_view bytes);

// "1 file", "2 files".
std::string Count(uint64_t count, std::string_view word);

std::string Hex(std::string_view bytes);
// "0x1f".
std::string HexNumber(uint64_t number);

// A time since the epoch as "2026-11-21 19:09:31.123 UTC"; the number itself if its year does not
// have four digits.
std::string TimeText(int64_t time_ms);

// Sets object[name] to the text; object[name + "_hex"] if `bytes` are not text.
void SetText(std::string_view name, std::string_view bytes, nlohmann::ordered_json* object);

}  // namespace quorate::tools
