// SPDX-License-Identifier: Apache-2.0

// What `quorate restore` and `quorate recover` share: writing a tree as the data of a new member, and
// saying what a source may lack.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "tools/offline/load_member.h"
#include "tools/offline/member_directory.h"
#include "tree/tree.h"

namespace quorate::tools {

// Returns a text about what a member's directory may lack, and about its last entries. `last_zxid`
// is the last one in the directory.
std::string LossText(const LoadedMember& from, uint64_t last_zxid);

// Makes the member's directories with the records of `tree`, and shows the progress on a terminal.
// `records_total` is the expected number of records. Errors: those of MemberDirectoryWriter.
absl::Status WriteMember(const NewMember& member, const tree::Tree& tree, uint64_t term,
                         uint64_t records_total);

}  // namespace quorate::tools
