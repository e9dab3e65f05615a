// SPDX-License-Identifier: Apache-2.0

// The version of the program.
#pragma once

namespace quorate {

inline constexpr char kProgramVersion[] = "0.1.0";

}  // namespace quorate
