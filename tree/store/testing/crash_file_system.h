// SPDX-License-Identifier: Apache-2.0

// A file system that simulates a power failure after a number of operations: the process exits, and
// before that, all or some of the changes that were not synced are undone. A file loses bytes
// behind its synced part. A directory loses the creations, renames, links and removals since its
// last sync, the newest first. One directory may lose changes while another keeps its own. The file
// system can also simulate that only the process dies, and that another process continues without
// loss: see KillAtDirectorySync.
//
// Thread-safety: may be used from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tree/store/testing/fault_file_system.h"

namespace quorate::tree {

inline constexpr int kCrashExitCode = 42;

class CrashFileSystem : public FaultFileSystem {
 public:
  // Crashes instead of performing operation number `crash_at`, counted from 1. `graveyard` is an
  // empty directory on the same disk, for removed files that the crash may have to restore. If
  // `keeps_all`, nothing is lost, as if only the process had died.
  CrashFileSystem(uint64_t crash_at, uint64_t seed, bool keeps_all, std::string graveyard);

  // Makes every operation that changes a file fail from directory sync `number` on, counted from 1,
  // as if the process had died right before that sync.
  void KillAtDirectorySync(uint64_t number) { kill_at_ = number; }
  // Simulates the start of the next process, which finds all unsynced changes. The power fails
  // after `operations` more operations.
  void GoOn(uint64_t operations);
  bool killed() const { return killed_; }

  const char* Name() const override { return "CrashFileSystem"; }

 protected:
  IOStatus Before(const Call& call, size_t* bytes_done) override;
  void After(const Call& call) override;

 private:
  struct Change {
    std::string directory;
    std::function<void()> undo;
  };

  // Counts an operation. Does not return if the power fails at this one.
  void Count();
  [[noreturn]] void Crash();
  void Changed(const std::string& path, std::function<void()> undo);
  // Links a file that is about to lose its name into the graveyard. Returns its name there, or ""
  // on failure.
  std::string Bury(const std::string& path);

  uint64_t crash_at_;
  const bool keeps_all_;
  uint64_t kill_at_ = 0;  // 0 if never
  bool killed_ = false;
  const std::string graveyard_;
  std::mt19937_64 random_;
  uint64_t operations_ = 0;
  uint64_t directory_syncs_ = 0;
  uint64_t buried_ = 0;
  std::string grave_;            // name of the file that the current operation replaces or removes
  std::vector<Change> changes_;  // changes that were not synced, in order
};

}  // namespace quorate::tree
