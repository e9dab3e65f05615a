// The file that a member leaves in its data directory when its tree turned out to differ from those
// of a majority: as long as it is there, no server starts on that directory. It is gone once the
// member is rebuilt, which moves everything that it holds away.
//
// Text, one `name value` a line, so that people can read it; the last line is the CRC-32C of all
// before it:
//
//   quorate-divergence 1
//   zxid 0x1f4
//   digest 0x93b1c2a70c1f5e22
//   majority 0x93b1c2a70c1f5e29
//   crc32c 0x1a2b3c4d
//
// Depends on the file interface alone, so that tools can use it.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/log/env.h"

namespace quorate::rpc {

// In the directory of the log: dataLogDir, or dataDir if there is none.
inline constexpr char kDivergenceMarkerName[] = "diverged";

struct Divergence {
  int64_t zxid = 0;
  uint64_t own_digest = 0;       // of this member's tree at `zxid`
  uint64_t majority_digest = 0;  // of a majority's trees there
  friend bool operator==(const Divergence&, const Divergence&) = default;
};

// Durable when it returns. Errors: those of the disk.
absl::Status WriteDivergenceMarker(consensus::Env* env, const std::string& dir,
                                   const Divergence& divergence);

// What the marker of `dir` says; nullopt if there is none. Errors: DataLoss if there is one that
// does not read as it should; of reading.
absl::StatusOr<std::optional<Divergence>> ReadDivergenceMarker(consensus::Env* env,
                                                               const std::string& dir);

// For the administrator of a member whose data is in `dir`: what is wrong, and what to do.
absl::Status DivergenceError(const std::string& dir, const Divergence& divergence);

// OK if `dir` has no marker; else why no server may start on it, and that is durable when it
// returns.
absl::Status CheckNotDiverged(consensus::Env* env, const std::string& dir);

}  // namespace quorate::rpc
