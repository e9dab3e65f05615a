// SPDX-License-Identifier: Apache-2.0

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "rpc/admin/command_functions.h"
#include "rpc/zookeeper/opcodes.h"

namespace quorate::rpc::admin {
namespace {

// The most entries that are read while the tree or a table is locked.
constexpr size_t kPieceEntries = 500;
// ZooKeeper's number for a connection that is read from.
constexpr int kReadInterest = 1;
constexpr tree::SessionId kBeforeSessions{std::numeric_limits<int64_t>::min()};

// Says that not everything is shown.
void SetTruncated(std::string_view what, Json* fields) {
  (*fields)["error"] = absl::StrCat("there are more ", absl::string_view(what.data(), what.size()),
                                    " than are shown; only a part of them follows");
}

// Appends a member to an object without looking for an equal key.
void Append(Json* object, std::string key, Json value) {
  object->get_ref<Json::object_t&>().emplace_back(std::move(key), std::move(value));
}

Json ConnectionFields(const zk::ConnectionStatistics& c, bool cleared, bool whole) {
  Json f = {{"remote_socket_address", c.peer},
            {"interest_ops", kReadInterest},
            {"outstanding_requests", c.queued.value()},
            {"packets_received", cleared ? 0 : c.received.value()},
            {"packets_sent", cleared ? 0 : c.sent.value()}};
  if (!whole) return f;
  const int64_t count = cleared ? 0 : c.latency_count.value();
  const auto shown = [count](const zk::Counter& counter) {
    return count == 0 ? 0 : counter.value();
  };
  const auto operation = static_cast<zk::OpCode>(c.last_operation.value());
  Append(&f, "session_id", c.session_id.value());
  Append(&f, "last_operation", std::string(zk::InfoOf(operation).cons_name));
  Append(&f, "established", c.established_ms.value());
  Append(&f, "session_timeout", c.timeout_ms.value());
  Append(&f, "last_cxid", c.last_xid.value());
  Append(&f, "last_zxid", c.last_zxid.value());
  Append(&f, "last_response_time", c.last_response_ms.value());
  Append(&f, "last_latency", shown(c.last_latency_ms));
  Append(&f, "min_latency", shown(c.latency_min_ms));
  Append(&f, "avg_latency", count == 0 ? 0 : c.latency_sum_ms.value() / count);
  Append(&f, "max_latency", shown(c.latency_max_ms));
  return f;
}

void AddConnections(const CommandContext& context, bool whole, Json* fields) {
  Json plain = Json::array();
  Json secure = Json::array();
  std::optional<uint32_t> next = 0;
  while (next.has_value() && plain.size() + secure.size() < kShownMax) {
    next = context.frontend.statistics().Visit(
        *next, kPieceEntries, [&](const zk::ConnectionStatistics& connection, bool cleared) {
          (connection.is_secure ? secure : plain)
              .push_back(ConnectionFields(connection, cleared, whole));
        });
  }
  (*fields)["connections"] = std::move(plain);
  (*fields)["secure_connections"] = std::move(secure);
  if (next.has_value()) SetTruncated("connections", fields);
}

// Reads all node watches, or as many as are shown. Returns whether there are more.
bool ReadWatches(const CommandContext& context,
                 const std::function<void(std::string_view path, int64_t session)>& watch) {
  zk::ZkFrontend::WatchesShown shown{kShownMax, kPathBytesShownMax};
  while (!shown.done) context.frontend.ShowNodeWatches(&shown, watch);
  return !shown.all;
}

// The sessions and their ephemerals that a dump shows.
struct SessionsShown {
  std::map<int64_t, std::vector<int64_t>> by_expiry;
  Json ephemerals = Json::object();
  size_t count = 0;
  size_t path_bytes = 0;
  bool all = true;
};

// Adds the ephemerals of a session, as far as the limits allow.
void AddEphemerals(const tree::Tree& tree, tree::SessionId session, SessionsShown* shown) {
  Json paths = Json::array();
  tree.ReadEphemerals(session, "", [&](std::string_view path) {
    shown->all = shown->count < kShownMax && shown->path_bytes + path.size() <= kPathBytesShownMax;
    if (!shown->all) return false;
    ++shown->count;
    shown->path_bytes += path.size();
    paths.push_back(std::string(path));
    return true;
  });
  Append(&shown->ephemerals, absl::StrCat(session.value()), std::move(paths));
}

}  // namespace

void ReportConnections(const CommandContext& context, Json* fields) {
  AddConnections(context, /*whole=*/true, fields);
}

void ReportStatistics(const CommandContext& context, Json* fields) {
  ReportServerStatistics(context, fields);
  AddConnections(context, /*whole=*/false, fields);
}

void ReportDump(const CommandContext& context, Json* fields) {
  SessionsShown shown;
  const int64_t now_ms = context.clock.WallMs();
  const bool expires_sessions = context.status.is_leader || context.status.standalone;
  bool is_last = false;
  for (tree::SessionId last = kBeforeSessions; !is_last && shown.all;) {
    const auto tree = context.service().ReadTree();
    const auto sessions = tree->SessionsAfter(last, kPieceEntries);
    is_last = sessions.size() < kPieceEntries;
    for (const tree::SessionInfo& session : sessions) {
      last = session.id;
      shown.all = shown.count++ < kShownMax;
      if (!shown.all) break;
      // This is the latest time; clients may have been silent for a part of it.
      if (expires_sessions) {
        shown.by_expiry[now_ms + session.timeout_ms].push_back(session.id.value());
      }
      if (session.ephemerals > 0) AddEphemerals(*tree, session.id, &shown);
      if (!shown.all) break;
    }
  }
  Json expiries = Json::object();
  for (auto& [time_ms, sessions] : shown.by_expiry) {
    Append(&expiries, absl::StrCat(time_ms), std::move(sessions));
  }
  (*fields)["expiry_time_to_session_ids"] = std::move(expiries);
  (*fields)["session_id_to_ephemeral_paths"] = std::move(shown.ephemerals);
  if (!shown.all) SetTruncated("sessions or ephemerals", fields);
}

void ReportWatchSummary(const CommandContext& context, Json* fields) {
  zk::Watches& watches = context.frontend.watches();
  MutexLock lock(&watches.mutex);
  (*fields)["num_connections"] = watches.table.node_watcher_count();
  (*fields)["num_paths"] = watches.table.node_path_count();
  (*fields)["num_total_watches"] = watches.table.node_watch_count();
}

void ReportWatches(const CommandContext& context, Json* fields) {
  std::map<int64_t, std::set<std::string>> by_session;
  const bool has_more = ReadWatches(
      context, [&](std::string_view path, int64_t session) { by_session[session].emplace(path); });
  Json sessions = Json::object();
  for (auto& [session, paths] : by_session) {
    Append(&sessions, absl::StrCat(session), std::move(paths));
  }
  (*fields)["session_id_to_watched_paths"] = std::move(sessions);
  if (has_more) SetTruncated("watches", fields);
}

void ReportWatchesByPath(const CommandContext& context, Json* fields) {
  std::map<std::string, std::set<int64_t>, std::less<>> by_path;
  const bool has_more = ReadWatches(context, [&](std::string_view path, int64_t session) {
    by_path[std::string(path)].insert(session);
  });
  Json paths = Json::object();
  for (auto& [path, sessions] : by_path) Append(&paths, path, std::move(sessions));
  (*fields)["path_to_session_ids"] = std::move(paths);
  if (has_more) SetTruncated("watches", fields);
}

}  // namespace quorate::rpc::admin
