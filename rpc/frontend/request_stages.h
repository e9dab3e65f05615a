// SPDX-License-Identifier: Apache-2.0

// Where the time of requests goes: the stages of a request, when writes have passed them, and how long
// they took.
//
// A write is not stamped at each stage. Instead, the threads on its way set a mark once for each batch:
// "everything up to this position has passed at this time" (MarkRing). When the write is answered, its
// position tells when it passed. So the way of a request has no reading of the clock and no memory of its
// own.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "rpc/frontend/latency_histogram.h"

namespace quorate::rpc {

// The stages of a request, in the order in which a write passes the first five. A request has only
// some of them.
enum class RequestStage : uint8_t {
  // From the arrival to the moment at which the node thread proposes the write, or forwards it to the
  // leader. Of other requests: the wait for the requests before it.
  kQueue,
  // At the leader: until the leader's own log is durable. 0 if the followers were faster, because the
  // write did not wait for the leader's disk then.
  kLogWrite,
  // Until this member knows that a majority has the write. At a member that does not lead, from the
  // moment at which the write was forwarded: the stages at the leader are not known.
  kCommit,
  kApply,    // until the tree has the write
  kAnswer,   // until the reply is made
  kBarrier,  // of a sync or a linearizable read: until everything committed before is applied
  kRead,     // of a read that takes several pieces: from its arrival to its last piece
};
inline constexpr size_t kRequestStages = 7;

// Returns the name of a stage in metrics and JSON: "queue", "log_write", ...
std::string_view NameOf(RequestStage stage);

// When positions, such as indexes of the log, were reached. Keeps the last kMarks.
//
// Thread-safety: Add and Restart from one thread at a time (a lock or a handover orders these threads);
// Find from any thread, without a lock.
class MarkRing {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr size_t kMarks = 1024;

  // Records that all positions up to `position` were reached at `time`. Nothing happens if that is the
  // position of the last mark. A lower one says that the positions from it on are reached again.
  void Add(uint64_t position, TimePoint time, bool leads = false);
  // Says that all positions are going to be reached again.
  void Restart() { Append(0, TimePoint(), false); }

  // What is known of some positions that were reached at the same time.
  struct Reached {
    uint64_t first = 1;
    uint64_t last = 0;
    TimePoint time;
    bool leads = false;
    bool Contains(uint64_t position) const { return first <= position && position <= last; }
  };
  // Returns when `position` was reached: for the last time, if that was several times. nullopt: it was
  // not reached, or so long ago that the mark is gone.
  std::optional<Reached> Find(uint64_t position) const;

 private:
  struct Slot {
    std::atomic<uint64_t> position{0};
    std::atomic<int64_t> time{0};
    std::atomic<bool> leads{false};
  };
  void Append(uint64_t position, TimePoint time, bool leads);

  std::array<Slot, kMarks> slots_;
  std::atomic<uint64_t> count_{0};  // marks so far; the next one goes to slot count_ % kMarks
};

// The marks of the writes of one member's clients. Thread-safety: as MarkRing; beside each ring stands
// its writer.
struct ProgressMarks {
  // By the member's own sequence numbers of commands: when commands were proposed here (`leads`) or
  // forwarded to the leader. Node thread.
  MarkRing sent;
  // These are by indexes of the log.
  MarkRing durable;    // the log thread, or the node thread in its place
  MarkRing committed;  // node thread
  MarkRing applied;    // the thread that applies
};

// The times of the stages of one request, in microseconds; -1: it does not have the stage.
class StageTimes {
 public:
  StageTimes() { us_.fill(-1); }
  void Set(RequestStage stage, int64_t us) { us_[static_cast<size_t>(stage)] = us; }
  int64_t us(RequestStage stage) const { return us_[static_cast<size_t>(stage)]; }
  // Returns the longest stage; the first one of several.
  RequestStage longest() const;

 private:
  std::array<int64_t, kRequestStages> us_;
};

// Finds the stages of writes. Keeps what it has found, because the writes of a batch have the same times.
// Thread-safety: none; each thread that answers requests has one.
class StageFinder {
 public:
  using TimePoint = MarkRing::TimePoint;

  // `marks` outlives the object.
  explicit StageFinder(const ProgressMarks* marks) : marks_(*marks) {}

  // Returns the stages of a write that was received and is answered at these times, and whose command has
  // this sequence number and this index. The time of a stage whose mark is gone counts for the next one.
  StageTimes Find(TimePoint received, TimePoint answered, uint64_t sequence, uint64_t index);
  // Drops what is kept. To be called before the results of later batches are answered.
  void Forget() { sent_ = durable_ = committed_ = applied_ = MarkRing::Reached(); }

 private:
  // Returns nullptr if nothing is known of `position`.
  static const MarkRing::Reached* FindIn(const MarkRing& ring, uint64_t position,
                                         MarkRing::Reached* kept);

  const ProgressMarks& marks_;
  MarkRing::Reached sent_;
  MarkRing::Reached durable_;
  MarkRing::Reached committed_;
  MarkRing::Reached applied_;
};

using StageHistograms = std::array<LatencyHistogram, kRequestStages>;

// How long the stages of requests took: since the start, and in the last minutes. Thread-safety: Add and
// Tick from the writer's thread, the others from any thread.
class StageLatencies {
 public:
  using TimePoint = MarkRing::TimePoint;
  // The longest window, and how exactly windows are kept.
  static constexpr std::chrono::minutes kWindowMax{5};
  static constexpr std::chrono::seconds kStep{10};

  void Add(const StageTimes& times);
  // To be called from time to time, several times in a step: takes note of the latencies so far, once in
  // each step.
  void Tick(TimePoint now);

  // Adds the latencies since the start.
  void AddTo(StageHistograms* sums) const;
  // Adds those of the last `window`, which may be longer by a step. REQUIRES: window <= kWindowMax.
  void AddRecentTo(std::chrono::seconds window, TimePoint now, StageHistograms* sums) const;

 private:
  StageHistograms Values() const;

  std::array<LiveLatencyHistogram, kRequestStages> live_;
  TimePoint ticked_;  // the writer's
  mutable Mutex mutex_;
  // The latencies at the steps of the longest window, the oldest first.
  std::deque<std::pair<TimePoint, StageHistograms>> history_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quorate::rpc
