// SPDX-License-Identifier: Apache-2.0

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

  // Returns FailedPrecondition, naming the path and the file, if `path` holds a file other than
  // those that an operator may have put there (MayStandInNewDirectory). `path` need not exist.
  static absl::Status CheckNew(Env* env, const std::string& path);
  // As CheckNew, but a directory that is marked as incomplete may also hold the files that this
  // class makes, and the `leftovers`: files of the caller from the attempt that was interrupted.
  static absl::Status CheckNewOrIncomplete(Env* env, const std::string& path, Names leftovers);

  // Mark durably marks the existing directory `path` as incomplete, and Unmark durably removes the
  // mark.
  static absl::Status Mark(Env* env, const std::string& path);
  static absl::Status Unmark(Env* env, const std::string& path);
  static bool IsMarked(Env* env, const std::string& path);

  // Marks and locks the directory `path`, and creates it if it does not exist. Removes all files of
  // an attempt that was interrupted, except `leftovers`, which the caller handles. Errors: as
  // CheckNewOrIncomplete; FailedPrecondition if a server or another NewDataDir holds the lock;
  // those of the disk.
  static absl::StatusOr<std::unique_ptr<NewDataDir>> Create(Env* env, std::string path,
                                                            Names leftovers = {});

  // Durably completes the directory for a member that votes and counts in a majority, and whose log
  // begins after the entry `index` of `term`. After an error, DataDir::Open refuses the directory,
  // unless only the sync after the removal of the mark failed. REQUIRES: the state machine's
  // checkpoint of that entry is durable; index and term are not 0, the cluster id is set; called
  // once.
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
