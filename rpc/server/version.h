// The version of the program.
#pragma once

namespace quorate::rpc {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace quorate::rpc
