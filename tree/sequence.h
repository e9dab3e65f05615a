// SPDX-License-Identifier: Apache-2.0

// The sequence number at the end of a sequential node's path.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <string>

namespace quorate::tree {

// Appends `sequence` as Java's "%010d" prints it: ten characters including a sign, or eleven for a
// negative number of ten digits. The counter of a parent is a signed 32-bit number that wraps from
// 2147483647 to -2147483648.
void AppendSequence(int32_t sequence, std::string* path);

}  // namespace quorate::tree
