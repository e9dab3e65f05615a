// SPDX-License-Identifier: Apache-2.0

// quorate verify: checks whether the data on a stopped member's disk is undamaged.
//
// Thread-safety: a function of its arguments.
#pragma once

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "tools/offline/member_examination.h"

namespace quorate::tools {

// Writes the facts about the member's data, and its problems, to `out`: for people, or as one JSON
// document. DataLoss if something is wrong; FailedPrecondition if a server runs there, NotFound if
// there is no such directory. Changes nothing in the directories.
absl::Status Verify(const MemberPaths& paths, bool json, std::ostream& out);

// Does the same for a backup file, and reads it to its end: checks its checksums, that its records
// form a complete tree, and that the digest of that tree is right. DataLoss if the file is damaged,
// FailedPrecondition if it is not a backup, NotFound if it does not exist. Needs memory for the
// tree.
absl::Status VerifyBackup(const std::string& path, bool json, std::ostream& out);

}  // namespace quorate::tools
