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

// Events of the past at which one stream looks in one turn, as long as which the tree is locked.
constexpr int kEventsAtOnceMax = 10'000;

}  // namespace

// The watches are there as soon as they are answered. What happens before that is told from the
// history, up to its end, in the turn in which they are.
void SessionStream::DoWatches() {
  if (!resumption_.has_value()) TakeWatches();
  if (!TellThePast()) return;
  for (size_t i = 0; i < resumption_->requests; ++i) {
    Pending& pending = pipeline_[i];
    if (pending.stage != Stage::kReady) continue;
    const uint64_t watch_id = pending.request->watch().watch_id();
    const WatchPlace& place = watch_places_.at(watch_id);
    watches_.Add(watch_id, place.path, place.scope);
    v1::Response response;
    response.set_zxid(loop_->seen_zxid().value());
    response.mutable_watch();
    AnswerRead(std::move(response), &pending);
  }
  resumption_.reset();
}

void SessionStream::TakeWatches() {
  WatchResumption& resumption = resumption_.emplace();
  const EventHistory& history = loop_->frontend().history();
  resumption.next = history.next_number();
  for (Pending& pending : pipeline_) {
    if (pending.stage != Stage::kReady || pending.kind != v1::Request::kWatch) break;
    ++resumption.requests;
    const v1::Request::Watch& watch = pending.request->watch();
    v1::Response response;
    const v1::ErrorCode error = TakeWatch(watch, &response);
    if (error != v1::OK) {
      response.set_zxid(loop_->seen_zxid().value());
      response.set_error(error);
      AnswerRead(std::move(response), &pending);
    } else if (watch.after_zxid() != 0) {
      const tree::Zxid after(watch.after_zxid());
      const WatchPlace& place = watch_places_.at(watch.watch_id());
      resumption.watches.Add(watch.watch_id(), place.path, place.scope);
      resumption.after[watch.watch_id()] = after;
      if (SeededBug("a stream lacks the events before it")) continue;
      resumption.next = std::min(resumption.next, history.NumberAfter(after));
    }
  }
}

v1::ErrorCode SessionStream::TakeWatch(const v1::Request::Watch& watch, v1::Response* response) {
  Scope scope{};
  const EventHistory& history = loop_->frontend().history();
  const tree::Zxid after(watch.after_zxid());
  if (!tree::IsValidPath(watch.path(), /*sequential=*/false) || !FromProto(watch.scope(), &scope) ||
      watch.after_zxid() < 0 || watch_places_.contains(watch.watch_id())) {
    return v1::BAD_ARGUMENTS;
  }
  if (watch_places_.size() >= kWatchesMax || watch_bytes_ + watch.path().size() > kWatchBytesMax) {
    return v1::TOO_LARGE;
  }
  if (after > loop_->seen_zxid()) return v1::UNAVAILABLE;  // behind what the client has seen
  if (watch.after_zxid() != 0 && after < history.oldest()) {
    response->mutable_watch()->set_oldest_zxid(history.oldest().value());
    return v1::EVENTS_LOST;
  }
  loop_->frontend().AddWatch(tag(), watch.path(), scope);
  watch_places_[watch.watch_id()] = {watch.path(), scope};
  watch_bytes_ += watch.path().size();
  return v1::OK;
}

// Returns whether all of it is told.
bool SessionStream::TellThePast() {
  const EventHistory& history = loop_->frontend().history();
  std::vector<uint64_t> watch_ids;
  if (history.IsLost(resumption_->next)) GiveUpWhatIsLost();
  EventHistory::Reader reader(history, resumption_->next);
  for (int looked_at = 0; !reader.at_end(); ++looked_at) {
    paused_ = HasMuchToSend();
    wants_to_continue_ |= !paused_ && looked_at == kEventsAtOnceMax;
    if (paused_ || looked_at == kEventsAtOnceMax) break;
    const Event& event = reader.Next();
    watch_ids.clear();
    resumption_->watches.Find(event.path, &watch_ids);
    std::erase_if(watch_ids, [&](uint64_t id) { return event.zxid <= resumption_->after.at(id); });
    SendEvent(event, &watch_ids);
  }
  resumption_->next = reader.number();
  return reader.at_end();
}

// The history has dropped events at which nobody had looked yet.
void SessionStream::GiveUpWhatIsLost() {
  const tree::Zxid oldest = loop_->frontend().history().oldest();
  for (size_t i = 0; i < resumption_->requests; ++i) {
    Pending& pending = pipeline_[i];
    if (pending.stage != Stage::kReady) continue;
    const uint64_t watch_id = pending.request->watch().watch_id();
    const auto after = resumption_->after.find(watch_id);
    if (after == resumption_->after.end() || after->second >= oldest) continue;
    const WatchPlace& place = watch_places_.at(watch_id);
    resumption_->watches.Remove(watch_id, place.path, place.scope);
    resumption_->after.erase(after);
    DropWatch(watch_id);
    v1::Response response;
    response.set_zxid(loop_->seen_zxid().value());
    response.set_error(v1::EVENTS_LOST);
    response.mutable_watch()->set_oldest_zxid(oldest.value());
    AnswerRead(std::move(response), &pending);
  }
  resumption_->next = loop_->frontend().history().NumberAfter(oldest);
}

void SessionStream::DropWatch(uint64_t watch_id) {
  const auto found = watch_places_.find(watch_id);
  ASSERT(found != watch_places_.end());
  loop_->frontend().RemoveWatch(tag(), found->second.path, found->second.scope);
  watch_bytes_ -= found->second.path.size();
  watch_places_.erase(found);
}

void SessionStream::DoUnwatch(uint64_t watch_id) {
  const auto found = watch_places_.find(watch_id);
  if (found == watch_places_.end()) return;  // what was wanted is so already
  watches_.Remove(watch_id, found->second.path, found->second.scope);
  DropWatch(watch_id);
}

void SessionStream::DropWatches(size_t max) {
  for (; max > 0 && has_watches(); --max) DropWatch(watch_places_.begin()->first);
}

}  // namespace quorate::rpc::native
