// SPDX-License-Identifier: Apache-2.0

// quorate rebuild: moves a stopped member's data aside, so that the member starts as a new one and
// receives the data from the others again.
//
// Thread-safety: a function of its arguments.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>

#include "absl/status/status.h"
#include "tools/offline/member_examination.h"

namespace quorate::tools {

struct RebuildOptions {
  bool remove = false;  // deletes the moved data
  bool json = false;
  int64_t now_ms = 0;  // since the epoch
  // Called after the planned moves are written to `out`. If it returns false, nothing is done.
  std::function<bool()> confirm;
};

// Moves log, hard state, identity, incarnation, checkpoint and marks to aside-<time> beside them;
// myid and configuration stay. The clock may be behind the incarnation: the server then learns from
// the others that it has to use a greater one, and restarts by itself. If the rebuild is
// interrupted at any point, it leaves a directory that a server refuses or that is new, and the
// rebuild can be run again. Errors: FailedPrecondition if a server runs there, or if this is the
// only voter; NotFound if there is no data of a member; Cancelled; those of the disk.
absl::Status Rebuild(const MemberPaths& paths, const RebuildOptions& options, std::ostream& out);

}  // namespace quorate::tools
