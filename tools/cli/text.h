// Formats values for people.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quorate::tools {

// "0x1a".
std::string Hex(uint64_t number);
// In hex, as a cluster's id is printed: "00ff".
std::string HexBytes(std::string_view bytes);
// "512 B", "1.5 MiB".
std::string Bytes(uint64_t bytes);
// "12 s", "3 h 5 min", "12 d 4 h".
std::string Duration(int64_t ms);

// Formats rows in columns as wide as their widest cell, a line each; the first row is the heading.
std::string Table(const std::vector<std::vector<std::string>>& rows);

}  // namespace quorate::tools
