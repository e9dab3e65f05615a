// SPDX-License-Identifier: Apache-2.0

// Engine: watches, which continue from one stream to the next.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "client/engine.h"
#include "client/error.h"

namespace quorate::internal {

void Engine::SubmitWatch(uint64_t call, uint64_t watch_id, v1::Request::Watch watch,
                         int deadline_ms, std::shared_ptr<WatchNotifier> notifier, Done done) {
  watch.set_watch_id(watch_id);
  auto request = std::make_unique<v1::Request>();
  *request->mutable_watch() = watch;
  auto add = [this, watch_id, watch = std::move(watch), notifier = std::move(notifier)]() mutable {
    if (is_over_) return Dispose(std::move(notifier));
    Watched& watched = watches_[watch_id];
    watched.position = watch.after_zxid();
    watched.watch = std::move(watch);
    watched.notifier = std::move(notifier);
  };
  Add({nullptr, std::move(add)});
  Submit(call, std::move(request), deadline_ms,
         [this, watch_id, done = std::move(done)](absl::StatusOr<v1::Response> response) mutable {
           if (!response.ok()) ForgetWatch(watch_id);
           return done(std::move(response));
         });
}

void Engine::RemoveWatch(uint64_t watch_id) {
  Add({nullptr, [this, watch_id] { EndWatch(watch_id); }});
}

void Engine::EndWatch(uint64_t watch_id) {
  const auto found = watches_.find(watch_id);
  if (found == watches_.end()) return;
  const bool is_live = found->second.is_live;
  ForgetWatch(watch_id);
  // A watch whose request was sent and not answered is ended by OnWatchAnswered.
  if (is_live) Unwatch(watch_id);
}

void Engine::EndWatches() {
  while (!watches_.empty()) ForgetWatch(watches_.begin()->first);
}

void Engine::ForgetWatch(uint64_t watch_id) {
  const auto found = watches_.find(watch_id);
  if (found == watches_.end()) return;
  Dispose(std::move(found->second.notifier));
  watches_.erase(found);
}

void Engine::Unwatch(uint64_t watch_id) {
  auto request = std::make_unique<v1::Request>();
  request->mutable_unwatch()->set_watch_id(watch_id);
  AddOwn(std::move(request));
}

void Engine::RewatchAll() {
  is_rewatching_ = false;
  // AddOwn inserts each request before those added earlier, so this keeps the order of the watches.
  for (auto watch = watches_.rbegin(); watch != watches_.rend(); ++watch) {
    if (!watch->second.is_established) continue;  // its request is pending
    auto request = std::make_unique<v1::Request>();
    *request->mutable_watch() = watch->second.watch;
    AddOwn(std::move(request));
    is_rewatching_ = true;
  }
}

bool Engine::IsRewatching() {
  if (!is_rewatching_) return false;
  // The engine's own requests come before all unsent requests of calls.
  const auto others = std::find_if(pending_.begin(), pending_.end(),
                                   [](const auto& pending) { return pending->call != 0; });
  is_rewatching_ = std::any_of(pending_.begin(), others,
                               [](const auto& pending) { return pending->watch_id != 0; });
  return is_rewatching_;
}

bool Engine::PrepareWatch(Pending* pending) {
  const auto found = watches_.find(pending->watch_id);
  if (found == watches_.end()) return false;
  Watched& watched = found->second;
  const bool is_partial = watched.event_zxid > watched.position;
  watched.skip = is_partial ? watched.event_count : 0;
  pending->request->mutable_watch()->set_after_zxid(is_partial ? watched.event_zxid - 1
                                                               : watched.position);
  return true;
}

bool Engine::OnWatchAnswered(std::unique_ptr<Pending>* pending, const v1::Response& response) {
  const auto found = watches_.find((*pending)->watch_id);
  if (found == watches_.end()) {
    if (response.error() == v1::ERROR_CODE_UNSPECIFIED) Unwatch((*pending)->watch_id);
    return false;
  }
  Watched& watched = found->second;
  if (response.error() == v1::ERROR_CODE_EVENTS_LOST) {
    watched.is_reset = true;
    watched.position = watched.event_zxid = watched.event_count = 0;
    (*pending)->was_sent = false;  // sent again as a new request, with a new id
    pending_.insert(pending_.begin() + static_cast<ptrdiff_t>(sent_), std::move(*pending));
    return true;
  }
  if (response.error() != v1::ERROR_CODE_UNSPECIFIED) {
    // A watch that was set before must not be refused: only a request of a call may be.
    if ((*pending)->call != 0) return false;
    Abandon(absl::InternalError(
        absl::StrCat(Describe(*(*pending)->request), ": ",
                     ToAbsl(NameOf(static_cast<ErrorCode>(response.error()))))));
    return true;
  }
  watched.is_live = watched.is_established = true;
  watched.position = std::max(watched.position, response.zxid());
  watched.skip = 0;
  if (std::exchange(watched.is_reset, false)) {
    Notify(watched.notifier.get(), WatchReset{watched.position});
  }
  return false;
}

void Engine::OnEvent(const v1::WatchEvent& told) {
  const Event event{static_cast<EventType>(told.event().type()), told.event().path(),
                    told.event().zxid()};
  last_zxid_ = std::max(last_zxid_, event.zxid);
  for (const uint64_t watch_id : told.watch_ids()) {
    const auto found = watches_.find(watch_id);
    if (found == watches_.end()) continue;
    Watched& watched = found->second;
    if (event.zxid == watched.event_zxid) {
      if (watched.skip > 0) {
        --watched.skip;
        continue;
      }
      ++watched.event_count;
    } else {
      watched.event_zxid = event.zxid;
      watched.event_count = 1;
      watched.skip = 0;
    }
    Notify(watched.notifier.get(), event);
  }
}

void Engine::ResetWatches() {
  for (auto& [watch_id, watched] : watches_) {
    watched.position = watched.event_zxid = 0;
    watched.event_count = watched.skip = 0;
    watched.is_live = false;
    watched.is_reset = true;
  }
}

void Engine::DetachWatches() {
  for (auto& [watch_id, watched] : watches_) {
    if (!std::exchange(watched.is_live, false)) continue;
    watched.position = std::max(watched.position, stream_zxid_);
  }
}

}  // namespace quorate::internal
