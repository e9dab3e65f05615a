// SPDX-License-Identifier: Apache-2.0

// Where a simulated machine keeps its RocksDB store: real files in a temporary directory of their
// own. A power failure loses what was not synced.
//
// RocksDB merges files on a thread of its own. A run is repeatable nevertheless: a merge changes no
// record, and power fails only between two steps of the simulation, when no checkpoint is being
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
#include "tree/store/testing/fault_file_system.h"

namespace quorate::simulation {

class StoreDisk {
 public:
  StoreDisk();
  // Removes all files. REQUIRES: no store is open.
  ~StoreDisk();
  StoreDisk(const StoreDisk&) = delete;
  StoreDisk& operator=(const StoreDisk&) = delete;

  // Removes the files that the process with that number has left.
  static void RemoveAllOf(int process);

  // Returns the path of the store.
  std::string path() const { return directory_ + "/store"; }
  rocksdb::Env* env() { return env_.get(); }

  // Called when the process that uses the store is dead: its operations have no effect from now on,
  // while it is destroyed.
  void Stop();
  // Applies a power failure: `random` decides what remains of the data that was not synced.
  // REQUIRES: Stop was called, and the store is closed.
  void Crash(Random* random);
  // Lets another process use the disk.
  void Revive();

 private:
  class Files;

  std::string directory_;
  std::shared_ptr<Files> files_;
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace quorate::simulation
