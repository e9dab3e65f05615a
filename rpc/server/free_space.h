// How much space is free on disks.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace quorate::rpc {

// Returns the bytes that are free for this process on the disk of `path`; nothing if that cannot be
// measured. It hangs as long as the file system does.
std::optional<uint64_t> MeasureFreeBytes(const std::string& path);

}  // namespace quorate::rpc
