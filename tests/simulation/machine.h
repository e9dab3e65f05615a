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
#include "consensus/log/fault_env.h"
#include "tests/simulation/client_network.h"
#include "tests/simulation/cluster_checker.h"
#include "tests/simulation/refusal_times.h"
#include "tests/simulation/sim_peer_network.h"
#include "tests/simulation/simulation.h"

namespace quorate::simulation {

class Process;
class StoreDisk;

// Runs faster or slower than virtual time, and its wall clock jumps.
class MachineClock : public Clock {
 public:
  MachineClock(Simulation* simulation, int64_t parts_per_million)
      : simulation_(*simulation), parts_per_million_(parts_per_million) {}

  std::chrono::steady_clock::time_point Now() const override {
    return std::chrono::steady_clock::time_point(std::chrono::microseconds(LocalUs()));
  }
  int64_t WallMs() const override { return kEpochMs + LocalUs() / 1000 + jump_ms_; }

  void Jump(int64_t by_ms) { jump_ms_ += by_ms; }
  // How long `local_us` of this clock take.
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
  // nullptr while none runs.
  Process* process() { return process_.get(); }
  const Process* process() const { return process_.get(); }

  // Switches on, if it is off, and starts the server.
  void Start();
  // Power failure: what was not synced is lost or not.
  void PowerOff();
  // Power failure after so many more operations of the disk.
  void PowerOffWithin(uint64_t disk_operations);
  // The process dies, the machine goes on.
  void Kill();
  // The process dies after so many more operations of the disk.
  void KillWithin(uint64_t disk_operations);
  void Pause();
  void Resume();

  // --- The disk --------------------------------------------------------------------------------
  void StallDisk(int64_t until_us);
  int64_t disk_stalled_until_us() const { return disk_stalled_until_us_; }
  // No space but for `spare_bytes` more, until FreeSpace, or until a process that has died of it is
  // started again.
  void FillDisk(uint64_t spare_bytes);
  void FreeSpace();
  // The next sync fails: the process dies of it.
  void FailSync();
  // One of the next operations, or the next read, fails: the process dies of it.
  void FailOperationWithin(uint64_t disk_operations);
  void FailRead();
  // Syncs of the log do nothing, and the disk reports that they did: until the power fails, which
  // loses what they were for, or until BeHonest.
  void Lie();
  void BeHonest();
  bool lies() const { return lies_; }
  // What was asked for and has not happened does not happen any more, and there is space.
  void CancelDiskFaults();
  // A bit of a file turns over, somewhere: of the log, of a checkpoint or, with `everywhere`, of
  // any other file. False if there is no file. The process may run.
  bool FlipBit(Random* random, bool everywhere);
  // A new, empty disk. REQUIRES: no process runs.
  void LoseDisk();
  consensus::FaultEnv& env() { return *env_; }
  // Where its store is, if that is RocksDB; nullptr if the store is a file on `env`.
  StoreDisk* store_disk() { return store_disk_.get(); }
  bool disk_is_full() const { return disk_is_full_; }
  // Whether a process may meet an error of the disk.
  bool disk_fails() const { return sync_fails_ || operation_fails_; }
  // When the processes of this machine might refuse writes that add data.
  RefusalTimes& refusal_times() { return refusal_times_; }
  const RefusalTimes& refusal_times() const { return refusal_times_; }

  // Whether the disk holds all that this member ever promised: not after a bit turned over or the
  // disk was lost, until its state is rebuilt from the others.
  bool disk_is_whole() const { return disk_is_whole_; }
  // Whether the member is one of those who may vote and count: also a new one has to become it.
  bool counts() const { return counts_; }
  // Whether it had an entry of the log on its disk when its process last ran, or has one now.
  bool has_log() const;
  void SetCounts() { disk_is_whole_ = counts_ = true; }
  // Whether it has a fault that only a new start of the process can find or end.
  bool has_hidden_fault() const { return lies_ || flipped_while_running_; }
  // With a log up to here nothing is missing any more of what a bit that turned over took away:
  // in a record with a sector of zeros, that looks like a write that was never finished.
  consensus::Index whole_with() const { return whole_with_; }

  MachineClock& clock() { return clock_; }
  const Site& site() const { return site_; }
  // How often it was started.
  uint64_t starts() const { return starts_; }
  // Is called when the process has died by itself.
  void OnDeath(std::function<void()> call) { on_death_ = std::move(call); }
  // The process starts as this version.
  void SetVersion(uint32_t version) { version_ = version; }
  uint32_t version() const { return version_; }
  // The server lines of its configuration name these members, until they are refused or restored;
  // nullopt: those that are right.
  void EditServerLines(consensus::Membership members) { edited_lines_ = std::move(members); }
  void RestoreServerLines() { edited_lines_.reset(); }
  const std::optional<consensus::Membership>& edited_lines() const { return edited_lines_; }
  // Grows with everything besides operations of env() that may change what is durable.
  uint64_t disk_changes() const { return disk_changes_; }

 private:
  friend class Process;

  // The process has found that it must end; it is in the middle of something.
  void DiesSoon(Process* process, std::string why);
  void EndProcess(bool silent);
  void EndLifeOfFiles();
  // The wall clock is off, or right again, at a time when the disk is new or no longer.
  void JumpWithNewDisk(int64_t to_ms);
  // The disk after a power failure.
  void CrashDisk();
  // Whether both halves of a file are the same, durably too.
  bool CopiesAreEqual(const std::string& path) const;
  // Starts the process, again if it meets a fault of the disk.
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
  bool had_log_ = false;  // when the process ended
  bool counts_ = false;
  consensus::Index whole_with_;
  bool disk_is_full_ = false;
  bool sync_fails_ = false;
  bool operation_fails_ = false;   // or a read does
  bool dies_within_step_ = false;  // and not the machine: KillWithin
  bool lies_ = false;
  bool flipped_while_running_ = false;
  RefusalTimes refusal_times_;
  int64_t disk_stalled_until_us_ = 0;
  int64_t paused_from_us_ = 0;
  uint64_t starts_ = 0;
  uint32_t version_ = consensus::kVersionNewest;
  std::optional<consensus::Membership> edited_lines_;
  uint64_t disk_changes_ = 0;
  int64_t new_disk_jump_ms_ = 0;  // what the clock is off by, since the disk was new
  std::function<void()> on_death_;
};

}  // namespace quorate::simulation
