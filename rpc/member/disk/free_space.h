// SPDX-License-Identifier: Apache-2.0

// Measures the free space on disks.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace quorate::rpc {

// Returns the bytes that are free for this process on the disk of `path`; nullopt if that cannot be
// measured. Blocks while the file system hangs.
std::optional<uint64_t> MeasureFreeBytes(const std::string& path);

}  // namespace quorate::rpc
