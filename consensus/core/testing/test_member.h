// SPDX-License-Identifier: Apache-2.0

// A member for tests. Its disk and state machine are plain values, and the test decides every step:
// output, write, apply, log read and crash.
//
// Thread-safety: none.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "consensus/core/message.h"
#include "consensus/core/output.h"
#include "consensus/core/raft.h"

namespace quorate::consensus {

// A fixed sequence for each seed (splitmix64), which is the same on every platform.
class TestRandom final : public RandomSource {
 public:
  explicit TestRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next() override;
  // Returns a number in [0, bound).
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

 private:
  uint64_t state_;
};

// Returns always the same value, so that election timeouts are known: 0 makes them election_ticks.
class FixedRandom final : public RandomSource {
 public:
  explicit FixedRandom(uint64_t value) : value_(value) {}
  uint64_t Next() override { return value_; }

 private:
  uint64_t value_;
};

std::vector<TermRun> RunsOf(std::span<const Entry> log);

// Returns the bytes of a snapshot: the entries that it contains. A test can therefore compute each
// checkpoint.
std::string CheckpointOf(std::span<const Entry> applied);

// Owns a Raft object, or none. A copy owns a copy of the object.
class OwnedRaft {
 public:
  OwnedRaft() = default;
  OwnedRaft(const OwnedRaft& other)
      : raft_(other.raft_ == nullptr ? nullptr : other.raft_->Clone()) {}
  OwnedRaft(OwnedRaft&&) = default;
  OwnedRaft& operator=(std::unique_ptr<Raft> raft) {
    raft_ = std::move(raft);
    return *this;
  }
  void reset() { raft_.reset(); }
  bool operator==(std::nullptr_t) const { return raft_ == nullptr; }
  Raft& operator*() const { return *raft_; }
  Raft* operator->() const { return raft_.get(); }

 private:
  std::unique_ptr<Raft> raft_;
};

// A member whose steps the test decides. A copy is independent, but uses the same random source.
class TestMember {
 public:
  // The state that survives a crash. The entry of index i is at log[i - 1]. Entries up to `base`
  // are not in the log any more: they are kept here only for the checks of the tests, and as the
  // state that the checkpoint contains.
  struct Disk {
    HardState hard_state;
    std::vector<Entry> log;
    Index base{};
    std::optional<SnapshotMeta> checkpoint = std::nullopt;
    uint64_t directory_epoch = kFirstDirectoryEpoch;
  };
  // The part of the batches being written that reached the disk before a crash. A batch is written
  // in the order of the driver's contract: hard state, truncation, entries.
  struct Torn {
    size_t whole_batches = 0;
    // For this many batches after the whole ones, the hard state is written.
    size_t hard_states = 0;
    // For the first batch that is not whole, if its hard state is written: the truncation, and some
    // entries.
    bool cut = false;
    size_t entries = 0;
  };

  // Starts the member with `disk`. The entries of its checkpoint are applied. `random` must outlive
  // the object.
  TestMember(RaftOptions options, Disk disk, RandomSource* random);

  const MemberId id;
  bool running() const { return raft_ != nullptr; }
  Raft& raft() { return *raft_; }
  const Raft& raft() const { return *raft_; }

  // Takes all outputs and adds their content to the public fields below. Appends their text to
  // *trace.
  void Collect(std::string* trace = nullptr);
  // Makes the oldest `count` batches durable with one sync. REQUIRES: that many batches wait.
  void Persist(size_t count = 1);
  size_t unpersisted() const { return batches_.size(); }
  // Applies the oldest range. REQUIRES: can_apply().
  void ApplyOne();
  bool can_apply() const { return !applying_.empty(); }
  // Answers the oldest log read from the disk. REQUIRES: can_read_log().
  void AnswerLogRead();
  bool can_read_log() const { return !log_reads_.empty(); }

