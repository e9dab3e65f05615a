#include "rpc/zk/door.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/assert.h"
#include "rpc/zk/connection_loop.h"

namespace quorate::rpc::zk {
namespace {

// What we say we are: clients and monitoring tools look for a ZooKeeper version.
constexpr char kVersion[] = "3.8.0-quorate, built on 2026-11-21";

// As ZooKeeper makes them, of the server's number and a time; but of its incarnation, a time that
// grows with each start, lest a clock that went back hands out the same ids again.
int64_t FirstSessionId(const tree::Origin& origin) {
  return static_cast<int64_t>((origin.incarnation << 24 >> 8) & 0x00FFFFFFFFFFFFFF) |
         (static_cast<int64_t>(origin.member) << 56);
}

}  // namespace

ZkDoor::ZkDoor(const Config& config, Service* service, const Clock* clock, RandomBytes* random)
    : config_(config),
      service_(service),
      clock_(clock),
      random_(random),
      next_session_(FirstSessionId(service->origin())),
      started_(clock->Now()) {}

size_t ZkDoor::AddLoop(ConnectionLoop* loop) {
  ASSERT(next_tag_.load() == 0, "tags tell the loops apart by their number");
  loops_.push_back(loop);
  return loops_.size() - 1;
}

ConnectionLoop& ZkDoor::LoopOf(uint32_t tag) { return *loops_[tag % loops_.size()]; }

uint32_t ZkDoor::NewTag(size_t loop) {
  return static_cast<uint32_t>(next_tag_.fetch_add(1) * loops_.size() + loop);
}

tree::SessionId ZkDoor::NewSessionId() { return tree::SessionId(next_session_.fetch_add(1)); }

// --- What was applied ----------------------------------------------------------------------------

void ZkDoor::OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid) {
  MutexLock lock(&watches_.mutex);
  if (watches_.table.empty()) return;
  watches_.table.Fire(
      type, path, [&](tree::WatcherId watcher, tree::EventType event, std::string_view where) {
        const auto tag = static_cast<uint32_t>(watcher);
        LoopOf(tag).Push(ConnectionLoop::WatchEvent{tag, event, std::string(where), zxid});
      });
}

void ZkDoor::OnSessionAttached(const tree::SessionInfo& session) {
  MutexLock lock(&sessions_mutex_);
  auto it = session_tags_.find(session.id);
  if (it == session_tags_.end()) return;
  LoopOf(it->second).Push(ConnectionLoop::SessionAttached{it->second, session.attach_zxid});
  session_tags_.erase(it);
}

void ZkDoor::OnSessionClosed(tree::SessionId session, tree::Zxid) {
  MutexLock lock(&sessions_mutex_);
  auto it = session_tags_.find(session);
  if (it == session_tags_.end()) return;
  LoopOf(it->second).Push(ConnectionLoop::SessionClosed{it->second});
  session_tags_.erase(it);
}

void ZkDoor::OnResult(tree::ApplyResult result) {
  const uint32_t tag = result.header.origin_tag;
  const tree::CommandKind kind = result.header.kind;
  if ((kind == tree::CommandKind::kCreateSession || kind == tree::CommandKind::kAttachSession) &&
      result.error == tree::ErrorCode::kOk) {
    MutexLock lock(&sessions_mutex_);
    session_tags_[result.header.session] = tag;
  }
  LoopOf(tag).Push(std::move(result));
}

void ZkDoor::OnTreeReplaced() {
  for (ConnectionLoop* loop : loops_) loop->Push(ConnectionLoop::TreeReplaced{});
}

void ZkDoor::OnBatchApplied() {
  for (ConnectionLoop* loop : loops_) loop->Wake();
}

void ZkDoor::OnSyncDone(uint32_t origin_tag, uint64_t sync_id, tree::Zxid zxid) {
  ConnectionLoop& loop = LoopOf(origin_tag);
  loop.Push(ConnectionLoop::SyncDone{origin_tag, sync_id, zxid});
  loop.Wake();
}

// --- Connections ---------------------------------------------------------------------------------

void ZkDoor::ForgetSession(tree::SessionId session, uint32_t tag) {
  MutexLock lock(&sessions_mutex_);
  auto it = session_tags_.find(session);
  if (it != session_tags_.end() && it->second == tag) session_tags_.erase(it);
}

bool ZkDoor::AdmitAddress(const std::string& address) {
  MutexLock lock(&addresses_mutex_);
  int& count = addresses_[address];
  if (config_.max_client_connections > 0 && count >= config_.max_client_connections) {
    spdlog::warn("refusing a connection of {}: it has {} already (maxClientCnxns)", address, count);
    statistics_.connections_refused.fetch_add(1);
    return false;
  }
  ++count;
  return true;
}

void ZkDoor::ReleaseAddress(const std::string& address) {
  MutexLock lock(&addresses_mutex_);
  auto it = addresses_.find(address);
  ASSERT(it != addresses_.end());
  if (--it->second == 0) addresses_.erase(it);
}

void ZkDoor::AddConnection(uint32_t tag, std::string peer) {
  statistics_.connections.fetch_add(1);
  MutexLock lock(&connections_mutex_);
  connections_[tag].peer = std::move(peer);
}

void ZkDoor::UpdateConnection(const Connection& connection) {
  MutexLock lock(&connections_mutex_);
  auto it = connections_.find(connection.tag());
  if (it == connections_.end()) return;
  ConnectionLine& line = it->second;
  statistics_.packets_received.fetch_add(connection.packets_received() - line.received);
  statistics_.packets_sent.fetch_add(connection.packets_sent() - line.sent);
  statistics_.outstanding.fetch_add(static_cast<int64_t>(connection.queued()) - line.queued);
  line.received = connection.packets_received();
  line.sent = connection.packets_sent();
  line.queued = static_cast<int64_t>(connection.queued());
}

