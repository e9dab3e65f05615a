// SPDX-License-Identifier: Apache-2.0

// Puts the new files of `quorate recover` in the place of the old ones (recover.h).
//
// Thread-safety: functions of their arguments. All require that a MemberLock for changes is held.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/log/env.h"
#include "tools/offline/member_examination.h"

namespace quorate::tools {

// Returns the directories in which the new files are made.
MemberPaths NewFilesOf(const MemberPaths& paths);

// Returns whether a recovery was interrupted after its new files were complete and before they were
// all in their place. A server refuses such a directory.
bool IsHalfRecovered(const MemberPaths& paths);

// Removes new files that are not needed, if there are any. REQUIRES: not IsHalfRecovered.
absl::Status RemoveNewFiles(const MemberPaths& paths);

// Puts the new files in their place, and the old ones into a directory beside them, whose path is
// returned. All of them get the owners of the directories that they are in, so that root can recover
// the data of a server that runs as another user. Everything is durable when this returns; after an error or a crash it can be called
// again. REQUIRES: the new files are complete and durable.
absl::StatusOr<std::string> PutNewFilesInPlace(consensus::Env* env, const MemberPaths& paths,
                                               int64_t now_ms);

}  // namespace quorate::tools
