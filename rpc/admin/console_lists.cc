// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/console_lists.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "base/strings.h"
#include "rpc/frontend/event_history.h"

namespace quorate::rpc::admin {
namespace {

constexpr size_t kConnectionsPerPiece = 500;

// Returns the number in "0x..." of at most 64 bits.
std::optional<int64_t> FromHex(std::string_view text) {
  uint64_t number = 0;
  if (!text.starts_with("0x") || !absl::SimpleHexAtoi(ToAbsl(text.substr(2)), &number)) {
    return std::nullopt;
  }
  return static_cast<int64_t>(number);
}

Json SessionFields(const zk::ZkFrontend& frontend, const AttachedSession* client,
                   const tree::SessionInfo& session) {
  Json fields = {{"session", HexText(session.id.value())},
                 {"server", session.member},
                 {"timeout_ms", session.timeout_ms},
                 {"ephemerals", session.ephemerals}};
  if (client == nullptr) return fields;
  const auto age = frontend.clock().Now() - client->since;
  const int64_t age_ms = std::chrono::duration_cast<std::chrono::milliseconds>(age).count();
  fields["client"] = {
      {"protocol", client->protocol == ClientProtocol::kGrpc ? "gRPC" : "ZooKeeper"},
      {"address", client->address},
      {"identities", client->identities},
      {"attached_ms", std::max<int64_t>(0, age_ms)},
      {"watches", client->watches.load(std::memory_order_relaxed)}};
  return fields;
}

bool IsAtOrBelow(std::string_view path, std::string_view top) {
  if (top == "/") return true;
  return path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '/');
}

std::string_view NameOf(tree::EventType type) {
  switch (type) {
    case tree::EventType::kNodeCreated:
      return "created";
    case tree::EventType::kNodeDeleted:
      return "deleted";
    default:
      return "changed";
  }
}

struct Connection {
  int64_t received = 0;
  Json fields;
};

}  // namespace

HttpResponse SessionsResponse(zk::ZkFrontend* frontend, const RequestTarget& target) {
  size_t limit = kConsoleSessionsDefault;
  if (const auto asked = target.Find("limit");
      asked.has_value() &&
      (!absl::SimpleAtoi(ToAbsl(*asked), &limit) || limit == 0 || limit > kConsoleSessionsMax)) {
    return Failure(400, absl::StrCat("?limit= has to be from 1 to ", kConsoleSessionsMax));
  }
  tree::SessionId last(std::numeric_limits<int64_t>::min());
  if (const auto after = target.Find("after"); after.has_value() && !after->empty()) {
    const std::optional<int64_t> number = FromHex(*after);
    if (!number.has_value()) return Failure(400, "?after= has to be a session, such as 0x1a2b");
    last = tree::SessionId(*number);
  }
  Service& service = frontend->service();
  std::vector<tree::SessionInfo> sessions;
  size_t count = 0;
  {
    const auto tree = service.ReadTree();
    sessions = tree->SessionsAfter(last, limit + 1);
    count = tree->session_count();
  }
  const bool has_more = sessions.size() > limit;
  if (has_more) sessions.pop_back();
  Json shown = Json::array();
  for (const tree::SessionInfo& session : sessions) {
    std::shared_ptr<const AttachedSession> client;
    // A client whose session has moved to another member may still be connected here.
    if (session.member == service.proposer().member) {
      client = service.attached_sessions().Find(session.id);
    }
    shown.push_back(SessionFields(*frontend, client.get(), session));
  }
  return JsonResponse(
      200, {{"count", count},
            {"sessions", std::move(shown)},
            {"next", has_more ? Json(HexText(sessions.back().id.value())) : Json(nullptr)}});
}