void ZkDoor::RemoveConnection(uint32_t tag) {
  statistics_.connections.fetch_sub(1);
  MutexLock lock(&connections_mutex_);
  auto it = connections_.find(tag);
  ASSERT(it != connections_.end());
  statistics_.outstanding.fetch_sub(it->second.queued);
  connections_.erase(it);
}

// --- Four-letter words ---------------------------------------------------------------------------

std::string ZkDoor::AnswerFourLetterWord(std::string_view word) {
  static constexpr std::string_view kWords[] = {"ruok", "srvr", "stat", "mntr", "isro", "envi"};
  if (std::find(std::begin(kWords), std::end(kWords), word) == std::end(kWords)) {
    return absl::StrCat(std::string(word), " is not a command of this server.\n");
  }
  if (!config_.AllowsFourLetterWord(word)) {
    return absl::StrCat(std::string(word),
                        " is not executed because it is not in the whitelist.\n");
  }
  if (word == "ruok") return "imok";
  const ServerStatus status = service_->status();
  const bool serving = status.leader_known && status.in_touch;
  if (word == "isro") return serving ? "rw" : "null";
  if (word == "envi") return EnvironmentLines();
  if (!serving) return "This ZooKeeper instance is not currently serving requests\n";
  if (word == "mntr") return MonitorLines(status);
  return ServerLines(status, /*with_clients=*/word == "stat");
}

std::string ZkDoor::ModeName(const ServerStatus& status) const {
  if (status.standalone) return "standalone";
  if (status.is_leader) return "leader";
  auto own = config_.servers.find(config_.my_id);
  return own != config_.servers.end() && own->second.observer ? "observer" : "follower";
}

std::string ZkDoor::ServerLines(const ServerStatus& status, bool with_clients) {
  int64_t zxid;
  size_t nodes;
  {
    ReaderLock lock(&service_->tree_mutex());
    zxid = service_->tree().last_zxid().value();
    nodes = service_->tree().node_count();
  }
  std::string text = absl::StrCat("Zookeeper version: ", kVersion, "\n");
  if (with_clients) {
    absl::StrAppend(&text, "Clients:\n");
    MutexLock lock(&connections_mutex_);
    for (const auto& [tag, line] : connections_) {
      absl::StrAppend(&text, " /", line.peer, "[1](queued=", line.queued, ",recved=", line.received,
                      ",sent=", line.sent, ")\n");
    }
    absl::StrAppend(&text, "\n");
  }
  absl::StrAppendFormat(&text, "Latency min/avg/max: %d/%.4f/%d\n", statistics_.latency_min_ms(),
                        statistics_.latency_average_ms(), statistics_.latency_max_ms());
  absl::StrAppendFormat(
      &text,
      "Received: %d\nSent: %d\nConnections: %d\nOutstanding: %d\nZxid: 0x%x\nMode: %s\n"
      "Node count: %d\n",
      statistics_.packets_received.load(), statistics_.packets_sent.load(),
      statistics_.connections.load(), statistics_.outstanding.load(), zxid, ModeName(status),
      nodes);
  return text;
}

std::string ZkDoor::EnvironmentLines() const {
  std::error_code removed;
  return absl::StrCat("Environment:\nzookeeper.version=", kVersion,
                      "\nuser.dir=", std::filesystem::current_path(removed).string(), "\n");
}

std::string ZkDoor::MonitorLines(const ServerStatus& status) {
  std::string text;
  const auto add = [&text](const char* key, const auto& value) {
    absl::StrAppend(&text, "zk_", key, "\t", value, "\n");
  };
  add("version", kVersion);
  add("server_state", ModeName(status));
  add("peer_state", status.is_leader ? "leading - broadcast" : "following - broadcast");
  add("avg_latency", absl::StrFormat("%.4f", statistics_.latency_average_ms()));
  add("max_latency", statistics_.latency_max_ms());
  add("min_latency", statistics_.latency_min_ms());
  add("packets_received", statistics_.packets_received.load());
  add("packets_sent", statistics_.packets_sent.load());
  add("num_alive_connections", statistics_.connections.load());
  add("outstanding_requests", statistics_.outstanding.load());
  add("connection_rejected", statistics_.connections_refused.load());
  {
    ReaderLock lock(&service_->tree_mutex());
    const tree::Tree& tree = service_->tree();
    add("znode_count", tree.node_count());
    add("ephemerals_count", tree.ephemeral_count());
    add("approximate_data_size", tree.data_bytes());
    add("global_sessions", tree.session_count());
    MutexLock watches_lock(&watches_.mutex);
    add("watch_count", watches_.table.watch_count());
  }
  add("local_sessions", 0);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  std::error_code ignored;
  const auto open = std::distance(std::filesystem::directory_iterator("/proc/self/fd", ignored),
                                  std::filesystem::directory_iterator{});
  add("open_file_descriptor_count", open);
  add("max_file_descriptor_count", limit.rlim_cur);
  add("uptime",
      std::chrono::duration_cast<std::chrono::milliseconds>(clock_->Now() - started_).count());
  if (status.is_leader) {
    add("learners", status.followers_in_sync);
    add("synced_followers", status.followers_in_sync);
    add("quorum_size", status.voters);
    add("pending_syncs", 0);
  }
  return text;
}

}  // namespace quorate::rpc::zk
