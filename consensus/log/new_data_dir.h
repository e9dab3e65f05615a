// Makes the directory of a member whose log does not begin with entry 1, but behind a checkpoint
// that the state machine gets in another way: the member of a cluster that is restored or imported.
//
// From Create on until Finish the file "unfinished" stands in the directory, and DataDir::Open
// refuses it: whatever the crash, a directory is refused or whole. Create takes one that it stands
// in and starts again.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/core/types.h"
#include "consensus/log/env.h"
#include "consensus/log/identity.h"

namespace quorate::consensus {

class NewDataDir {
 public:
  using Names = std::span<const std::string_view>;

  // FailedPrecondition, naming path and name, if there is anything in `path` but what an operator
  // may have put there (MayStandInNewDirectory). It need not exist.
  static absl::Status CheckNew(Env* env, const std::string& path);
  // The same, but in a directory that is marked as incomplete there may also be what this class
  // makes and what has one of these names: the caller's, of the attempt that was interrupted.
  static absl::Status CheckNewOrIncomplete(Env* env, const std::string& path, Names leftovers);

  // Marks `path`, which is there, as incomplete, and takes the mark away: durable when they return.
  static absl::Status Mark(Env* env, const std::string& path);
  static absl::Status Unmark(Env* env, const std::string& path);
  static bool IsMarked(Env* env, const std::string& path);

  // Marks and locks `path`; it is made if it is not there. Of an attempt that was interrupted,
  // everything is removed but `leftovers`, which are left to the caller. Errors: as
  // CheckNewOrIncomplete; FailedPrecondition if a server or another maker holds it; those of the
  // disk.
  static absl::StatusOr<std::unique_ptr<NewDataDir>> Create(Env* env, std::string path,
                                                            Names leftovers = {});

  // Makes it the directory of a member that votes and counts in a majority: its log begins behind
  // the entry `index` of `term`. Durable when it returns. After an error the directory is refused.
  // REQUIRES: the state machine's checkpoint of that entry is durable; index and term are not 0,
  // the cluster id is set; called once.
  absl::Status Finish(const Identity& identity, Index index, Term term);

 private:
  NewDataDir(Env* env, std::string path, std::unique_ptr<DirectoryLock> lock);
  std::string PathOf(std::string_view name) const;
  // Removes what Finish makes.
  absl::Status Clear();

  Env& env_;
  const std::string path_;
  const std::unique_ptr<DirectoryLock> lock_;
};

}  // namespace quorate::consensus
