// quorate verify: says whether what a stopped member has on its disk is whole.
//
// Thread-safety: a function of its arguments.
#pragma once

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "tools/offline/member_examination.h"

namespace quorate::tools {

// Writes what there is and what is wrong with it to `out`: for people, or one JSON document.
// DataLoss if something is wrong; FailedPrecondition if a server runs there, NotFound if there is
// no such directory. Not one byte in the directories is changed.
absl::Status Verify(const MemberPaths& paths, bool json, std::ostream& out);

// The same of a backup file, which is read to its end: its checksums, that its records make a whole
// tree, and that the digest of that tree is right. DataLoss if the file is damaged,
// FailedPrecondition if it is no backup, NotFound if it is not there. Takes the memory of the tree.
absl::Status VerifyBackup(const std::string& path, bool json, std::ostream& out);

}  // namespace quorate::tools
