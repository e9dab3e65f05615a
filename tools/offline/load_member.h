// Reads the tree that a stopped member has on its disk: its newest checkpoint with all of its log
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
  std::string cluster_id;  // empty: the member never belonged to one that has an id
  uint64_t term = 0;       // of the last entry
  // Entries of the log up to `commit.known` are committed; those behind it are in the tree, too.
  CommitFacts commit;
  // The member had lost its disk before and was being filled again.
  bool was_recovering = false;
  uint64_t records = 0;  // of the tree
  // The same for the same content of the directories, and for no other.
  std::string checksum;
};

// Errors: NotFound if the directories are not there; FailedPrecondition if a server runs on them,
// or if there is no data in them; DataLoss, naming the first thing, if something in them is damaged
// (`quorate verify` names all).
absl::StatusOr<LoadedMember> LoadMember(const MemberPaths& paths);

}  // namespace quorate::tools
