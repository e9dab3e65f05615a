// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/request_stages.h"

#include <algorithm>

#include "base/assert.h"

namespace quorate::rpc {

std::string_view NameOf(RequestStage stage) {
  switch (stage) {
    case RequestStage::kQueue:
      return "queue";
    case RequestStage::kLogWrite:
      return "log_write";
    case RequestStage::kCommit:
      return "commit";
    case RequestStage::kApply:
      return "apply";
    case RequestStage::kAnswer:
      return "answer";
    case RequestStage::kBarrier:
      return "barrier";
    case RequestStage::kRead:
      return "read";
  }
  return "";
}

// --- Marks ---------------------------------------------------------------------------------------

void MarkRing::Add(uint64_t position, TimePoint time, bool leads) {
  const uint64_t count = count_.load(std::memory_order_relaxed);
  if (count > 0) {
    const Slot& last = slots_[(count - 1) % kMarks];
    if (last.position.load(std::memory_order_relaxed) == position) return;
  }
  Slot& slot = slots_[count % kMarks];
  // A reader that sees one of these values also sees the count of before, and so that the slot's earlier
  // mark is gone.
  slot.position.store(position, std::memory_order_release);
  slot.time.store(time.time_since_epoch().count(), std::memory_order_release);
  slot.leads.store(leads, std::memory_order_release);
  count_.store(count + 1, std::memory_order_release);
}

// --- Stages of a request -------------------------------------------------------------------------

RequestStage StageTimes::longest() const {
  return static_cast<RequestStage>(std::ranges::max_element(us_) - us_.begin());
}

MarkRing::Progress StageFinder::FindIn(const MarkRing& ring, uint64_t position,
                                       MarkRing::Progress* kept) {
  if (kept->Contains(position)) return *kept;
  const MarkRing::Progress found = ring.Find(position);
  if (found.Contains(position)) *kept = found;
  return found;
}

StageTimes StageFinder::Find(TimePoint received, TimePoint answered, uint64_t sequence,
                             uint64_t index) {
  StageTimes times;
  TimePoint passed = received;
  // Clocks of different threads are read at different times, so that a stage may seem to end before it
  // has begun.
  const auto end_at = [&](RequestStage stage, TimePoint end) {
    end = std::max(std::min(end, answered), passed);
    times.Set(stage, std::chrono::duration_cast<std::chrono::microseconds>(end - passed).count());
    passed = end;
  };
  const MarkRing::Progress sent = FindIn(marks_.sent, sequence, &sent_);
  const MarkRing::Progress committed = FindIn(marks_.committed, index, &committed_);
  if (sent.is_reached()) end_at(RequestStage::kQueue, sent.time);
  // With very many marks under way, the one of `sent` is gone.
  if (sent.is_reached() ? sent.leads : committed.is_reached() && committed.leads) {
    const MarkRing::Progress durable = FindIn(marks_.durable, index, &durable_);
    const bool waited_for_disk =
        durable.is_reached() && (!committed.is_reached() || durable.time <= committed.time);
    end_at(RequestStage::kLogWrite, waited_for_disk ? durable.time : passed);
  }
  if (committed.is_reached()) end_at(RequestStage::kCommit, committed.time);
  const MarkRing::Progress applied = FindIn(marks_.applied, index, &applied_);
  if (applied.is_reached()) end_at(RequestStage::kApply, applied.time);
  // The mark comes after the last change of its chunk. Results of the chunk may be answered before.
  if (applied.state == MarkRing::State::kNotReached) end_at(RequestStage::kApply, answered);
  end_at(RequestStage::kAnswer, answered);
  return times;
}

// --- Latencies of all requests -------------------------------------------------------------------

void StageLatencies::Add(const StageTimes& times) {
  for (size_t i = 0; i < kRequestStages; ++i) {
    const int64_t us = times.us(static_cast<RequestStage>(i));
    if (us >= 0) live_[i].Add(us);
  }
}

void StageLatencies::Tick(TimePoint now) {
  if (now - ticked_ < kStep) return;
  ticked_ = now;
  const StageHistograms values = Values();
  MutexLock lock(&mutex_);
  history_.emplace_back(now, values);
  // The oldest one that is kept is the newest one that is not younger than the window.
  while (history_.size() > 1 && now - history_[1].first >= kWindowMax) history_.pop_front();
}

StageHistograms StageLatencies::Values() const {
  StageHistograms values;
  for (size_t i = 0; i < kRequestStages; ++i) values[i] = live_[i].value();
  return values;
}

void StageLatencies::AddTo(StageHistograms* sums) const {
  for (size_t i = 0; i < kRequestStages; ++i) (*sums)[i].Merge(live_[i].value());
}

void StageLatencies::AddRecentTo(std::chrono::seconds window, TimePoint now,
                                 StageHistograms* sums) const {
  ASSERT(window <= kWindowMax);
  StageHistograms recent;
  {
    MutexLock lock(&mutex_);
    recent = Values();
    for (auto before = history_.rbegin(); before != history_.rend(); ++before) {
      if (now - before->first < window) continue;
      for (size_t i = 0; i < kRequestStages; ++i) recent[i].Remove(before->second[i]);
      break;
    }
  }
  for (size_t i = 0; i < kRequestStages; ++i) (*sums)[i].Merge(recent[i]);
}

}  // namespace quorate::rpc