HttpResponse ConnectionsResponse(zk::ZkFrontend* frontend) {
  std::vector<Connection> busiest;  // a heap, with the least busy one at the front
  const auto is_busier = [](const Connection& a, const Connection& b) {
    return a.received > b.received;
  };
  size_t count = 0;
  std::optional<uint32_t> next = 0;
  while (next.has_value()) {
    next = frontend->statistics().Visit(
        *next, kConnectionsPerPiece, [&](const zk::ConnectionStatistics& c, bool cleared) {
          ++count;
          const int64_t received = cleared ? 0 : c.received.value();
          if (busiest.size() == kConsoleConnectionsMax) {
            if (received <= busiest.front().received) return;
            std::pop_heap(busiest.begin(), busiest.end(), is_busier);
            busiest.pop_back();
          }
          const int64_t answered = cleared ? 0 : c.latency_count.value();
          busiest.push_back(
              {received,
               {{"peer", c.peer},
                {"tls", c.is_secure},
                {"session", HexText(c.session_id.value())},
                {"established_ms", c.established_ms.value()},
                {"received", received},
                {"outstanding", c.queued.value()},
                {"average_ms", answered == 0 ? 0 : c.latency_sum_ms.value() / answered},
                {"longest_ms", answered == 0 ? 0 : c.latency_max_ms.value()}}});
          std::push_heap(busiest.begin(), busiest.end(), is_busier);
        });
  }
  std::sort_heap(busiest.begin(), busiest.end(), is_busier);
  Json connections = Json::array();
  for (Connection& connection : busiest) connections.push_back(std::move(connection.fields));
  return JsonResponse(200, {{"count", count}, {"connections", std::move(connections)}});
}

HttpResponse WatchesResponse(zk::ZkFrontend* frontend, std::string_view path) {
  using WatchOf = tree::WatchTable::WatchOf;
  Json watches = Json::array();
  bool has_more = false;
  frontend->ShowWatchesAt(path, [&](int64_t session, WatchOf of) {
    has_more = watches.size() == kConsoleWatchesMax;
    if (has_more) return false;
    watches.push_back({{"session", HexText(session)},
                       {"of", of == WatchOf::kNode       ? "node"
                              : of == WatchOf::kChildren ? "children"
                                                         : "subtree"}});
    return true;
  });
  return JsonResponse(200, {{"watches", std::move(watches)}, {"more", has_more}});
}

HttpResponse EventsResponse(zk::ZkFrontend* frontend, const RequestTarget& target,
                            std::string_view path, const ClientIdentities& identities) {
  std::optional<int64_t> after;
  if (const auto asked = target.Find("after"); asked.has_value() && !asked->empty()) {
    after = FromHex(*asked);
    if (!after.has_value() || *after < 0) {
      return Failure(400, "?after= has to be a zxid, such as 0x1a2b");
    }
  }
  const EventHistory* history = frontend->history();
  if (history == nullptr) return Failure(503, "this server keeps no events");
  std::deque<Json> events;
  bool is_lost = false;  // some events are not kept any more, or are too many
  int64_t zxid = 0;
  {
    const auto tree = frontend->service().ReadTree();
    zxid = tree->last_zxid().value();
    if (after.has_value() && *after < zxid) {
      const uint64_t end = history->next_number();
      uint64_t first = end - std::min<uint64_t>(end, kConsoleEventsReadMax);
      if (*after >= history->oldest().value()) {
        const uint64_t wanted = history->NumberAfter(tree::Zxid(*after));
        is_lost = wanted < first;
        first = std::max(first, wanted);
      } else {
        is_lost = true;
        const uint64_t kept = history->NumberAfter(history->oldest());
        first = std::max(first, kept);
      }
      // A chunk of events is dropped as a whole, so that the first ones may be gone.
      while (first < end && history->IsLost(first)) ++first;
      for (EventHistory::Reader reader(*history, first); !reader.at_end();) {
        const Event& event = reader.Next();
        if (!IsAtOrBelow(event.path, path) || !identities.MayRead(event.readers)) continue;
        if (events.size() == kConsoleEventsMax) {
          events.pop_front();
          is_lost = true;
        }
        events.push_back({{"zxid", HexText(event.zxid.value())},
                          {"type", std::string(NameOf(event.type))},
                          {"path", event.path}});
      }
    }
  }
  return JsonResponse(200, {{"events", Json(events)}, {"lost", is_lost}, {"next", HexText(zxid)}});
}

}  // namespace quorate::rpc::admin
