// SPDX-License-Identifier: Apache-2.0

// Where the time of requests goes: the stages of a request, when writes have passed them, and how long
// they took.
//
// A write is not stamped at each stage. Instead, the threads on its way set a mark once for each batch:
// "everything up to this position has passed at this time" (MarkRing). When the write is answered, its
// position tells when it passed. So a request takes no reading of the clock and no memory of its own: there
// is one reading of the clock for each batch and stage.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
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

// Keeps when positions, such as indexes of the log, were reached: the last kMarks of them.
//
// Thread-safety: Add and Restart from one thread at a time (a lock or a handover orders these threads);
// Find from any thread, without a lock.
class MarkRing {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr size_t kMarks = 1024;

  // Records that all positions up to `position` were reached at `time`. Nothing happens if that is the
  // position of the last mark. A lower one says that the positions after it are going to be reached again.
  void Add(uint64_t position, TimePoint time, bool leads = false);

  enum class State : uint8_t {
    kReached,
    kNotReached,  // the position is above the last mark
    kUnknown,     // the mark is gone, or there was no mark yet
  };
  // What is known of the positions `first` to `last`, which is the same for all of them.
  struct Progress {
    State state = State::kUnknown;
    bool leads = false;  // of the mark
    uint64_t first = 1;
    uint64_t last = 0;
    TimePoint time;  // when they were reached: for the last time, if that was several times
    bool is_reached() const { return state == State::kReached; }
    bool Contains(uint64_t position) const { return first <= position && position <= last; }
  };
  // Returns what is known of `position`, and of other positions only if that costs nothing more.
  Progress Find(uint64_t position) const {
    return FindMeanwhile(position, [] {});
  }
  // As Find, but calls `meanwhile()` in the midst of reading each mark, so that a test can add marks there.
  template <class Meanwhile>
  Progress FindMeanwhile(uint64_t position, const Meanwhile& meanwhile) const;

 private:
  struct Slot {
    std::atomic<uint64_t> position{0};
    std::atomic<int64_t> time{0};
    std::atomic<bool> leads{false};
  };
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
  MarkRing committed;  // node thread; `leads`: this member led at that time
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
  void Forget() { sent_ = durable_ = committed_ = applied_ = MarkRing::Progress(); }

 private:
  // Keeps what it finds in `*kept`, also that the marks of some positions are gone: the ring is then not
  // searched for each of them.
  static MarkRing::Progress FindIn(const MarkRing& ring, uint64_t position,
                                   MarkRing::Progress* kept);

  const ProgressMarks& marks_;
  MarkRing::Progress sent_;
  MarkRing::Progress durable_;
  MarkRing::Progress committed_;
  MarkRing::Progress applied_;
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

template <class Meanwhile>
MarkRing::Progress MarkRing::FindMeanwhile(uint64_t position, const Meanwhile& meanwhile) const {
  const uint64_t count = count_.load(std::memory_order_acquire);
  // The oldest slot is the next one that is written, maybe at this moment.
  const uint64_t oldest = count >= kMarks ? count - kMarks + 1 : 0;
  Progress found;
  if (count > 0) found.state = State::kNotReached;
  uint64_t next = count;  // the mark that was looked at last
  // Positions above a lower mark were reached again after it, so that an earlier mark does not count for
  // them.
  uint64_t last = UINT64_MAX;
  bool has_begin = false;
  while (next > oldest && !has_begin) {
    const Slot& slot = slots_[--next % kMarks];
    const uint64_t at = slot.position.load(std::memory_order_acquire);
    meanwhile();
    has_begin = at < position;
    if (has_begin) {
      if (found.is_reached()) found.first = at + 1;
      break;
    }
    last = std::min(last, at);
    found = {.state = State::kReached,
             .leads = slot.leads.load(std::memory_order_acquire),
             .first = position,
             .last = last,
             .time = TimePoint(TimePoint::duration(slot.time.load(std::memory_order_acquire)))};
  }
  if (next + kMarks <= count_.load(std::memory_order_acquire)) return Progress();  // overwritten
  // Without the mark before it, the oldest one may be later than the one of the position. The same holds
  // for all positions up to the lowest mark.
  if (!has_begin && oldest > 0) {
    found = Progress();
    found.first = 0;
    found.last = last;
  }
  return found;
}

}  // namespace quorate::rpc
