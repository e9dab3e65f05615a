// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/frontend.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/frontend/client_identities.h"
#include "rpc/zookeeper/connection_loop.h"

template class quorate::rpc::ClientFrontend<quorate::rpc::zk::ConnectionLoop>;

namespace quorate::rpc::zk {
namespace {

constexpr auto kRefusalLogPeriod = std::chrono::seconds(5);

}  // namespace

ZkFrontend::ZkFrontend(const Config& config, Service* service, const Clock* clock,
                       RandomBytes* random, const EventHistory* history)
    : ClientFrontend(config, service, clock, random, kZooKeeperTags),
      history_(history),
      local_sessions_(config.tick_time_ms),
      info_(this),
      words_(this) {}

// --- Applied entries -----------------------------------------------------------------------------

bool ZkFrontend::AllowsInlineApply() const {
  if (!watches_.mutex.TryLock()) return false;
  const bool allows_inline =
      watches_.table.watch_count() <= kInlineWatchesMax || watches_.table.crowded_path_count() == 0;
  watches_.mutex.Unlock();
  return allows_inline;
}

void ZkFrontend::OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                             const tree::EventAcls& acls) {
  listings().OnNodeEvent(type, path);
  if (const auto change = linearizable_sessions_.OnNodeEvent(type, path)) {
    std::optional<uint32_t> tag = TagOfSession(change->session);
    if (!tag.has_value()) tag = local_sessions_.TagOf(change->session);
    if (tag.has_value()) {
      LoopOf(*tag).Push(LinearizableItem{*tag, change->is_linearizable});
    }
  }
  MutexLock lock(&watches_.mutex);
  if (watches_.table.empty()) return;
  Readers readers;
  tree::EventType readers_of{};
  watches_.table.Fire(
      type, path, [&](tree::WatcherId watcher, tree::EventType event, std::string_view where) {
        if (event != readers_of) {
          const bool of_parent = event == tree::EventType::kNodeChildrenChanged;
          readers = readers_.Of(zxid, of_parent ? acls.parent : acls.node);
          readers_of = event;
        }
        const auto tag = static_cast<uint32_t>(watcher);
        LoopOf(tag).Push(WatchEventItem{tag, event, std::string(where), zxid, readers});
      });
}

void ZkFrontend::OnSessionAttached(const tree::SessionInfo& session) {
  local_sessions_.OnGlobal(session.id);
  ClientFrontend::OnSessionAttached(session);
}

void ZkFrontend::OnTreeReplaced(const tree::Tree& tree) {
  local_sessions_.OnTreeReplaced();
  linearizable_sessions_.Reset(tree);
  ClientFrontend::OnTreeReplaced(tree);
}

WatchTotals ZkFrontend::watch_totals() const {
  MutexLock lock(&watches_.mutex);
  return {watches_.table.watch_count(), watches_.table.bytes()};
}

// --- Local sessions ------------------------------------------------------------------------------

bool ZkFrontend::MakesLocalSessions() {
  if (!config().local_sessions) return false;
  const uint32_t version = service().cluster_version();
  if (version >= tree::kVersionLocalSessions) return true;
  if (!has_logged_version_.exchange(true)) {
    spdlog::info(
        "new sessions are global in spite of localSessionsEnabled until every member understands "
        "local sessions: cluster_version={} needed={}",
        version, tree::kVersionLocalSessions);
  }
  return false;
}

LocalSessions::Taking ZkFrontend::TakeLocalSession(tree::SessionId id, std::string_view password,
                                                   int32_t timeout_ms, uint32_t tag) {
  if (local_sessions_.size() == 0) return LocalSessions::Taking::kUnknown;
  const LocalSessions::Taken taken = local_sessions_.Take(id, password, timeout_ms, tag);
  if (taken.other.has_value()) {
    // No command has this zxid, so the other connection sees that the session has moved.
    LoopOf(*taken.other).Push(ConnectionLoop::SessionAttached{*taken.other, tree::Zxid(-1)});
    LoopOf(*taken.other).Wake();
  }
  return taken.result;
}

void ZkFrontend::EndSilentLocalSessions() {
  size_t ended = 0;
  const std::vector<LocalSessions::Due> due = local_sessions_.Advance(clock().Now());
  for (const LocalSessions::Due& one : due) {
    if (!one.tag.has_value()) {
      ++ended;
      continue;
    }
    LoopOf(*one.tag).Push(LocalSessionDueItem{*one.tag});
    LoopOf(*one.tag).Wake();
  }
  if (ended > 0) spdlog::info("local sessions without a connection have expired: count={}", ended);
}

// --- Connections ---------------------------------------------------------------------------------

bool ZkFrontend::AdmitOrRefuse(const std::string& address) {
  const Admission admission = Admit(address);
  if (admission == Admission::kTooMany) {
    Refuse(address, absl::StrCat(config().max_connections, " are open (maxCnxns)"));
  } else if (admission == Admission::kTooManyOfAddress) {
    Refuse(address,
           absl::StrCat("it has ", config().max_client_connections, " already (maxClientCnxns)"));
  }
  return admission == Admission::kAdmitted;
}

void ZkFrontend::Refuse(const std::string& address, const std::string& why) {
  statistics_.connections_refused.fetch_add(1);
  const auto now = clock().Now();
  MutexLock lock(&refusals_mutex_);
  if (now - refusal_logged_ < kRefusalLogPeriod) {
    ++refusals_not_logged_;
    return;
  }
  refusal_logged_ = now;
  spdlog::warn(
      "refusing a connection of {}{}: {}", address,
      refusals_not_logged_ > 0 ? fmt::format(" (and {} before)", refusals_not_logged_) : "", why);
  refusals_not_logged_ = 0;
}

void ZkFrontend::ShowNodeWatches(
    WatchesShown* shown, const std::function<void(std::string_view path, int64_t session)>& watch) {
  MutexLock lock(&watches_.mutex);
  size_t looked_at = 0;
  while (!shown->done && looked_at < kNodesPerHold) {
    shown->all = watches_.table.ForEachNodeWatch(
        shown->part, [&](tree::WatcherId watcher, std::string_view path) {
          if (shown->count_left == 0 || shown->bytes_left < path.size()) return false;
          --shown->count_left;
          shown->bytes_left -= path.size();
          ++looked_at;
          watch(path, statistics_.SessionOf(static_cast<uint32_t>(watcher)));
          return true;
        });
    shown->done = !shown->all || ++shown->part == tree::WatchTable::kParts;
  }
}

void ZkFrontend::ShowWatchesAt(
    std::string_view path,
    const std::function<bool(int64_t session, tree::WatchTable::WatchOf of)>& watch) {
  MutexLock lock(&watches_.mutex);
  watches_.table.ForEachWatchAt(path, [&](tree::WatcherId watcher, tree::WatchTable::WatchOf of) {
    return watch(statistics_.SessionOf(static_cast<uint32_t>(watcher)), of);
  });
}

}  // namespace quorate::rpc::zk
