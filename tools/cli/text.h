// SPDX-License-Identifier: Apache-2.0

// Formats values for people.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quorate::tools {

// Returns the number in hexadecimal: "0x1a".
std::string Hex(uint64_t number);
// Returns the bytes in hexadecimal, as a cluster id is printed: "00ff".
std::string HexBytes(std::string_view bytes);
// Returns a size in a suitable unit: "512 B", "1.5 MiB".
std::string Bytes(uint64_t bytes);
// Returns a duration with one or two units: "12 s", "3 h 5 min", "12 d 4 h".
std::string Duration(int64_t ms);

// Formats each row as a line, with columns as wide as their widest cell. The first row is the
// heading. Control characters in cells are escaped.
std::string Table(const std::vector<std::vector<std::string>>& cells);

}  // namespace quorate::tools
