// SPDX-License-Identifier: Apache-2.0

// A simulated computer: its disk, its clocks, its power, and the server process that runs on it.
//
// Thread-safety: none.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "consensus/core/types.h"
#include "consensus/log/testing/fault_env.h"
#include "tests/simulation/client_network.h"
#include "tests/simulation/cluster_checker.h"
#include "tests/simulation/refusal_times.h"
#include "tests/simulation/sim_peer_network.h"
#include "tests/simulation/simulation.h"

namespace quorate::simulation {

class Process;
class StoreDisk;

// A clock that runs faster or slower than virtual time, and whose wall clock can jump.
class MachineClock : public Clock {
 public:
  MachineClock(Simulation* simulation, int64_t parts_per_million)
      : simulation_(*simulation), parts_per_million_(parts_per_million) {}

  std::chrono::steady_clock::time_point Now() const override {
    return std::chrono::steady_clock::time_point(std::chrono::microseconds(LocalUs()));
  }
  int64_t WallMs() const override { return kEpochMs + LocalUs() / 1000 + jump_ms_; }

  void Jump(int64_t by_ms) { jump_ms_ += by_ms; }
  // The virtual time that `local_us` of this clock take.
  int64_t ToVirtualUs(int64_t local_us) const { return local_us * 1'000'000 / parts_per_million_; }

 private:
  static constexpr int64_t kEpochMs = 1'700'000'000'000;
  int64_t LocalUs() const {
    return kStartUs + simulation_.now_us() * parts_per_million_ / 1'000'000;
  }
  static constexpr int64_t kStartUs = 1'000'000'000;

  Simulation& simulation_;
  const int64_t parts_per_million_;
  int64_t jump_ms_ = 0;
};

// What the machines of a cluster share.
struct Site {
  Simulation* simulation;
  Network* network;
  SimPeerNetwork* peers;
  ClientNetwork* clients;
  ClusterChecker* checker;
};

class Machine {
 public:
  Machine(const Site& site, size_t number);
  ~Machine();

  size_t number() const { return number_; }
  bool on() const { return on_; }
  bool paused() const;
  // nullptr while no process runs.
  Process* process() { return process_.get(); }
  const Process* process() const { return process_.get(); }

  // Switches the machine on, if it is off, and starts the server.
  void Start();
  // Power failure: each write that was not synced is either lost or kept.
  void PowerOff();
  // The power fails after `disk_operations` more operations of the disk.
  void PowerOffWithin(uint64_t disk_operations);
  // The process dies; the machine stays on.
  void Kill();
  // The process dies after `disk_operations` more operations of the disk.
  void KillWithin(uint64_t disk_operations);
  void Pause();
  void Resume();

  // --- The disk --------------------------------------------------------------------------------
  void StallDisk(int64_t until_us);
  int64_t disk_stalled_until_us() const { return disk_stalled_until_us_; }
  // The disk has space for only `spare_bytes` more, until FreeSpace, or until a process that has
  // died because of the full disk is started again.
  void FillDisk(uint64_t spare_bytes);
  void FreeSpace();
  // The next sync fails, which ends the process.
  void FailSync();
  // One of the next operations, or the next read, fails, which ends the process.
  void FailOperationWithin(uint64_t disk_operations);
  void FailRead();
  // Syncs of the log do nothing and return success, until the power fails, which loses what was not
  // really synced, or until BeHonest.
  void Lie();
  void BeHonest();
  bool lies() const { return lies_; }
  // Cancels the requested disk faults that have not happened yet, and frees space.
  void CancelDiskFaults();
  // Flips one bit of a file: of the log, of a checkpoint or, with `everywhere`, of any other file.
  // Returns false if there is no file. The process may be running.
  bool FlipBit(Random* random, bool everywhere);
  // A new, empty disk. REQUIRES: no process runs.
  void LoseDisk();
  consensus::FaultEnv& env() { return *env_; }
  // The disk of the RocksDB store; nullptr if the store is a file on `env`.
  StoreDisk* store_disk() { return store_disk_.get(); }
  bool disk_is_full() const { return disk_is_full_; }
  // Whether the process may still encounter an injected disk error.
  bool disk_fails() const { return sync_fails_ || operation_fails_; }
  // When the processes of this machine might refuse writes that add data.
  RefusalTimes& refusal_times() { return refusal_times_; }
  const RefusalTimes& refusal_times() const { return refusal_times_; }

