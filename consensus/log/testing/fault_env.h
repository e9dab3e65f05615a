// SPDX-License-Identifier: Apache-2.0

// An Env in memory, whose disk loses writes, tears them and fails as a real one may: for tests and
// for the simulator. Deterministic: the same calls with the same seeds give the same disk, to the
// byte.
//
// The model. A write goes to the cache at once, where all reads see it, and waits there in order:
//  - WriteAt, Preallocate and Truncate of a file wait until Sync of that file,
//  - creations, renames and removals wait until SyncDirectory of the directory they are in
//    (directories themselves are durable at once, as Env::CreateDirectories promises).
// Crash() is a power failure: waiting changes may or may not have reached the disk. Each write is
// split into sectors of kSectorBytes, and each sector was written whole or not at all,
// independently of its neighbours and of earlier and later writes; changes of length and of
// directories likewise, one by one. The seed decides; some seeds keep everything, nothing, or
// everything up to a point, because these are the likely cases. A file whose directory entry is
// lost is gone with all its synced bytes, and one whose removal is lost is back.
//
// After Crash() or Kill() every File and DirectoryLock from before is dead: each call on it fails.
//
// How a test crashes at each point of a workload:
//
//   for (uint64_t n = 0;; ++n) {
//     FaultEnv env;
//     env.PowerOffAfter(n);
//     RunWorkload(&env);            // sees errors from operation n + 1 on
//     bool done = !env.powered_off();
//     env.Crash(seed);              // decides what is left, and switches on again
//     CheckWhatIsLeft(&env);
//     if (done) break;
//   }
//
// Operations, as they are counted here, are the calls that change something: CreateDirectories and
// OpenFile if they create, WriteAt, Preallocate, Truncate, Sync, Rename, Remove, SyncDirectory.
//
// Thread-safety: all of it may be used from any thread; the order of calls decides the result.
// Files and locks must not outlive the FaultEnv.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/log/env.h"

namespace quorate::consensus {

class FaultEnv : public Env {
 public:
  FaultEnv();
  ~FaultEnv() override;

  // --- Faults ----------------------------------------------------------------------------------

  // Simulates a power failure: decides by `seed` which unsynced changes are on the disk, forgets
  // the others, and switches the power on again. Requested faults that did not happen are
  // forgotten, too; the capacity stays.
  void Crash(uint64_t seed);
  // Simulates the death of the process while the machine goes on: nothing is lost, but files and
  // locks are closed. If PowerOffAfter has interrupted an operation, Kill turns that into the death
  // of the process alone: the part that the operation did is in the cache.
  void Kill();

  // Makes the power fail during the operation that follows the next `operations` ones. That
  // operation fails after its effect on the cache, if it has one; a Sync does not make its data
  // durable. Every later call, reads included, fails without any effect, until Crash().
  void PowerOffAfter(uint64_t operations);
  bool powered_off() const;

  // Makes the operation that follows the next `operations` ones fail once with `error`, without any
  // effect.
  void FailAfter(uint64_t operations, absl::Status error);
  // The same, but counts only syncs of files. The data that the failing Sync should have written is
  // lost, as on Linux: reads still see it, but no later Sync writes it, and Crash() forgets it.
  void FailSyncAfter(uint64_t syncs, absl::Status error);
  // Makes the next `count` reads fail with `error`.
  void FailReads(uint64_t count, absl::Status error);

  // Makes each sync of a file whose path contains `part` report success without making the data
  // durable. Ends with Crash(), which may lose all such data, or with EndLies().
  void LieAboutSyncs(std::string part);
  // Makes all changes durable that a sync has reported as durable.
  void EndLies();

  // Returns whether a requested failure of an operation, a sync or a read has not happened yet.
  bool will_fail() const;

  // Forgets the requested faults that have not happened.
  void CancelFaults();

  // Limits the sum of the files' lengths. A write beyond it writes the part that still fits, and
  // fails with ResourceExhausted.
  void SetCapacity(uint64_t bytes);

  // Flips one bit of a file, in the cache and on the disk (not in writes that still wait).
  // REQUIRES: the file exists and is long enough.
  void FlipBit(const std::string& path, uint64_t bit);

  // Returns a copy of the disk with only those changes that are durable now. This disk does not
  // change.
  std::unique_ptr<FaultEnv> CloneDurable() const;

  // Return the paths of all files that are not empty, and the sum of their lengths.
  std::vector<std::string> Files() const;
  uint64_t used_bytes() const;

  // --- Counters --------------------------------------------------------------------------------
  uint64_t operations() const;
  uint64_t syncs() const;   // of files
  uint64_t writes() const;  // calls of WriteAt

  // --- Env -------------------------------------------------------------------------------------
  absl::StatusOr<std::unique_ptr<File>> OpenFile(const std::string& path, bool create) override;
  absl::Status CreateDirectories(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  bool Exists(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<DirectoryLock>> LockDirectory(const std::string& path) override;

 private:
  class Disk;
  const std::unique_ptr<Disk> disk_;
};

}  // namespace quorate::consensus
