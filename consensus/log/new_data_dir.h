// Makes the directory of a member whose log does not begin with entry 1, but after a checkpoint
// that the state machine gets in another way: a member of a cluster that is restored or imported.
//
// From Create until Finish the directory holds the file "unfinished", and DataDir::Open refuses it:
// after any crash a directory is either refused or whole. Create accepts a directory with that
// file, and starts again.
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

  // FailedPrecondition, naming path and name, if `path` holds anything but what an operator may
  // have put there (MayStandInNewDirectory). `path` need not exist.
  static absl::Status CheckNew(Env* env, const std::string& path);
  // The same, but a directory that is marked as incomplete may also hold the files that this class
  // makes, and the `leftovers`: files of the caller from the attempt that was interrupted.
  static absl::Status CheckNewOrIncomplete(Env* env, const std::string& path, Names leftovers);

  // Mark the existing directory `path` as incomplete, and remove the mark: durable when they
  // return.
  static absl::Status Mark(Env* env, const std::string& path);
  static absl::Status Unmark(Env* env, const std::string& path);
  static bool IsMarked(Env* env, const std::string& path);

  // Marks and locks `path`, which is made if it does not exist. Removes all files of an attempt
  // that was interrupted, except `leftovers`, which the caller handles. Errors: as
  // CheckNewOrIncomplete; FailedPrecondition if a server or another maker holds it; those of the
  // disk.
  static absl::StatusOr<std::unique_ptr<NewDataDir>> Create(Env* env, std::string path,
                                                            Names leftovers = {});

  // Completes the directory for a member that votes and counts in a majority, and whose log begins
  // after the entry `index` of `term`. Durable when it returns. After an error the directory is
  // refused. REQUIRES: the state machine's checkpoint of that entry is durable; index and term are
  // not 0, the cluster id is set; called once.
  absl::Status Finish(const Identity& identity, Index index, Term term);

 private:
  NewDataDir(Env* env, std::string path, std::unique_ptr<DirectoryLock> lock);
  std::string PathOf(std::string_view name) const;
  // Removes the files that Finish makes.
  absl::Status Clear();

  Env& env_;
  const std::string path_;
  const std::unique_ptr<DirectoryLock> lock_;
};

}  // namespace quorate::consensus
