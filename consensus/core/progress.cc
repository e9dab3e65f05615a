// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/progress.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "consensus/core/describe.h"

namespace quorate::consensus {

Progress::Progress(MemberId member, Index last_index, size_t inflight_messages_max,
                   size_t inflight_bytes_max)
    : member_(member),
      inflight_messages_max_(inflight_messages_max),
      inflight_bytes_max_(inflight_bytes_max),
      next_(last_index + 1),
      catch_up_(last_index) {
  ASSERT(member_ != kNoMember);
  ASSERT(inflight_messages_max_ > 0 && inflight_bytes_max_ > 0);
}

void Progress::Become(State state) {
  state_ = state;
  probe_sent_ = false;
}

bool Progress::WindowFull() const {
  return inflight_.size() >= inflight_messages_max_ || inflight_bytes_ >= inflight_bytes_max_;
}

void Progress::Sent(Index last, size_t entry_bytes, Index commit) {
  ASSERT(last + 1 >= next_);
  ASSERT((entry_bytes == 0) == (last + 1 == next_));
  commit_sent_ = std::max(commit_sent_, std::min(commit, last));
  if (IsProbing()) {
    // `next` stays, because the answer is compared with it.
    ASSERT(!probe_sent_);
    probe_sent_ = true;
    return;
  }
  if (entry_bytes == 0) return;
  ASSERT(!WindowFull());
  if (inflight_.empty()) ticks_since_progress_ = 0;
  inflight_.push_back({last, entry_bytes});
  inflight_bytes_ += entry_bytes;
  next_ = last + 1;
}

void Progress::FreeWindow() {
  while (!inflight_.empty() && inflight_.front().last <= match_) {
    ASSERT(inflight_bytes_ >= inflight_.front().bytes);
    inflight_bytes_ -= inflight_.front().bytes;
    inflight_.pop_front();
  }
}

bool Progress::Acknowledged(Index match, Index received) {
  ASSERT(match <= received);
  const bool grew = match > match_;
  if (grew) {
    match_ = match;
    ticks_since_progress_ = 0;
    FreeWindow();
    RecordHeldProgress();
    if (held_from_ > Index{0}) held_from_ = std::max(held_from_, match_);
  }
  // An answer to an older request tells nothing about next - 1.
  if (IsProbing() && received + 1 >= next_) {
    Become(State::kReplicate);
    ticks_since_progress_ = 0;
    next_ = std::max(next_, received + 1);
  }
  next_ = std::max(next_, match_ + 1);
  return grew;
}

bool Progress::Rejected(Index rejected_prev, Index candidate) {
  if (state_ == State::kSnapshot) return false;
  // A rejection at or below match() is older than the acknowledgement, unless match() itself is
  // being probed: then the follower's disk has lost acknowledged entries, which are sent again. (If
  // the rejection is outdated after all, the next answer shows that.)
  const bool lost = IsProbing() && rejected_prev == match_ && candidate < match_;
  if (rejected_prev <= match_ && !lost) return false;
  // While probing, only the rejection of the request in flight counts. In replicate, the first
  // rejection leads to probe, and the rejections of the later requests are dropped here.
  if (IsProbing() ? rejected_prev + 1 != next_ : rejected_prev >= next_) return false;
  if (lost) match_ = candidate;
  next_ = std::max(match_ + 1, std::min(candidate + 1, rejected_prev));
  ASSERT(next_ > match_);
  Become(State::kProbe);
  ForgetInflight();
  return true;
}

void Progress::ForgetInflight() {
  inflight_.clear();
  inflight_bytes_ = 0;
  commit_sent_ = std::min(commit_sent_, match_);
}

void Progress::RecordSender(uint32_t version, bool voting) {
  version_ = version;
  voting_ = voting;
}

void Progress::Heard(int silence_ticks) {
  ASSERT(silence_ticks > 0);
  if (ticks_since_heard_ >= silence_ticks && AwaitsAcknowledgement()) BecomeUnconfirmed();
  ticks_since_heard_ = 0;
}

void Progress::BecomeUnconfirmed() {
  commit_sent_ = std::min(commit_sent_, match_);
  if (state_ == State::kReplicate) Become(State::kUnconfirmed);
}

void Progress::BecomeSnapshot(const SnapshotTransfer::Limits& limits) {
  ASSERT(state_ != State::kSnapshot);
  Become(State::kSnapshot);
  transfer_ = SnapshotTransfer(limits);
  held_from_ = Index{0};
  RecordHeldProgress();
  ForgetInflight();
  log_read_first_ = Index{0};
  read_entries_.clear();
}

void Progress::LeaveSnapshot(Index index) {
  ASSERT(state_ == State::kSnapshot);
  ASSERT(index >= match_);
  Become(State::kProbe);
  next_ = index + 1;
  transfer_ = SnapshotTransfer{};
  held_from_ = index;
  RecordHeldProgress();
}

void Progress::AcknowledgedChunk(uint64_t next_offset) {
  ASSERT(state_ == State::kSnapshot);
  if (transfer_.Acknowledged(next_offset)) RecordHeldProgress();
}

Index Progress::held_from() const {
  if (held_stalls_) return Index{0};
  return state_ == State::kSnapshot ? transfer_.index() : held_from_;
}

void Progress::RecordHeldProgress() {
  held_stalls_ = false;
  ticks_since_held_progress_ = 0;
}

void Progress::SetLeaving(bool leaving) {
  if (leaving == leaving_) return;
  leaving_ = leaving;
  leaving_ticks_ = 0;
}

void Progress::Tick(int election_ticks, int stall_ticks) {
  constexpr int kTicksMax = 1 << 30;
  ASSERT(election_ticks > 0);
  ticks_since_heard_ = std::min(ticks_since_heard_ + 1, kTicksMax);
  ticks_since_held_progress_ = std::min(ticks_since_held_progress_ + 1, kTicksMax);
  if (ticks_since_held_progress_ >= stall_ticks) held_stalls_ = true;
  if (state_ == State::kSnapshot) transfer_.Tick();
  if (state_ != State::kReplicate || !AwaitsAcknowledgement()) return;
  if (++ticks_since_progress_ >= election_ticks) BecomeUnconfirmed();
}

void Progress::ProbeAgain() {
  // The next request has no entries. It asks whether the entries of the first one have arrived.
  if (IsProbing() && probe_sent_) Become(State::kUnconfirmed);
}

bool Progress::LogReadAnswered(Index first) {
  ASSERT(first > Index{0});
  if (first != log_read_first_) return false;
  log_read_first_ = Index{0};
  return first == next_;
}

void Progress::RoundAnswered(ReadRound round) { read_round_ = std::max(read_round_, round); }

void Progress::CheckInvariants(Index last_index) const {
  ASSERT(match_ < next_);
  ASSERT(next_ <= last_index + 1);
  ASSERT(match_ <= last_index);
  ASSERT(inflight_.size() <= inflight_messages_max_);
  if (state_ == State::kSnapshot) {
    ASSERT(inflight_.empty());
    transfer_.CheckInvariants();
  }
  size_t bytes = 0;
  Index previous = match_;
  for (const Request& request : inflight_) {
    ASSERT(request.last > previous, "requests in flight ascend and are not acknowledged");
    previous = request.last;
    bytes += request.bytes;
  }
  ASSERT(previous < next_);
  ASSERT(bytes == inflight_bytes_);
}

std::string Progress::ToString() const {
  std::string out = Describe(member_) + ":";
  constexpr const char* kStates[] = {"probe", "unconfirmed", "replicate", "snapshot"};
  out += kStates[static_cast<size_t>(state_)];
  out += " match=" + Describe(match_) + " next=" + Describe(next_);
  if (state_ == State::kSnapshot) {
    out += " " + transfer_.ToString();
  }
  if (!voting_) out += " not voting";
  if (leaving_) out += " leaving";
  if (!inflight_.empty()) out += " inflight=" + std::to_string(inflight_.size());
  return out;
}

}  // namespace quorate::consensus
