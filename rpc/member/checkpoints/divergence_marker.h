// SPDX-License-Identifier: Apache-2.0

// The marker file that a member writes into its data directory when its tree differs from those of
// a majority: no server starts on a directory with this file. `quorate rebuild` moves it away with
// everything else in the directory.
//
// Text that people can read, one `name value` per line; the last line is the CRC-32C of all lines
// before it:
//
//   quorate-divergence 1
//   zxid 0x1f4
//   digest 0x93b1c2a70c1f5e22
//   majority 0x93b1c2a70c1f5e29
//   crc32c 0x1a2b3c4d
//
// This code depends on consensus::Env alone, so that tools can use it.
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

// The name of the file. It is in the directory of the log: dataLogDir, or dataDir if that is not
// configured.
inline constexpr char kDivergenceMarkerName[] = "diverged";

struct Divergence {
  int64_t zxid = 0;
  uint64_t own_digest = 0;       // the digest of this member's tree at `zxid`
  uint64_t majority_digest = 0;  // the digest of a majority's trees at `zxid`
  friend bool operator==(const Divergence&, const Divergence&) = default;
};

// Writes the marker into `dir`; it is durable when the function returns. Errors: those of the disk.
absl::Status WriteDivergenceMarker(consensus::Env* env, const std::string& dir,
                                   const Divergence& divergence);

// Returns the contents of the marker in `dir`; nullopt if there is none. Errors: DataLoss if the
// marker is damaged; errors of reading it.
absl::StatusOr<std::optional<Divergence>> ReadDivergenceMarker(consensus::Env* env,
                                                               const std::string& dir);

// Returns an error for the administrator: it says why the member whose data is in `dir` must not
// serve, and what to do.
absl::Status DivergenceError(const std::string& dir, const Divergence& divergence);

// Returns OK if `dir` has no marker. Otherwise makes the marker durable and returns
// DivergenceError.
absl::Status CheckNotDiverged(consensus::Env* env, const std::string& dir);

}  // namespace quorate::rpc
