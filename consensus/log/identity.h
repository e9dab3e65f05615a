// SPDX-License-Identifier: Apache-2.0

// The file that says to which member and cluster a directory belongs.
//
// Thread-safety: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/core/types.h"
#include "consensus/log/env.h"

namespace quorate::consensus {

inline constexpr uint32_t kDataDirFormatVersion = 2;  // 1 had no directory epoch
// The length of a cluster id, in bytes.
inline constexpr size_t kClusterIdBytes = 16;

struct Identity {
  MemberId member;
  std::string cluster_id;                           // kClusterIdBytes long; empty: not known yet
  uint64_t directory_epoch = kFirstDirectoryEpoch;  // also of a directory of version 1
};

// Reads the identity in `directory`. Errors: those of the disk, with NotFound if there is no file;
// DataLoss if it is damaged; FailedPrecondition if a newer version wrote it.
absl::StatusOr<Identity> ReadIdentityFile(Env* env, const std::string& directory);

// Durably replaces the identity in `directory`. After a crash the file holds the old or the new
// one. On a full disk, an identity of the same size is overwritten in place.
absl::Status WriteIdentityFile(Env* env, const std::string& directory, const Identity& identity);

}  // namespace quorate::consensus
