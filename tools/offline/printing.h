// Bytes from clients, printed so that a terminal shows them and does not obey them.
//
// Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tools/escape.h"

namespace quorate::tools {

// In quotes, escaped, if it is text; else "hex:" and its bytes in hex.
std::string TextOrHex(std::string_view bytes);

// "1 file", "2 files".
std::string Count(uint64_t count, std::string_view word);

std::string Hex(std::string_view bytes);
// "0x1f".
std::string HexNumber(uint64_t number);

// "2026-11-21 19:09:31.123 UTC" of a time since the epoch; the number itself if there is no such
// day in four digits of a year.
std::string TimeText(int64_t time_ms);

// Sets object[name] to the text; or object[name + "_hex"], if it is none.
void SetText(std::string_view name, std::string_view bytes, nlohmann::ordered_json* object);

}  // namespace quorate::tools
