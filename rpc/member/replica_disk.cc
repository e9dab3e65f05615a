// SPDX-License-Identifier: Apache-2.0

// The part of a replica that handles lack of free space on its disks.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "consensus/log/out_of_descriptors.h"
#include "rpc/member/fatal_error.h"
#include "rpc/member/replica.h"

namespace quorate::rpc {
namespace {

using consensus::MemberId;

// How often a checkpoint is requested while the log is short of space.
constexpr int kShortLogCheckpointMs = 2000;

}  // namespace

void Replica::OnDiskSpace(DiskFreeSpace space) {
  constexpr uint64_t kMiB = 1u << 20;
  if (absl::Status s = MakeBallast(space); !s.ok()) return OnFatal(s);
  const uint64_t free_bytes = std::min(space.log_bytes, space.checkpoint_bytes);
  const std::string& path =
      space.log_bytes <= space.checkpoint_bytes ? options_.data_dir : options_.checkpoint_dir;
  disk_free_bytes_.store(static_cast<int64_t>(free_bytes), std::memory_order_relaxed);
  // A low disk has enough space again only when a quarter more than the reserve is free.
  const uint64_t reserve = options_.disk_reserve_bytes;
  const bool was_low = disk_low_.load(std::memory_order_relaxed);
  const bool low = free_bytes < (was_low ? reserve + reserve / 4 : reserve);
  if (low == was_low) return;
  disk_low_.store(low, std::memory_order_relaxed);
  if (low) {
    spdlog::warn(
        "the disk of {} is almost full: {} MiB are free, less than diskReserveMb ({}). Free some "
        "space; "
        "until then this server does not lead if another one can, and if that goes for a majority, "
        "writes that add data are refused",
        path, free_bytes / kMiB, reserve / kMiB);
  } else {
    spdlog::info("the disk of {} has enough free space again: {} MiB", path, free_bytes / kMiB);
  }
}

bool Replica::HasFreeSpaceFor(const consensus::BallastFile& ballast, uint64_t free_bytes) const {
  // A ballast file that is made for the first time must not make the disk low.
  const uint64_t reserve = options_.disk_reserve_bytes + options_.disk_reserve_bytes / 4;
  return free_bytes >= ballast.bytes() + (ballast.used() ? 0 : reserve);
}

bool Replica::NeedsBallast() const {
  constexpr uint64_t kSegmentShare = 8;
  const consensus::SegmentLog& log = data_dir_->log();
  // If a ballast file exists or was used, it is kept or made again, however small the log is now.
  if (log.has_ballast() || log.ballast_used() || log.base_index() > consensus::Index{0})
    return true;
  if (checkpoints_.has_value() &&
      (checkpoints_->newest().has_value() || checkpoints_->staged_bytes() > 0)) {
    return true;
  }
  uint64_t bytes = 0;
  for (const consensus::SizeRun& run : log.size_runs()) bytes += run.bytes;
  return bytes >= log.ballast().bytes() / kSegmentShare;
}

absl::Status Replica::MakeBallast(DiskFreeSpace space) {
  consensus::SegmentLog& log = data_dir_->log();
  if (!NeedsBallast()) return absl::OkStatus();
  consensus::BallastFile* first = options_.checkpoint_ballast;
  if (first != nullptr && !first->exists()) {
    absl::Status made = absl::ResourceExhaustedError("too little is free");
    if (!checkpoints_->needs_space() && HasFreeSpaceFor(*first, space.checkpoint_bytes)) {
      made = first->Make();
    }
    if (!made.ok() && !absl::IsResourceExhausted(made)) return made;
    if (options_.shares_disk) {
      if (!made.ok()) return absl::OkStatus();
      space.log_bytes -= std::min(space.log_bytes, first->bytes());
    }
  }
  if (log.has_ballast() || !HasFreeSpaceFor(log.ballast(), space.log_bytes))
    return absl::OkStatus();
  absl::Status made = log.MakeBallast();
  return absl::IsResourceExhausted(made) ? absl::OkStatus() : made;
}

void Replica::OnLogFull(const absl::Status& why) {
  const bool is_out_of_descriptors = consensus::IsOutOfDescriptors(why);
  log_out_of_descriptors_.store(is_out_of_descriptors, std::memory_order_relaxed);
  log_full_.store(!why.ok() && !is_out_of_descriptors, std::memory_order_relaxed);
  if (why.ok()) {
    spdlog::info("the log goes on");
  } else if (is_out_of_descriptors) {
    spdlog::error(
        "the log cannot open a file, and takes no entries: {}. Nothing is lost, and the server "
        "goes on by itself as soon as a file can be opened",
        WithAdvice(std::string(why.message())));
  } else {
    spdlog::error(
        "the disk is full, and the log cannot go on: {}. Free some space; nothing is lost, and the "
        "server goes on by itself",
        std::string(why.message()));
  }
}

bool Replica::IsDiskLow() const {
  return disk_low_.load(std::memory_order_relaxed) || log_full_.load(std::memory_order_relaxed) ||
         data_dir_->log().ballast_used();
}

void Replica::GuardLog() {
  consensus::SegmentLog& log = data_dir_->log();
  const bool refuses = disk_guard_.refuses_data();
  log.AllowBallast(refuses, options_.shares_disk ? options_.checkpoint_ballast : nullptr);
  // A checkpoint allows the log before it to be removed. Checkpoints are requested repeatedly for
  // two reasons: the log keeps some entries before a checkpoint, so that one checkpoint may free
  // nothing, and no checkpoint becomes due while the log cannot grow.
  const bool is_short =
      refuses && (!log.has_ballast() || log_full_.load(std::memory_order_relaxed));
  if (checkpoints_.has_value()) checkpoints_->SetIsShortOfSpace(is_short);
  // While space is short, the log does not keep entries for lagging members.
  if (const bool low = IsDiskLow(); std::exchange(log_is_cut_short_, low) != low) {
    node_->raft().SetSpaceIsShort(low);
  }
  if (!is_short) {
    ticks_to_checkpoint_ = 0;
  } else if (--ticks_to_checkpoint_ <= 0 && !awaits_checkpoint_ && checkpoints_.has_value()) {
    ticks_to_checkpoint_ = std::max(1, kShortLogCheckpointMs / options_.node.tick_ms);
    awaits_checkpoint_ = true;
    node_->RequestCheckpoint(applied_, [this] { awaits_checkpoint_ = false; });
  }
  const bool used = log.ballast_used();
  if (std::exchange(log_ballast_used_, used) == used) return;
  if (!used) {
    spdlog::info("there is free space for a file of the log again");
  } else {
    spdlog::error(
        "the disk of {} is full, and the log goes on in the ballast file that was kept for that. "
        "Free some space on the disk, or delete znodes",
        options_.data_dir);
  }
}

void Replica::GuardDisk() {
  const consensus::Raft& raft = node_->raft();
  DiskGuard::View view;
  view.leader = raft_status_.leader;
  view.membership = &raft.membership();
  view.follows = [this](MemberId member) { return links_->DownForMs(member) == 0; };
  view.own_disk_low = IsDiskLow();
  const DiskGuard::Actions actions = disk_guard_.Tick(view);
  HandOverTo(actions.successors);
  for (MemberId member : actions.report_to) {
    // A server that does not know this kind of frame would close the connection.
    if (options_.node.raft.version < kVersionDigests) break;
    if (raft.version_of(member) < kVersionDigests) continue;
    links_->SendDiskReport(member, actions.report);
  }
  GuardLog();
  const bool refuses = disk_guard_.refuses_data();
  if (refuses == refuses_data_.exchange(refuses, std::memory_order_relaxed)) return;
  if (refuses) {
    spdlog::warn(
        "writes that add data are refused: too few servers have enough free space on their disks");
  } else {
    spdlog::info("writes that add data are taken again");
  }
}

void Replica::HandOverTo(const std::vector<MemberId>& successors) {
  consensus::Raft& raft = node_->raft();
  const auto best = std::max_element(
      successors.begin(), successors.end(),
      [&](MemberId a, MemberId b) { return raft.match_index(a) < raft.match_index(b); });
  // If leadership cannot be transferred now, the disk guard tries that again later.
  if (best != successors.end()) raft.TransferLeadership(*best).IgnoreError();
}

}  // namespace quorate::rpc
