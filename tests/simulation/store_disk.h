// Where a simulated machine keeps its RocksDB store: real files in a temporary directory of their
// own, of which a power failure takes what was not synced.
//
// RocksDB merges files on a thread of its own. A run stays repeatable all the same: a merge changes
// no record, and power fails only between two steps of the simulation, when no checkpoint is being
// committed.
//
// Thread-safety: as FaultFileSystem; Stop, Crash and Revive by one caller at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rocksdb/env.h"
#include "tests/simulation/random.h"
#include "tree/store/fault_file_system.h"

namespace quorate::simulation {

class StoreDisk {
 public:
  StoreDisk();
  // Removes all files. REQUIRES: no store is open.
  ~StoreDisk();
  StoreDisk(const StoreDisk&) = delete;
  StoreDisk& operator=(const StoreDisk&) = delete;

  // Removes what the process with that number has left.
  static void RemoveAllOf(int process);

  // Of the store.
  std::string path() const { return directory_ + "/store"; }
  rocksdb::Env* env() { return env_.get(); }

  // The process that uses it is dead: whatever it does while it is taken apart has no effect.
  void Stop();
  // Power has failed: `random` decides what is left of what was not synced. REQUIRES: it is
  // stopped, and the store is closed.
  void Crash(Random* random);
  // Another process may use it.
  void Revive();

 private:
  class Files;

  std::string directory_;
  std::shared_ptr<Files> files_;
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace quorate::simulation