  // Whether the disk holds all that this member ever promised. False after a flipped bit or a lost
  // disk, until the member's state is rebuilt from the others.
  bool disk_is_whole() const { return disk_is_whole_; }
  // Whether the member may vote and counts in a majority. A new member has to reach that state
  // first.
  bool counts() const { return counts_; }
  // Whether the member's disk had an entry of the log when its process last ran, or has one now.
  bool has_log() const;
  void SetCounts() { disk_is_whole_ = counts_ = true; }
  // Whether the member has a fault that only a restart of the process can find or end.
  bool has_hidden_fault() const { return lies_ || flipped_while_running_; }
  // A log up to this index replaces all that a flipped bit may have destroyed: if the record also
  // has a sector of zeros, the flipped bit looks like a torn tail.
  consensus::Index whole_with() const { return whole_with_; }

  MachineClock& clock() { return clock_; }
  const Site& site() const { return site_; }
  // How often the server was started.
  uint64_t starts() const { return starts_; }
  // `call` is called when the process has died by itself.
  void OnDeath(std::function<void()> call) { on_death_ = std::move(call); }
  // Sets the version as which the next process starts.
  void SetVersion(uint32_t version) { version_ = version; }
  uint32_t version() const { return version_; }
  // The server lines of the configuration name these members, until the server refuses them or
  // RestoreServerLines is called; nullopt: the lines are correct.
  void EditServerLines(consensus::Membership members) { edited_lines_ = std::move(members); }
  void RestoreServerLines() { edited_lines_.reset(); }
  const std::optional<consensus::Membership>& edited_lines() const { return edited_lines_; }
  // Grows with every change, other than operations of env(), that may affect what is durable.
  uint64_t disk_changes() const { return disk_changes_; }

 private:
  friend class Process;

  // Ends the process in an event of its own, because it is in the middle of a call when it finds
  // that it must end.
  void DiesSoon(Process* process, std::string why);
  void EndProcess(bool silent);
  void EndLifeOfFiles();
  // Sets the wall clock off when the disk is new, and right again when it no longer is.
  void JumpWithNewDisk(int64_t to_ms);
  // Applies a power failure to the disk.
  void CrashDisk();
  // Whether both copies in a file are equal, also in what is durable.
  bool CopiesAreEqual(const std::string& path) const;
  // Starts the process; starts it again if it encounters a disk fault.
  absl::StatusOr<std::unique_ptr<Process>> TryStart();

  const Site site_;
  Simulation& simulation_;
  const size_t number_;
  MachineClock clock_;
  std::unique_ptr<consensus::FaultEnv> env_;
  std::vector<std::unique_ptr<consensus::FaultEnv>> old_disks_;
  std::unique_ptr<StoreDisk> store_disk_;  // outlives the process
  std::unique_ptr<Process> process_;
  bool on_ = false;
  bool disk_is_whole_ = true;
  bool had_log_ = false;  // the value when the last process ended
  bool counts_ = false;
  consensus::Index whole_with_;
  bool disk_is_full_ = false;
  bool sync_fails_ = false;
  bool operation_fails_ = false;   // or a read does
  bool dies_within_step_ = false;  // only the process dies, not the machine: KillWithin
  bool lies_ = false;
  bool flipped_while_running_ = false;
  RefusalTimes refusal_times_;
  int64_t disk_stalled_until_us_ = 0;
  int64_t paused_from_us_ = 0;
  uint64_t starts_ = 0;
  uint32_t version_ = consensus::kVersionNewest;
  std::optional<consensus::Membership> edited_lines_;
  uint64_t disk_changes_ = 0;
  int64_t new_disk_jump_ms_ = 0;  // by how much the wall clock is off while the disk is new
  std::function<void()> on_death_;
};

}  // namespace quorate::simulation
