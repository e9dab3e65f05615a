// A file system that loses its power after a number of operations: the process exits, and before
// that, what was not synced is lost, or some of it. A file loses bytes behind what was synced; a
// directory forgets creations, renames, links and removals since its last sync, the newest ones
// first; one directory may forget what another one keeps. Or its process dies and another one goes
// on with what the machine still knows: see KillAtDirectorySync.
//
// Thread-safety: may be used from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tree/store/fault_file_system.h"

namespace quorate::tree {

inline constexpr int kCrashExitCode = 42;

class CrashFileSystem : public FaultFileSystem {
 public:
  // Crashes instead of doing operation number `crash_at`, counted from 1. `graveyard` is an empty
  // directory on the same disk for files that may have to come back. With `keeps_all` nothing is
  // lost, as if only the process had died.
  CrashFileSystem(uint64_t crash_at, uint64_t seed, bool keeps_all, std::string graveyard);

  // From the directory sync with that number on, counted from 1, everything that changes a file
  // fails, as if the process had died right before it.
  void KillAtDirectorySync(uint64_t number) { kill_at_ = number; }
  // The next process begins: nothing that was not synced is lost yet. The power fails after
  // `operations` more.
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

  // Counts an operation; does not return if it is the one at which the power fails.
  void Count();
  [[noreturn]] void Crash();
  void Changed(const std::string& path, std::function<void()> undo);
  // A second name for a file that is about to lose its own.
  std::string Bury(const std::string& path);

  uint64_t crash_at_;
  const bool keeps_all_;
  uint64_t kill_at_ = 0;  // 0: never
  bool killed_ = false;
  const std::string graveyard_;
  std::mt19937_64 random_;
  uint64_t operations_ = 0;
  uint64_t directory_syncs_ = 0;
  uint64_t buried_ = 0;
  std::string grave_;            // of what the operation under way replaces or removes
  std::vector<Change> changes_;  // not synced, in order
};

}  // namespace quorate::tree
