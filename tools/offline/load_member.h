// SPDX-License-Identifier: Apache-2.0

// Loads the tree of a stopped member from its disk: its newest checkpoint with all of its log
// applied. Changes nothing.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "consensus/core/types.h"
#include "tools/offline/member_examination.h"
#include "tree/tree.h"

namespace quorate::tools {

struct LoadedMember {
  std::unique_ptr<tree::Tree> tree;
  consensus::MemberId member;
  std::string cluster_id;  // empty: the member never belonged to a cluster with an id
  uint64_t term = 0;       // of the last entry
  // Entries of the log up to `commit.known` are committed; later ones are in the tree, too.
  CommitFacts commit;
  // Whether the member had lost its disk and was recovering.
  bool was_recovering = false;
  uint64_t records = 0;  // of the tree
  // The checksum of the directories' content: it is equal only for equal content.
  std::string checksum;
};

// Loads the member's tree. Errors: NotFound if the directories do not exist; FailedPrecondition if
// a server runs on them, or they contain no data; DataLoss, naming the first damage, if something
// in them is damaged (`quorate verify` names all damage).
absl::StatusOr<LoadedMember> LoadMember(const MemberPaths& paths);

// As LoadMember, for a caller that holds a MemberLock.
absl::StatusOr<LoadedMember> LoadLockedMember(const MemberPaths& paths);

}  // namespace quorate::tools