  // Takes a durable checkpoint of the applied entries. REQUIRES: there are applied entries.
  void Checkpoint();
  // Reads a chunk for the oldest request. REQUIRES: can_read_snapshot().
  void AnswerSnapshotRead();
  bool can_read_snapshot() const { return !snapshot_reads_.empty(); }
  // Stages the oldest chunk. REQUIRES: can_stage().
  void StageOne();
  // Reports that the oldest chunk could not be stored. Then nothing is staged any more. REQUIRES:
  // can_stage().
  void FailToStage(const std::string& reason);
  bool can_stage() const { return !snapshot_writes_.empty(); }
  size_t staged_bytes() const { return staged_.size(); }
  // Installs the staged snapshot, after everything before it is durable and applied. REQUIRES:
  // can_install().
  void Install();
  bool can_install() const { return installing_.has_value(); }
  // Makes all checkpoints but the newest unreadable.
  void ForgetCheckpoints() {
    std::erase_if(checkpoints_,
                  [this](const auto& p) { return p.first != disk_.checkpoint->index; });
  }

  void Crash(const Torn& torn);
  // Restarts the member. The state machine starts with the entries up to `applied`, or fewer if the
  // disk has fewer, but at least with those of the checkpoint.
  void Restart(Index applied);
  // Starts with an empty directory, which is later than the last. REQUIRES: !running().
  void RestartNew();
  // Sets the version of the program that the next start runs.
  void SetVersion(uint32_t version) { options_.version = version; }
  const RaftOptions& options() const { return options_; }
  // The number of directories that the member has had before this one.
  uint64_t directories_lost() const { return directories_lost_; }

  const Disk& disk() const { return disk_; }
  // Returns the log as of the last output, durable or not, from index 1 on; see Disk.
  const std::vector<Entry>& log() const { return log_; }
  const std::vector<Entry>& applied() const { return applied_; }

  // Messages that may be sent, in order. The test takes them.
  std::vector<Message> outbox;
  std::vector<ReadResult> reads;
  Status status;
  size_t ranges_from_log = 0;
  size_t log_reads_answered = 0;
  size_t truncations = 0;  // since the start
  size_t compactions = 0;
  size_t installs = 0;
  size_t chunks_read = 0;
  size_t discards = 0;  // number of times that staged chunks were discarded
  std::vector<SnapshotRejection> snapshot_rejections;
  std::optional<Index> checkpoint_wanted;  // the last Output::checkpoint_wanted
  // The last Output::membership.
  std::optional<Membership> membership;

 private:
  struct Batch {
    PersistId id;
    std::optional<uint64_t> directory_epoch;
    std::optional<HardState> hard_state;
    std::optional<Index> truncate_after;
    std::vector<Entry> entries;
    std::vector<Message> messages;
  };
  void Start(Index applied);
  // Resets the log to begin after (meta.index, meta.term), unless it holds that entry.
  void AlignLog(const SnapshotMeta& meta);
  // Puts a message into the outbox. Checks that the disk has what the message promises.
  void Release(Message message);
  void Take(Output output);
  // Records that the oldest chunk was staged or refused.
  void RecordStaged();
  void DiscardStaging();

  RaftOptions options_;
  RandomSource& random_;
  OwnedRaft raft_;
  Disk disk_;
  std::vector<Entry> log_;
  std::vector<Entry> applied_;
  std::deque<Batch> batches_;
  std::deque<ApplyRange> applying_;
  std::deque<LogReadRequest> log_reads_;
  std::deque<SnapshotReadRequest> snapshot_reads_;
  std::deque<SnapshotWriteRequest> snapshot_writes_;
  std::optional<SnapshotMeta> installing_;
  std::optional<SnapshotMeta> staged_meta_;
  std::string staged_;
  bool staging_failed_ = false;  // later chunks are refused
  size_t discard_after_ = 0;     // after this many of the waiting chunks, the staging is discarded
  SnapshotMeta followed_;        // metadata of the applied entries
  std::map<Index, std::pair<SnapshotMeta, std::string>> checkpoints_;  // readable ones
  Index handed_out_;
  PersistId last_batch_;
  uint64_t directories_lost_ = 0;
};

}  // namespace quorate::consensus
