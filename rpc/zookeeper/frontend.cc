#include "rpc/zookeeper/frontend.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "rpc/frontend/client_identities.h"
#include "rpc/frontend/frontends.h"
#include "rpc/frontend/session_ids.h"
#include "rpc/zookeeper/connection_loop.h"

namespace quorate::rpc::zk {
namespace {

constexpr auto kRefusalLogPeriod = std::chrono::seconds(5);

}  // namespace

ZkFrontend::ZkFrontend(const Config& config, Service* service, const Clock* clock,
                       RandomBytes* random)
    : config_(config),
      members_text_(config.MembersText()),
      service_(service),
      clock_(clock),
      random_(random),
      words_(this) {}

size_t ZkFrontend::AddLoop(ConnectionLoop* loop) {
  ASSERT(next_tag_.load() == 0, "tags tell the loops apart by their number");
  loops_.push_back(loop);
  return loops_.size() - 1;
}

ConnectionLoop& ZkFrontend::LoopOf(uint32_t tag) {
  return *loops_[(tag - kZooKeeperTags.first) % loops_.size()];
}

uint32_t ZkFrontend::NewTag(size_t loop) {
  const auto loops = static_cast<uint32_t>(loops_.size());
  // Each loop has equally many tags, so that the numbering can wrap around.
  const uint32_t of_loop = next_tag_.fetch_add(1) % (kZooKeeperTags.count / loops);
  return kZooKeeperTags.first + of_loop * loops + static_cast<uint32_t>(loop);
}

tree::SessionId ZkFrontend::NewSessionId() {
  return DrawSessionId(service_->proposer().member, random_);
}

// --- What was applied ----------------------------------------------------------------------------

bool ZkFrontend::AllowsInlineApply() const {
  if (!watches_.mutex.TryLock()) return false;
  const bool allows_inline =
      watches_.table.watch_count() <= kInlineWatchesMax || watches_.table.crowded_path_count() == 0;
  watches_.mutex.Unlock();
  return allows_inline;
}

void ZkFrontend::OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                             const tree::EventAcls& acls) {
  listings_.OnNodeEvent(type, path);
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
        LoopOf(tag).Push(ConnectionLoop::WatchEvent{tag, event, std::string(where), zxid, readers});
      });
}

void ZkFrontend::OnSessionAttached(const tree::SessionInfo& session) {
  const std::optional<uint32_t> tag = sessions_.Take(session.id);
  if (tag.has_value())
    LoopOf(*tag).Push(ConnectionLoop::SessionAttached{*tag, session.attach_zxid});
}

void ZkFrontend::OnSessionClosed(tree::SessionId session, tree::Zxid) {
  const std::optional<uint32_t> tag = sessions_.Take(session);
  if (tag.has_value()) LoopOf(*tag).Push(ConnectionLoop::SessionClosed{*tag});
}

void ZkFrontend::OnResult(tree::ApplyResult result) {
  const uint32_t tag = result.header.proposer_tag;
  const tree::CommandKind kind = result.header.kind;
  if ((kind == tree::CommandKind::kCreateSession || kind == tree::CommandKind::kAttachSession) &&
      result.error == tree::ErrorCode::kOk) {
    sessions_.Set(result.header.session, tag);
  }
  LoopOf(tag).Push(std::move(result));
}

void ZkFrontend::OnTreeReplaced(const tree::Tree& /*tree*/) {
  for (ConnectionLoop* loop : loops_) loop->Push(ConnectionLoop::TreeReplaced{});
}

std::vector<int64_t> ZkFrontend::HeldUpSessions() {
  return sessions_.OfStalledLoops(loops_, clock_->Now(),
                                  [this](uint32_t tag) { return &LoopOf(tag); });
}

WatchTotals ZkFrontend::watch_totals() const {
  MutexLock lock(&watches_.mutex);
  return {watches_.table.watch_count(), watches_.table.bytes()};
}

void ZkFrontend::OnBatchApplied() {
  for (ConnectionLoop* loop : loops_) loop->Wake();
}

void ZkFrontend::OnSyncDone(uint32_t proposer_tag, uint64_t sync_id, tree::Zxid zxid) {
  ConnectionLoop& loop = LoopOf(proposer_tag);
  loop.Push(ConnectionLoop::SyncDone{proposer_tag, sync_id, zxid});
  loop.Wake();
}

// --- Connections ---------------------------------------------------------------------------------

void ZkFrontend::ForgetSession(tree::SessionId session, uint32_t tag) {
  sessions_.Forget(session, tag);
}

bool ZkFrontend::AdmitAddress(const std::string& address) {
  if (config_.max_connections > 0 && statistics_.connections() >= config_.max_connections) {
    Refuse(address, absl::StrCat(config_.max_connections, " are open (maxCnxns)"));
    return false;
  }
  const int max = config_.max_client_connections;
  if (!addresses_.Add(address, max)) {
    Refuse(address, absl::StrCat("it has ", max, " already (maxClientCnxns)"));
    return false;
  }
  return true;
}

void ZkFrontend::Refuse(const std::string& address, const std::string& why) {
  statistics_.connections_refused.fetch_add(1);
  const auto now = clock_->Now();
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

void ZkFrontend::ReleaseAddress(const std::string& address) { addresses_.Remove(address); }

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
