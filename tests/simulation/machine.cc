// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/machine.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "tests/simulation/process.h"
#include "tests/simulation/store_disk.h"

namespace quorate::simulation {
namespace {

int64_t ChooseSpeed(Simulation* simulation) {
  const auto drift = static_cast<int64_t>(simulation->options().member.clock_drift_max * 1e6);
  return 1'000'000 + simulation->random("clocks").Between(-drift, drift);
}

}  // namespace

Machine::Machine(const Site& site, size_t number)
    : site_(site),
      simulation_(*site.simulation),
      number_(number),
      clock_(site.simulation, ChooseSpeed(site.simulation)),
      env_(std::make_unique<consensus::FaultEnv>()) {
  if (simulation_.options().disk.has_rocksdb) store_disk_ = std::make_unique<StoreDisk>();
}

Machine::~Machine() { EndProcess(/*silent=*/true); }

bool Machine::paused() const { return process_ != nullptr && process_->lifetime().paused(); }

// --- Power ---------------------------------------------------------------------------------------

void Machine::Start() {
  ASSERT(process_ == nullptr, "started once");
  on_ = true;
  site_.peers->host(number_).on = true;
  site_.clients->host(number_).on = true;
  if (disk_is_full_) {
    env_->SetCapacity(~uint64_t{0});
    disk_is_full_ = false;
  }
  ++starts_;
  if (flipped_while_running_) {
    // What the process has promised since the flip may be stored behind the damage.
    flipped_while_running_ = false;
    whole_with_ = site_.checker->Needed(number_);
  }
  // The clock is set right some time after the disk was new.
  if (new_disk_jump_ms_ != 0 && starts_ % 2 == 0) JumpWithNewDisk(0);
  absl::StatusOr<std::unique_ptr<Process>> process = TryStart();
  if (!process.ok() && edited_lines_.has_value() && absl::IsFailedPrecondition(process.status())) {
    // As the error message advises the administrator: restore those lines and start again.
    simulation_.trace().Count("config: a start with other members is refused");
    simulation_.Line(fmt::format("{}", number_ + 1), "cannot start: {}",
                     std::string(process.status().message()));
    RestoreServerLines();
    process = TryStart();
  }
  if (!process.ok() && absl::IsDataLoss(process.status()) && !disk_is_whole_) {
    // As the error message advises the administrator: move the directory away and start again.
    simulation_.trace().Count("disk: damage was found at the start");
    simulation_.Line(fmt::format("{}", number_ + 1), "cannot start: {}",
                     std::string(process.status().message()));
    LoseDisk();
    process = TryStart();
  }
  if (!process.ok()) {
    simulation_.Fail(
        "a member can start again",
        fmt::format("server {}: {}", number_ + 1, std::string(process.status().message())));
  }
  process_ = *std::move(process);
  site_.network->Wake();
}

absl::StatusOr<std::unique_ptr<Process>> Machine::TryStart() {
  absl::StatusOr<std::unique_ptr<Process>> process = Process::Start(this);
  if (!process.ok() && env_->powered_off()) {
    simulation_.trace().Count(dies_within_step_ ? "fault: process killed during the start"
                                                : "fault: power failure during the start");
    if (std::exchange(dies_within_step_, false)) {
      env_->Kill();
    } else {
      CrashDisk();
    }
    process = Process::Start(this);
  }
  if (!process.ok() && disk_fails()) {
    simulation_.trace().Count("fault: a start fails by its disk");
    EndLifeOfFiles();
    env_->CancelFaults();
    process = Process::Start(this);
  }
  return process;
}

void Machine::EndProcess(bool silent) {
  if (process_ == nullptr) return;
  had_log_ = has_log();
  process_->End(silent);
  if (store_disk_ != nullptr) store_disk_->Stop();
  process_ = nullptr;
  if (store_disk_ != nullptr) store_disk_->Revive();
}

bool Machine::has_log() const {
  if (process_ == nullptr) return had_log_;
  return process_->raft().durable_index() > consensus::Index{0};
}

void Machine::PowerOff() {
  if (!on_) return;
  simulation_.Line(fmt::format("{}", number_ + 1), "power failure");
  simulation_.trace().Count("fault: power failure");
  EndProcess(/*silent=*/true);
  on_ = false;
  site_.peers->host(number_).on = false;
  site_.clients->host(number_).on = false;
  CrashDisk();
}

void Machine::CrashDisk() {
  ++disk_changes_;
  env_->Crash(simulation_.random("crashes").Next());
  if (store_disk_ != nullptr) store_disk_->Crash(&simulation_.random("store crashes"));
  sync_fails_ = operation_fails_ = dies_within_step_ = false;
  if (std::exchange(lies_, false)) {
    simulation_.trace().Count("fault: a disk forgets what it reported as durable");
    whole_with_ = site_.checker->Needed(number_);
  }
}

void Machine::PowerOffWithin(uint64_t disk_operations) {
  dies_within_step_ = false;
  env_->PowerOffAfter(disk_operations);
}

void Machine::KillWithin(uint64_t disk_operations) {
  dies_within_step_ = true;
  env_->PowerOffAfter(disk_operations);
}

void Machine::Kill() {
  if (process_ == nullptr) return;
  simulation_.Line(fmt::format("{}", number_ + 1), "the process is killed");
  simulation_.trace().Count("fault: process killed");
  EndProcess(/*silent=*/false);
  EndLifeOfFiles();
}

void Machine::EndLifeOfFiles() {
  operation_fails_ = env_->will_fail();
  // After a failed sync a process reads from the page cache what will never be on the disk. A
  // reboot of the machine shows that; a new process on the same page cache does not.
  const bool reboots =
      sync_fails_ && !lies_ &&
      !simulation_.random("reboots").Chance(simulation_.options().disk.same_cache_chance);
  if (reboots) return CrashDisk();
  if (std::exchange(sync_fails_, false)) {
    simulation_.trace().Count("fault: a new process on the page cache of a failed sync");
  }
  env_->Kill();
}

void Machine::Pause() {
  if (process_ == nullptr || paused()) return;
  simulation_.Line(fmt::format("{}", number_ + 1), "stands still");
  simulation_.trace().Count("fault: process paused");
  process_->lifetime().Pause();
  paused_from_us_ = simulation_.now_us();
}

void Machine::Resume() {
  if (!paused()) return;
  simulation_.Line(fmt::format("{}", number_ + 1), "goes on");
  site_.checker->OnStoodStill(number_, paused_from_us_);
  process_->lifetime().Resume();
  site_.network->Wake();
}

void Machine::DiesSoon(Process* process, std::string why) {
  process->lifetime().End();
  simulation_.Line(fmt::format("{}", number_ + 1), "ends: {}", why);
  simulation_.After(0, [this, starts = starts_, process, why = std::move(why)] {
    if (starts != starts_ || process_.get() != process) return;
    if (env_->powered_off() && !dies_within_step_) {
      simulation_.trace().Count("fault: power failure within a step");
      PowerOff();
    } else {
      if (std::exchange(dies_within_step_, false)) {
        simulation_.trace().Count("fault: process killed within a step");
      }
      EndProcess(/*silent=*/false);
      EndLifeOfFiles();
    }
    if (on_death_) on_death_();
  });
}

// --- The disk ------------------------------------------------------------------------------------

void Machine::StallDisk(int64_t until_us) {
  simulation_.trace().Count("fault: disk stalls");
  disk_stalled_until_us_ = until_us;
}

void Machine::FillDisk(uint64_t spare_bytes) {
  simulation_.Line(fmt::format("{}", number_ + 1), "the disk is full");
  simulation_.trace().Count("fault: disk full");
  disk_is_full_ = true;
  env_->SetCapacity(env_->used_bytes() + spare_bytes);
  if (process_ != nullptr) process_->oracle().OnFull();
}

void Machine::FreeSpace() {
  // A process that has ended because of the full disk gets space at its next start.
  if (!disk_is_full_ || process_ == nullptr || !process_->lifetime().alive()) return;
  simulation_.Line(fmt::format("{}", number_ + 1), "the disk has free space again");
  simulation_.trace().Count("disk: has free space again");
  env_->SetCapacity(~uint64_t{0});
  disk_is_full_ = false;
}

void Machine::FailSync() {
  simulation_.trace().Count("fault: sync fails");
  sync_fails_ = true;
  env_->FailSyncAfter(0, absl::UnavailableError("Input/output error"));
}

void Machine::FailOperationWithin(uint64_t disk_operations) {
  simulation_.trace().Count("fault: an operation of the disk fails");
  operation_fails_ = true;
  env_->FailAfter(disk_operations, absl::UnavailableError("Input/output error"));
}

void Machine::FailRead() {
  simulation_.trace().Count("fault: a read fails");
  operation_fails_ = true;
  env_->FailReads(1, absl::UnavailableError("Input/output error"));
}

void Machine::Lie() {
  simulation_.Line(fmt::format("{}", number_ + 1), "the disk begins to lie about its log");
  simulation_.trace().Count("fault: a disk lies about syncs");
  lies_ = true;
  disk_is_whole_ = counts_ = had_log_ = false;
  // The power must not fail before the cluster is quiet.
  env_->CancelFaults();
  dies_within_step_ = false;
  env_->LieAboutSyncs("/log/");
}

void Machine::BeHonest() {
  if (!std::exchange(lies_, false)) return;
  ++disk_changes_;
  env_->EndLies();
  whole_with_ = {};
}

void Machine::CancelDiskFaults() {
  env_->SetCapacity(~uint64_t{0});
  env_->CancelFaults();
  BeHonest();
  disk_stalled_until_us_ = 0;
  // These stay true for a process that has encountered the fault and is about to end.
  if (process_ == nullptr || process_->lifetime().alive()) {
    disk_is_full_ = sync_fails_ = operation_fails_ = dies_within_step_ = false;
  }
}

bool Machine::FlipBit(Random* random, bool everywhere) {
  std::vector<std::string> files = env_->Files();
  std::erase_if(files, [&](const std::string& file) {
    if (file.find("/log/") != std::string::npos) return false;
    if (file.find("/checkpoint") != std::string::npos) return false;
    // If the newest copy is damaged and the other copy is older, votes are lost, and no server can
    // detect that.
    return !everywhere || (file.ends_with("/hard_state") && !CopiesAreEqual(file));
  });
  if (files.empty()) return false;
  const std::string& path = files[random->Below(files.size())];
  if (env_->powered_off() || env_->will_fail()) return false;
  auto file = env_->OpenFile(path, /*create=*/false);
  ASSERT(file.ok());
  const uint64_t size = *(*file)->Size();
  // Most of a segment is preallocated space: look for an offset that was written.
  uint64_t offset = 0;
  for (int attempt = 0; attempt < 100; ++attempt) {
    offset = random->Below(size);
    char byte = 0;
    ASSERT((*file)->ReadAt(offset, 1, &byte).ok());
    if (byte != 0) break;
  }
  simulation_.Line(fmt::format("{}", number_ + 1), "a bit of {} turns over at {}", path, offset);
  simulation_.trace().Count("fault: bit flipped");
  ++disk_changes_;
  env_->FlipBit(path, offset * 8 + random->Below(8));
  disk_is_whole_ = counts_ = false;
  flipped_while_running_ = process_ != nullptr;
  whole_with_ = site_.checker->Needed(number_);
  return true;
}

void Machine::JumpWithNewDisk(int64_t to_ms) {
  simulation_.Line(fmt::format("{}", number_ + 1), "the wall clock is off by {} ms", to_ms);
  simulation_.trace().Count("fault: wall clock jumps around a new disk");
  clock_.Jump(to_ms - new_disk_jump_ms_);
  new_disk_jump_ms_ = to_ms;
}

bool Machine::CopiesAreEqual(const std::string& path) const {
  // Also compare what is durable: a power failure may leave the older copy.
  const std::unique_ptr<consensus::FaultEnv> durable = env_->CloneDurable();
  for (consensus::FaultEnv* env : {env_.get(), durable.get()}) {
    auto file = env->OpenFile(path, /*create=*/false);
    if (!file.ok()) return false;
    const auto size = (*file)->Size();
    if (!size.ok() || *size % 2 != 0) return false;
    std::string bytes(*size, '\0');
    if (!(*file)->ReadAt(0, bytes.size(), bytes.data()).ok()) return false;
    if (bytes.substr(0, bytes.size() / 2) != bytes.substr(bytes.size() / 2)) return false;
  }
  return true;
}

void Machine::LoseDisk() {
  ASSERT(process_ == nullptr);
  simulation_.Line(fmt::format("{}", number_ + 1), "the disk is new");
  simulation_.trace().Count("fault: disk lost");
  if (const int64_t max_ms = simulation_.options().disk.new_disk_jump_ms; max_ms > 0) {
    JumpWithNewDisk(simulation_.random("clocks of new disks").Between(-max_ms, max_ms));
  }
  ++disk_changes_;
  old_disks_.push_back(std::move(env_));
  env_ = std::make_unique<consensus::FaultEnv>();
  if (store_disk_ != nullptr) store_disk_ = std::make_unique<StoreDisk>();
  sync_fails_ = operation_fails_ = dies_within_step_ = false;
  lies_ = flipped_while_running_ = false;
  disk_is_whole_ = counts_ = false;
  whole_with_ = {};  // a member with a new disk recovers on its own
}

}  // namespace quorate::simulation
