// The version of the program.
#pragma once

namespace quorate {

inline constexpr char kProgramVersion[] = "0.1.0";

}  // namespace quorate
