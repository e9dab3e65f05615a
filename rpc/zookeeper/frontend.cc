// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/frontend.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

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
    if (const std::optional<uint32_t> tag = TagOfSession(change->session)) {
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
          readers = ReadersOf(of_parent ? acls.parent : acls.node);
          readers_of = event;
        }
        const auto tag = static_cast<uint32_t>(watcher);
        LoopOf(tag).Push(WatchEventItem{tag, event, std::string(where), zxid, readers});
      });
}

void ZkFrontend::OnTreeReplaced(const tree::Tree& tree) {
  linearizable_sessions_.Reset(tree);
  ClientFrontend::OnTreeReplaced(tree);
}

WatchTotals ZkFrontend::watch_totals() const {
  MutexLock lock(&watches_.mutex);
  return {watches_.table.watch_count(), watches_.table.bytes()};
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

}  // namespace quorate::rpc::zk
