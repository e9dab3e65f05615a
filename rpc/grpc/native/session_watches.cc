// SPDX-License-Identifier: Apache-2.0

// The watches of a session's stream.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/seeded_bug.h"
#include "rpc/grpc/native/session_stream.h"
#include "rpc/grpc/native/stream_loop.h"
#include "rpc/grpc/native/translation.h"
#include "rpc/grpc/native/writes.h"
#include "tree/path.h"

namespace quorate::rpc::native {
namespace {

// The cost of adding or removing a watch, in znodes.
constexpr size_t kNodesPerWatch = 4;
// The number of watches of an event that cost as much as one znode.
constexpr size_t kWatchesPerNode = 8;

}  // namespace

void SessionStream::DoWatches() {
  if (!resumption_.has_value()) resumption_.emplace();
  if (TakeWatches() && SendHistory() && AnswerWatches()) resumption_.reset();
}

bool SessionStream::HasSpentEnough() {
  wants_to_continue_ |= loop_->has_spent_enough();
  return loop_->has_spent_enough();
}

bool SessionStream::TakeWatches() {
  WatchResumption& resumption = *resumption_;
  while (!resumption.taken) {
    if (HasSpentEnough()) return false;
    Pending* pending =
        resumption.requests < pipeline_.size() ? &pipeline_[resumption.requests] : nullptr;
    if (pending == nullptr || pending->stage != Stage::kReady ||
        pending->kind != v1::Request::kWatch) {
      resumption.taken = true;
    } else {
      ++resumption.requests;
      TakeRequest(pending);
      loop_->Spend(kNodesPerWatch);
    }
  }
  return true;
}

void SessionStream::TakeRequest(Pending* pending) {
  const v1::Request::Watch& watch = pending->request->watch();
  v1::Response response;
  const v1::ErrorCode error = TakeWatch(watch, &response);
  if (error != v1::ERROR_CODE_UNSPECIFIED) {
    response.set_zxid(loop_->seen_zxid().value());
    response.set_error(error);
    AnswerRead(std::move(response), pending);
    return;
  }
  if (watch.after_zxid() == 0) {
    resumption_->after[watch.watch_id()] = WatchResumption::kFromNow;
    return;
  }
  const tree::Zxid after(watch.after_zxid());
  resumption_->after[watch.watch_id()] = after;
  const EventHistory& history = loop_->frontend().history();
  const uint64_t first = SeededBug("a stream lacks the events before it")
                             ? history.next_number()
                             : history.NumberAfter(after);
  resumption_->next = std::min(resumption_->next.value_or(first), first);
}

v1::ErrorCode SessionStream::TakeWatch(const v1::Request::Watch& watch, v1::Response* response) {
  Scope scope{};
  const EventHistory& history = loop_->frontend().history();
  const tree::Zxid after(watch.after_zxid());
  if (!tree::IsValidPath(watch.path(), /*sequential=*/false) || !FromProto(watch.scope(), &scope) ||
      watch.after_zxid() < 0 || watch_places_.contains(watch.watch_id())) {
    return v1::ERROR_CODE_BAD_ARGUMENTS;
  }
  if (watch_places_.size() >= kWatchesMax || watch_bytes_ + watch.path().size() > kWatchBytesMax ||
      watches_.Count(watch.path(), scope) >= kWatchesOfPathMax) {
    return v1::ERROR_CODE_TOO_LARGE;
  }
  if (!tenants().MayWatch()) {
    tenants().OnReached(Limit::kWatches, loop_->now());
    return v1::ERROR_CODE_TOO_LARGE;
  }
  if (after > loop_->seen_zxid())
    return v1::ERROR_CODE_UNAVAILABLE;  // this member is behind the client
  if (watch.after_zxid() != 0 && after < history.oldest()) {
    response->mutable_watch()->set_oldest_zxid(history.oldest().value());
    return v1::ERROR_CODE_EVENTS_LOST;
  }
  loop_->frontend().AddWatch(tag(), watch.path(), scope);
  watches_.Add(watch.watch_id(), watch.path(), scope);
  watch_places_[watch.watch_id()] = {watch.path(), scope};
  watch_bytes_ += watch.path().size();
  tenants().SetWatches(watch_places_.size());
  return v1::ERROR_CODE_UNSPECIFIED;
}

// While the history is being read, a watch that resumes gets all its events from the history. Once
// an iteration has read the history to its end, the next event of the watch is one that arrives.
bool SessionStream::IsLive(uint64_t watch_id) const {
  if (!resumption_.has_value()) return true;
  const auto waiting = resumption_->after.find(watch_id);
  if (waiting == resumption_->after.end()) return true;
  return resumption_->history_sent && waiting->second != WatchResumption::kFromNow;
}

bool SessionStream::SendHistory() {
  WatchResumption& resumption = *resumption_;
  const EventHistory& history = loop_->frontend().history();
  if (!resumption.next.has_value()) resumption.history_sent = true;
  while (!resumption.history_sent && history.IsLost(*resumption.next)) {
    if (!EndLostWatches()) return false;
  }
  if (resumption.history_sent) return true;
  std::vector<uint64_t> watch_ids;
  EventHistory::Reader reader(history, *resumption.next);
  while (!reader.at_end()) {
    paused_ = HasMuchToSend();
    if (paused_ || HasSpentEnough()) break;
    const Event& event = reader.Next();
    watch_ids.clear();
    watches_.Find(event.path, &watch_ids);
    loop_->Spend(1 + watch_ids.size() / kWatchesPerNode);
    std::erase_if(watch_ids, [&](uint64_t id) {
      const auto waiting = resumption.after.find(id);
      return waiting == resumption.after.end() || event.zxid <= waiting->second;
    });
    SendEvent(event, &watch_ids);
  }
  resumption.next = reader.number();
  resumption.history_sent = reader.at_end();
  return resumption.history_sent;
}

// Answers EVENTS_LOST for the watches whose next events the history dropped before they were read.
// If the history drops more events in the meantime, this is done again for their watches.
bool SessionStream::EndLostWatches() {
  WatchResumption& resumption = *resumption_;
  if (!resumption.lost_before.has_value()) {
    const EventHistory& history = loop_->frontend().history();
    resumption.lost_before = history.oldest();
    resumption.next_kept = history.NumberAfter(history.oldest());
    resumption.checked = 0;
  }
  for (; resumption.checked < resumption.requests; ++resumption.checked) {
    if (HasSpentEnough()) return false;
    loop_->Spend(1);
    Pending& pending = pipeline_[resumption.checked];
    if (pending.stage != Stage::kReady) continue;
    const uint64_t watch_id = pending.request->watch().watch_id();
    if (resumption.after.at(watch_id) >= *resumption.lost_before) continue;
    resumption.after.erase(watch_id);
    DropWatch(watch_id);
    loop_->Spend(kNodesPerWatch);
    v1::Response response;
    response.set_zxid(loop_->seen_zxid().value());
    response.set_error(v1::ERROR_CODE_EVENTS_LOST);
    response.mutable_watch()->set_oldest_zxid(loop_->frontend().history().oldest().value());
    AnswerRead(std::move(response), &pending);
  }
  resumption.lost_before.reset();
  resumption.next = resumption.next_kept;
  return true;
}

bool SessionStream::AnswerWatches() {
  WatchResumption& resumption = *resumption_;
  for (; resumption.answered < resumption.requests; ++resumption.answered) {
    if (HasSpentEnough()) return false;
    loop_->Spend(1);
    Pending& pending = pipeline_[resumption.answered];
    if (pending.stage != Stage::kReady) continue;
    resumption.after.erase(pending.request->watch().watch_id());
    v1::Response response;
    response.set_zxid(loop_->seen_zxid().value());
    response.mutable_watch();
    AnswerRead(std::move(response), &pending);
  }
  return true;
}

void SessionStream::DropWatch(uint64_t watch_id) {
  const auto found = watch_places_.find(watch_id);
  ASSERT(found != watch_places_.end());
  loop_->frontend().RemoveWatch(tag(), found->second.path, found->second.scope);
  watches_.Remove(watch_id, found->second.path, found->second.scope);
  watch_bytes_ -= found->second.path.size();
  watch_places_.erase(found);
  tenants().SetWatches(watch_places_.size());
}

void SessionStream::DoUnwatch(uint64_t watch_id) {
  // There may be no such watch.
  if (watch_places_.contains(watch_id)) DropWatch(watch_id);
}

void SessionStream::DropWatches(size_t max) {
  for (; max > 0 && has_watches(); --max) DropWatch(watch_places_.begin()->first);
}

}  // namespace quorate::rpc::native
