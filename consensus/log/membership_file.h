// SPDX-License-Identifier: Apache-2.0

// The file that keeps the membership with which a member was started.
//
// Thread-safety: functions without state.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/core/types.h"
#include "consensus/log/env.h"

namespace quorate::consensus {

// Reads the membership kept in `directory`, without addresses. Errors: those of the disk, with
// NotFound if there is no file; DataLoss if it is damaged; FailedPrecondition if a newer version
// wrote it.
absl::StatusOr<Membership> ReadMembershipFile(Env* env, const std::string& directory);

// Durably writes the voters and learners of `membership` to `directory`. After a crash the file
// holds the old or the new membership. REQUIRES: the membership is valid and not joint.
absl::Status WriteMembershipFile(Env* env, const std::string& directory,
                                 const Membership& membership);

}  // namespace quorate::consensus
