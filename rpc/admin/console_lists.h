// SPDX-License-Identifier: Apache-2.0

// The lists of the web console: sessions, busy connections, watches of a znode and recent events. Each
// response is bounded, whatever the server has.
//
// Thread-safety: functions without state; any thread that does not hold the lock of the tree.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/clock.h"
#include "rpc/admin/console_response.h"
#include "rpc/admin/request_target.h"
#include "rpc/zookeeper/frontend.h"

namespace quorate::rpc::admin {

// The most sessions on one page, and the number without ?limit=.
inline constexpr size_t kConsoleSessionsMax = 200;
inline constexpr size_t kConsoleSessionsDefault = 50;
// The connections, and the watches of one znode, that are shown.
inline constexpr size_t kConsoleConnectionsMax = 50;
inline constexpr size_t kConsoleWatchesMax = 200;
// The events of one response, and those that are looked at for it.
inline constexpr size_t kConsoleEventsMax = 200;
inline constexpr size_t kConsoleEventsReadMax = 5000;

// Returns the sessions of the cluster after ?after=, by ascending number as a signed one, as far as
// ?limit= goes; of those of this server, their clients too.
HttpResponse SessionsResponse(zk::ZkFrontend* frontend, const RequestTarget& target);
// Returns the connections of ZooKeeper clients to this server that have sent most requests.
HttpResponse ConnectionsResponse(zk::ZkFrontend* frontend);
// Returns the sessions of ZooKeeper clients of this server that watch the znode itself, its children
// or its subtree.
HttpResponse WatchesResponse(zk::ZkFrontend* frontend, std::string_view path);
// Returns the changes at and below `path` after the zxid ?after=, the last kConsoleEventsMax of them
// that the caller may see. Without ?after=, returns only the zxid to continue from.
HttpResponse EventsResponse(zk::ZkFrontend* frontend, const RequestTarget& target,
                            std::string_view path, const ClientIdentities& identities);

}  // namespace quorate::rpc::admin
