// quorate verify: checks whether the data on a stopped member's disk are undamaged.
//
// Thread-safety: a function of its arguments.
#pragma once

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "tools/offline/member_examination.h"

namespace quorate::tools {

// Writes what was found, and what is wrong with it, to `out`: for people, or as one JSON document.
// DataLoss if something is wrong; FailedPrecondition if a server runs there, NotFound if there is
// no such directory. Changes nothing in the directories.
absl::Status Verify(const MemberPaths& paths, bool json, std::ostream& out);

// The same for a backup file, which is read to its end: checks its checksums, that its records form
// a complete tree, and that the digest of that tree is right. DataLoss if the file is damaged,
// FailedPrecondition if it is not a backup, NotFound if it does not exist. Needs memory for the
// tree.
absl::Status VerifyBackup(const std::string& path, bool json, std::ostream& out);

}  // namespace quorate::tools
