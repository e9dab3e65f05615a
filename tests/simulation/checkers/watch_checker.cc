// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/checkers/watch_checker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace quorate::simulation {
namespace {

using tree::ErrorCode;
using tree::EventType;

std::string ToString(const std::vector<WatchEvent>& events) {
  return absl::StrCat("[",
                      absl::StrJoin(events, "; ",
                                    [](std::string* out, const WatchEvent& event) {
                                      out->append(simulation::ToString(event));
                                    }),
                      "]");
}

}  // namespace

WatchChecker::WatchChecker(History* history, const Model* model)
    : history_(history), model_(model) {
  history->AddListener(this);
}

size_t WatchChecker::set_count() const {
  size_t count = 0;
  for (const auto& [session, state] : sessions_) count += state.set.size();
  return count;
}

std::vector<WatchChecker::Key> WatchChecker::Consumed(const WatchEvent& event) {
  switch (event.type) {
    case EventType::kNodeChildrenChanged:
      return {{event.path, Model::Table::kChild}};
    case EventType::kNodeDeleted:
      return {{event.path, Model::Table::kData}, {event.path, Model::Table::kChild}};
    default:
      return {{event.path, Model::Table::kData}};
  }
}

void WatchChecker::OnLinkOpened(const Link& link) { sessions_[link.session]; }

void WatchChecker::OnLinkClosed(const Link& link) {
  State& state = sessions_[link.session];
  // Events that setWatches fired before its answer have been received.
  for (const WatchEvent& event : state.found_by_set_watches) {
    for (const Key& key : Consumed(event)) state.to_renew.erase(key);
  }
  state.found_by_set_watches.clear();
  state.set_watches.reset();
  for (auto& [key, watch] : state.set) state.to_renew.insert_or_assign(key, watch);
  state.set.clear();
}

void WatchChecker::OnInvoked(const Operation& operation) {
  if (operation.request.kind != OperationKind::kSetWatches) return;
  State& state = sessions_[history_->link(operation.link).session];
  state.set_watches = operation.id;
  std::vector<std::string> data, exist, child;
  for (const auto& [key, watch] : state.to_renew) {
    (key.second == Model::Table::kChild ? child
     : watch.for_creation               ? exist
                                        : data)
        .push_back(key.first);
  }
  const Request& request = operation.request;
  if (data != request.data_watches || exist != request.exist_watches ||
      child != request.child_watches) {
    history_->Fail(
        "the simulated client renews the watches that it has", operation,
        absl::StrCat("data [", absl::StrJoin(data, " "), "] exist [", absl::StrJoin(exist, " "),
                     "] child [", absl::StrJoin(child, " "), "]"));
  }
}

void WatchChecker::OnAnswered(const Operation& operation) {
  CheckNothingDue(history_->link(operation.link), operation.reply.zxid);
  if (operation.request.kind == OperationKind::kSetWatches) {
    Renew(operation);
  } else if (operation.request.watch) {
    Set(operation);
  }
}

void WatchChecker::Set(const Operation& operation) {
  const Request& request = operation.request;
  const bool for_creation =
      request.kind == OperationKind::kExists && operation.reply.error == ErrorCode::kNoNode;
  if (operation.reply.error != ErrorCode::kOk && !for_creation) return;
  const Key key{request.path, IsList(request.kind) ? Model::Table::kChild : Model::Table::kData};
  const int64_t zxid = operation.reply.zxid;
  // A watch that is set twice still fires once.
  sessions_[history_->link(operation.link).session].set.try_emplace(
      key, Watch{zxid, zxid, for_creation});
}

void WatchChecker::Renew(const Operation& operation) {
  State& state = sessions_[history_->link(operation.link).session];
  const int64_t zxid = operation.reply.zxid;
  const std::vector<WatchEvent> expected = model_->FindMissed(operation.request, zxid);
  if (expected != state.found_by_set_watches) {
    history_->Fail("setWatches reports the missed changes", operation,
                   absl::StrCat("it reported ", ToString(state.found_by_set_watches),
                                " instead of ", ToString(expected)));
  }
  for (const WatchEvent& event : expected) {
    for (const Key& key : Consumed(event)) state.to_renew.erase(key);
  }
  for (auto& [key, watch] : state.to_renew) {
    state.set.insert_or_assign(key, Watch{zxid, zxid, watch.for_creation});
  }
  state.to_renew.clear();
  state.found_by_set_watches.clear();
  state.set_watches.reset();
}

void WatchChecker::CheckNothingDue(const Link& link, int64_t zxid) {
  for (auto& [key, watch] : sessions_[link.session].set) {
    if (watch.quiet_until_zxid >= zxid) continue;
    const auto change = model_->FirstChange(key.first, key.second, watch.since_zxid);
    if (change && change->zxid <= zxid) {
      history_->Fail(
          "an event comes before any reply that shows its change", link,
          absl::StrCat("a reply has zxid ", zxid, "; the ",
                       key.second == Model::Table::kData ? "data" : "child", " watch on ",
                       key.first, ", set at zxid ", watch.since_zxid, ", has not fired for ",
                       simulation::ToString(WatchEvent{change->zxid, change->type, key.first})));
    }
    watch.quiet_until_zxid = zxid;
  }
}

void WatchChecker::OnPong(const Link& link, int64_t zxid) { CheckNothingDue(link, zxid); }

void WatchChecker::OnEvent(const Link& link, const WatchEvent& event) {
  State& state = sessions_[link.session];
  if (event.zxid < 0) {
    if (!state.set_watches) {
      history_->Fail("a watch fires once, and only where it was set", link,
                     absl::StrCat(simulation::ToString(event), " without setWatches under way"));
    }
    state.found_by_set_watches.push_back(event);
    return;
  }
  bool any = false;
  for (const Key& key : Consumed(event)) {
    const auto found = state.set.find(key);
    if (found == state.set.end()) continue;
    any = true;
    const auto change = model_->FirstChange(key.first, key.second, found->second.since_zxid);
    if (!change || change->zxid != event.zxid || change->type != event.type) {
      history_->Fail("a watch reports the first change since it was set", link,
                     absl::StrCat(simulation::ToString(event), "; the watch was set at zxid ",
                                  found->second.since_zxid, ", and the first change since is ",
                                  change ? simulation::ToString(
                                               WatchEvent{change->zxid, change->type, event.path})
                                         : std::string("none")));
    }
    state.set.erase(found);
  }
  if (!any) {
    history_->Fail("a watch fires once, and only where it was set", link,
                   absl::StrCat(simulation::ToString(event), " reached no watch"));
  }
}

}  // namespace quorate::simulation
