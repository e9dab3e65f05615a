// SPDX-License-Identifier: Apache-2.0

// Who calls a server, and what each call needs: the only list of what clients and administrators
// may do. All front ends use it.
//
// docs/reference/authorization.md is made from the table. A new RPC, opcode, four-letter word
// or path of HTTP needs a row here; tests fail without it.
//
// Thread-safety: constants, values, and functions without state.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quorate::rpc {

// What a caller needs for an operation, beside a connection. The port itself may ask for more: with
// clientAuth=need, no operation is reached without a valid certificate.
enum class Requirement : uint8_t {
  kNobody,  // no client may call it, administrators included
  kOpen,    // anyone who reaches the port
  // Anyone who reaches the port sees health and positions in the log; an administrator sees
  // addresses, the digest, and the sizes of data and disks too.
  kReduced,
  kOwnSession,   // concerns only the session, connection or identities of the caller
  kAccessLists,  // the access control list of each znode decides
  kWordList,     // anyone who reaches the port, if 4lw.commands.whitelist names the word
  kAdministrator,
};

enum class Protocol : uint8_t { kGrpc, kZooKeeper, kFourLetterWord, kHttp };

// One row for each operation: identifier, Protocol, name, Requirement, and a remark in Markdown. The
// name is that of the gRPC method as "SERVICE/METHOD", of the opcode (rpc/zookeeper/opcodes.h), or
// the four-letter word, or the path of HTTP with admin.commandURL at its default. A macro, so that the enumeration and the table are made of the same rows.
// clang-format off
#define QUORATE_OPERATIONS(ROW)                                                                      \
  ROW(kClusterStatus, kGrpc, "quorate.v1.ClusterService/Status", kReduced, "")                       \
  ROW(kClusterVersion, kGrpc, "quorate.v1.ClusterService/Version", kOpen, "")                        \
  ROW(kClusterMembers, kGrpc, "quorate.v1.ClusterService/Members", kReduced, "")                     \
  ROW(kClusterMetrics, kGrpc, "quorate.v1.ClusterService/Metrics", kAdministrator, "")               \
  ROW(kClusterSlowRequests, kGrpc, "quorate.v1.ClusterService/SlowRequests", kAdministrator,         \
      "has paths of znodes and addresses of clients")                                                \
  ROW(kClusterTopRequests, kGrpc, "quorate.v1.ClusterService/TopRequests", kAdministrator,           \
      "has paths of znodes, and addresses and identities of clients")                                \
  ROW(kClusterTransferLeadership, kGrpc, "quorate.v1.ClusterService/TransferLeadership",             \
      kAdministrator, "")                                                                            \
  ROW(kClusterChangeMembers, kGrpc, "quorate.v1.ClusterService/ChangeMembers", kAdministrator, "")   \
  ROW(kClusterBackup, kGrpc, "quorate.v1.ClusterService/Backup", kAdministrator,                     \
      "the whole tree, past every access control list")                                              \
  ROW(kClusterListSessions, kGrpc, "quorate.v1.ClusterService/ListSessions", kAdministrator,         \
      "has addresses and identities of clients")                                                     \
  ROW(kClusterGetSession, kGrpc, "quorate.v1.ClusterService/GetSession", kAdministrator,             \
      "has paths of ephemeral znodes, past every access control list")                               \
  ROW(kClusterCloseSession, kGrpc, "quorate.v1.ClusterService/CloseSession", kAdministrator, "")     \
  ROW(kSession, kGrpc, "quorate.v1.SessionService/Session", kAccessLists, "")                        \
  ROW(kTreeGet, kGrpc, "quorate.v1.TreeService/Get", kAccessLists, "")                               \
  ROW(kTreeExists, kGrpc, "quorate.v1.TreeService/Exists", kAccessLists,                             \
      "as in ZooKeeper, it needs no permission")                                                     \
  ROW(kTreeList, kGrpc, "quorate.v1.TreeService/List", kAccessLists, "")                             \
  ROW(kTreeListRecursive, kGrpc, "quorate.v1.TreeService/ListRecursive", kAccessLists, "")           \
  ROW(kTreeScan, kGrpc, "quorate.v1.TreeService/Scan", kAccessLists, "")                             \
  ROW(kTreeCreate, kGrpc, "quorate.v1.TreeService/Create", kAccessLists, "")                         \
  ROW(kTreeSet, kGrpc, "quorate.v1.TreeService/Set", kAccessLists, "")                               \
  ROW(kTreeDelete, kGrpc, "quorate.v1.TreeService/Delete", kAccessLists, "")                         \
  ROW(kTreeCreateIfNotExists, kGrpc, "quorate.v1.TreeService/CreateIfNotExists", kAccessLists, "")   \
  ROW(kTreeRemoveRecursive, kGrpc, "quorate.v1.TreeService/RemoveRecursive", kAccessLists, "")       \
  ROW(kTreeTryRemove, kGrpc, "quorate.v1.TreeService/TryRemove", kAccessLists, "")                   \
  ROW(kTreeTxn, kGrpc, "quorate.v1.TreeService/Txn", kAccessLists, "")                               \
  ROW(kTreeWatch, kGrpc, "quorate.v1.TreeService/Watch", kAccessLists,                               \
      "events are sent to clients that may read the znode")                                          \
  ROW(kLockAcquire, kGrpc, "quorate.v1.LockService/Acquire", kAccessLists,                           \
      "and the password of the session")                                                             \
  ROW(kLockRelease, kGrpc, "quorate.v1.LockService/Release", kAccessLists,                           \
      "and the password of the session")                                                             \
  ROW(kElectionCampaign, kGrpc, "quorate.v1.ElectionService/Campaign", kAccessLists,                 \
      "and the password of the session")                                                             \
  ROW(kElectionProclaim, kGrpc, "quorate.v1.ElectionService/Proclaim", kAccessLists,                 \
      "and the password of the session")                                                             \
  ROW(kElectionResign, kGrpc, "quorate.v1.ElectionService/Resign", kAccessLists,                     \
      "and the password of the session")                                                             \
  ROW(kElectionObserve, kGrpc, "quorate.v1.ElectionService/Observe", kAccessLists, "")               \
  ROW(kHealthCheck, kGrpc, "grpc.health.v1.Health/Check", kOpen, "for load balancers")               \
  ROW(kHealthWatch, kGrpc, "grpc.health.v1.Health/Watch", kOpen, "for load balancers")               \
  ROW(kReflection, kGrpc, "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", kOpen,    \
      "the published descriptions of the methods")                                                   \
  ROW(kZkCloseSession, kZooKeeper, "closeSession", kOwnSession, "")                                  \
  ROW(kZkCreateSession, kZooKeeper, "createSession", kNobody,                                        \
      "sessions are opened by the first packet of a connection, which anyone may send")              \
  ROW(kZkError, kZooKeeper, "error", kNobody, "a result in replies")                                 \
  ROW(kZkNotification, kZooKeeper, "notification", kNobody, "sent by servers")                       \
  ROW(kZkCreate, kZooKeeper, "create", kAccessLists, "")                                             \
  ROW(kZkDelete, kZooKeeper, "delete", kAccessLists, "")                                             \
  ROW(kZkExists, kZooKeeper, "exists", kAccessLists, "as in ZooKeeper, it needs no permission")      \
  ROW(kZkGetData, kZooKeeper, "getData", kAccessLists, "")                                           \
  ROW(kZkSetData, kZooKeeper, "setData", kAccessLists, "")                                           \
  ROW(kZkGetAcl, kZooKeeper, "getACL", kAccessLists,                                                 \
      "hashes of passwords are hidden without the permission `a`")                                   \
  ROW(kZkSetAcl, kZooKeeper, "setACL", kAccessLists, "")                                             \
  ROW(kZkGetChildren, kZooKeeper, "getChildren", kAccessLists, "")                                   \
  ROW(kZkSync, kZooKeeper, "sync", kOwnSession, "shows nothing of the znode")                        \
  ROW(kZkPing, kZooKeeper, "ping", kOwnSession, "")                                                  \
  ROW(kZkGetChildren2, kZooKeeper, "getChildren2", kAccessLists, "")                                 \
  ROW(kZkCheck, kZooKeeper, "check", kAccessLists, "")                                               \
  ROW(kZkMulti, kZooKeeper, "multi", kAccessLists, "those of each operation in it")                  \
  ROW(kZkCreate2, kZooKeeper, "create2", kAccessLists, "")                                           \
  ROW(kZkReconfig, kZooKeeper, "reconfig", kAccessLists,                                             \
      "`w` on `/zookeeper/config`, where only the super user has it unless that is changed")         \
  ROW(kZkCheckWatches, kZooKeeper, "checkWatches", kOwnSession, "")                                  \
  ROW(kZkRemoveWatches, kZooKeeper, "removeWatches", kOwnSession, "")                                \
  ROW(kZkCreateContainer, kZooKeeper, "createContainer", kAccessLists, "")                           \
  ROW(kZkDeleteContainer, kZooKeeper, "deleteContainer", kNobody,                                    \
      "refused: leaders remove empty containers")                                                    \
  ROW(kZkCreateTtl, kZooKeeper, "createTTL", kAccessLists, "")                                       \
  ROW(kZkMultiRead, kZooKeeper, "multiRead", kAccessLists, "those of each operation in it")          \
  ROW(kZkAuth, kZooKeeper, "auth", kOwnSession, "adds an identity")                                  \
  ROW(kZkSetWatches, kZooKeeper, "setWatches", kAccessLists,                                         \
      "events are sent to clients that may read the znode")                                          \
  ROW(kZkSasl, kZooKeeper, "sasl", kOwnSession, "adds an identity")                                  \
  ROW(kZkGetEphemerals, kZooKeeper, "getEphemerals", kOwnSession, "")                                \
  ROW(kZkGetAllChildrenNumber, kZooKeeper, "getAllChildrenNumber", kAccessLists, "")                 \
  ROW(kZkSetWatches2, kZooKeeper, "setWatches2", kAccessLists,                                       \
      "events are sent to clients that may read the znode")                                          \
  ROW(kZkAddWatch, kZooKeeper, "addWatch", kAccessLists,                                             \
      "events are sent to clients that may read the znode")                                          \
  ROW(kZkWhoAmI, kZooKeeper, "whoAmI", kOwnSession, "")                                              \
  ROW(kZkFilteredList, kZooKeeper, "filteredList", kAccessLists, "")                                 \
  ROW(kZkCheckNotExists, kZooKeeper, "checkNotExists", kAccessLists, "")                             \
  ROW(kZkCreateIfNotExists, kZooKeeper, "createIfNotExists", kAccessLists, "")                       \
  ROW(kZkRemoveRecursive, kZooKeeper, "removeRecursive", kAccessLists, "")                           \
  ROW(kZkCheckStat, kZooKeeper, "checkStat", kAccessLists, "")                                       \
  ROW(kZkTryRemove, kZooKeeper, "tryRemove", kAccessLists, "")                                       \
  ROW(kZkFilteredListDetailed, kZooKeeper, "filteredListWithStatsAndData", kAccessLists, "")         \
  ROW(kZkListRecursive, kZooKeeper, "listRecursive", kAccessLists, "")                               \
  ROW(kWordConf, kFourLetterWord, "conf", kWordList, "without passwords")                            \
  ROW(kWordCons, kFourLetterWord, "cons", kWordList, "")                                             \
  ROW(kWordCrst, kFourLetterWord, "crst", kWordList, "")                                             \
  ROW(kWordDirs, kFourLetterWord, "dirs", kWordList, "")                                             \
  ROW(kWordDump, kFourLetterWord, "dump", kWordList, "has paths of ephemeral znodes")                \
  ROW(kWordEnvi, kFourLetterWord, "envi", kWordList, "")                                             \
  ROW(kWordGtmk, kFourLetterWord, "gtmk", kWordList, "")                                             \
  ROW(kWordHash, kFourLetterWord, "hash", kWordList, "")                                             \
  ROW(kWordIsro, kFourLetterWord, "isro", kWordList, "")                                             \
  ROW(kWordMntr, kFourLetterWord, "mntr", kWordList, "")                                             \
  ROW(kWordRuok, kFourLetterWord, "ruok", kWordList, "")                                             \
  ROW(kWordSrst, kFourLetterWord, "srst", kWordList, "")                                             \
  ROW(kWordSrvr, kFourLetterWord, "srvr", kWordList, "always answered")                              \
  ROW(kWordStat, kFourLetterWord, "stat", kWordList, "")                                             \
  ROW(kWordStmk, kFourLetterWord, "stmk", kWordList, "")                                             \
  ROW(kWordWchc, kFourLetterWord, "wchc", kWordList, "has paths of znodes")                          \
  ROW(kWordWchp, kFourLetterWord, "wchp", kWordList, "has paths of znodes")                          \
  ROW(kWordWchs, kFourLetterWord, "wchs", kWordList, "")                                             \
  ROW(kHttpConfiguration, kHttp, "/commands/configuration", kOpen, "")                               \
  ROW(kHttpConnectionStatReset, kHttp, "/commands/connection_stat_reset", kAdministrator, "")        \
  ROW(kHttpConnections, kHttp, "/commands/connections", kOpen,                                       \
      "has addresses of clients, as in ZooKeeper")                                                   \
  ROW(kHttpDirs, kHttp, "/commands/dirs", kOpen, "")                                                 \
  ROW(kHttpDump, kHttp, "/commands/dump", kAdministrator, "has paths of znodes")                     \
  ROW(kHttpEnvironment, kHttp, "/commands/environment", kOpen, "")                                   \
  ROW(kHttpGetTraceMask, kHttp, "/commands/get_trace_mask", kOpen, "")                               \
  ROW(kHttpHash, kHttp, "/commands/hash", kAdministrator, "")                                        \
  ROW(kHttpInitialConfiguration, kHttp, "/commands/initial_configuration", kAdministrator,           \
      "secrets are left out")                                                                        \
  ROW(kHttpIsReadOnly, kHttp, "/commands/is_read_only", kOpen, "")                                   \
  ROW(kHttpLastSnapshot, kHttp, "/commands/last_snapshot", kOpen, "")                                \
  ROW(kHttpLatencies, kHttp, "/commands/latencies", kOpen, "")                                       \
  ROW(kHttpLeader, kHttp, "/commands/leader", kOpen, "")                                             \
  ROW(kHttpMonitor, kHttp, "/commands/monitor", kOpen, "")                                           \
  ROW(kHttpObserverConnectionStatReset, kHttp, "/commands/observer_connection_stat_reset", kAdministrator, \
      "")                                                                                            \
  ROW(kHttpObservers, kHttp, "/commands/observers", kOpen, "")                                       \
  ROW(kHttpRestore, kHttp, "/commands/restore", kAdministrator,                                      \
      "POST; always refused")                                                                        \
  ROW(kHttpRuok, kHttp, "/commands/ruok", kOpen, "")                                                 \
  ROW(kHttpServerStats, kHttp, "/commands/server_stats", kOpen, "")                                  \
  ROW(kHttpSetTraceMask, kHttp, "/commands/set_trace_mask", kAdministrator, "")                      \
  ROW(kHttpSlowRequests, kHttp, "/commands/slow_requests", kAdministrator,                           \
      "has paths of znodes and addresses of clients")                                                \
  ROW(kHttpSnapshot, kHttp, "/commands/snapshot", kAdministrator,                                    \
      "the whole tree, past every access control list: callers of the machine need credentials, "    \
      "too, and others TLS")                                                                         \
  ROW(kHttpStatReset, kHttp, "/commands/stat_reset", kAdministrator, "")                             \
  ROW(kHttpStats, kHttp, "/commands/stats", kOpen, "has addresses of clients, as in ZooKeeper")      \
  ROW(kHttpSystemProperties, kHttp, "/commands/system_properties", kAdministrator,                   \
      "secrets are left out")                                                                        \
  ROW(kHttpTopRequests, kHttp, "/commands/top_requests", kAdministrator,                             \
      "has paths of znodes, and addresses and identities of clients")                                \
  ROW(kHttpVotingView, kHttp, "/commands/voting_view", kOpen, "")                                    \
  ROW(kHttpWatchSummary, kHttp, "/commands/watch_summary", kOpen, "")                                \
  ROW(kHttpWatches, kHttp, "/commands/watches", kAdministrator, "has paths of znodes")               \
  ROW(kHttpWatchesByPath, kHttp, "/commands/watches_by_path", kAdministrator, "has paths of znodes") \
  ROW(kHttpZabState, kHttp, "/commands/zabstate", kOpen, "")                                         \
  ROW(kHttpCommands, kHttp, "/commands", kOpen, "names of commands")                                 \
  ROW(kHttpHealth, kHttp, "/health/*", kOpen, "for load balancers")                                  \
  ROW(kHttpMetrics, kHttp, "/metrics", kOpen, "")                                                    \
  ROW(kHttpRoot, kHttp, "/", kOpen, "the list of paths; for browsers, the page of the web console")  \
  ROW(kHttpConsole, kHttp, "/console/*", kOpen, "the files of the web console")                      \
  ROW(kHttpConsoleOverview, kHttp, "/console/api/overview", kReduced, "")                            \
  ROW(kHttpConsoleChildren, kHttp, "/console/api/children", kAccessLists, "")                        \
  ROW(kHttpConsoleNode, kHttp, "/console/api/node", kAccessLists, "")                                \
  ROW(kHttpConsoleSlow, kHttp, "/console/api/slow", kAdministrator,                                  \
      "has paths of znodes and addresses of clients; the super user sees them too")                  \
  ROW(kHttpConsoleSessions, kHttp, "/console/api/sessions", kAdministrator,                          \
      "has addresses and identities of clients; the super user sees them too")                       \
  ROW(kHttpConsoleClients, kHttp, "/console/api/clients", kAdministrator,                            \
      "has addresses of clients; the super user sees them too")                                      \
  ROW(kHttpConsoleWatches, kHttp, "/console/api/watches", kAdministrator,                            \
      "the super user sees them too")                                                                \
  ROW(kHttpConsoleEvents, kHttp, "/console/api/events", kAccessLists,                                \
      "events are shown to callers that may read the znode")                                         \
  ROW(kHttpConsoleCreate, kHttp, "/console/api/create", kAccessLists,                                \
      "and being one of those of `admin.console.changes`; from a page of the console")               \
  ROW(kHttpConsoleSet, kHttp, "/console/api/set", kAccessLists,                                      \
      "and being one of those of `admin.console.changes`; from a page of the console")               \
  ROW(kHttpConsoleDelete, kHttp, "/console/api/delete", kAccessLists,                                \
      "and being one of those of `admin.console.changes`; from a page of the console")               \
  ROW(kHttpConsoleCloseSession, kHttp, "/console/api/close-session", kAdministrator,                 \
      "or the super user; from a page of the console")                                               \
  ROW(kHttpConsoleChangeMembers, kHttp, "/console/api/change-members", kAdministrator,               \
      "or the super user; from a page of the console")                                               \
  ROW(kHttpConsoleTransferLeadership, kHttp, "/console/api/transfer-leadership", kAdministrator,     \
      "or the super user; from a page of the console")
// clang-format on

enum class Operation : uint8_t {
#define QUORATE_OPERATION(identifier, ...) identifier,
  QUORATE_OPERATIONS(QUORATE_OPERATION)
#undef QUORATE_OPERATION
};

struct OperationInfo {
  Operation operation;
  Protocol protocol;
  std::string_view name;
  Requirement requirement;
  std::string_view remark;
};

inline constexpr OperationInfo kOperations[] = {
#define QUORATE_OPERATION(identifier, protocol, name, requirement, remark) \
  {Operation::identifier, Protocol::protocol, name, Requirement::requirement, remark},
    QUORATE_OPERATIONS(QUORATE_OPERATION)
#undef QUORATE_OPERATION
};

// Returns the row of an operation.
constexpr const OperationInfo& InfoOf(Operation operation) {
  return kOperations[static_cast<size_t>(operation)];
}

// Returns the row with this name; nullptr if there is none.
constexpr const OperationInfo* FindOperation(Protocol protocol, std::string_view name) {
  for (const OperationInfo& info : kOperations) {
    if (info.protocol == protocol && info.name == name) return &info;
  }
  return nullptr;
}

// Who acts: a caller with everything that it has proved.
struct Principal {
  enum class Origin : uint8_t {
    kRemote,      // an address of another machine
    kLoopback,    // an address of this machine, which any of its users can have
    kUnixSocket,  // a socket that only the user of the server can open
  };

  // Returns the name to record for what the principal does, such as "token:ops",
  // "x509:CN=admin,O=Example", "digest:super", "unix" or "ip:10.0.0.1". Has no secret.
  std::string Name() const;
  // Returns whether the principal has proved any identity but its address.
  bool has_proof() const { return !token.empty() || !subject.empty() || !digest_user.empty(); }

  Origin origin = Origin::kRemote;
  std::string address{};      // without the port; that of the loopback for a Unix socket
  std::string token{};        // the name of the administrator's token that it has shown
  std::string subject{};      // of its valid TLS certificate (rpc/tls/subject.h)
  std::string digest_user{};  // the user of digest credentials that it has shown
  bool is_super = false;      // it passes every access control list
};

// Returns the origin of a connection from `address`, which is an IP address without a port.
Principal::Origin OriginOfAddress(std::string_view address);

// The path of the reference page in the source tree, and the command that writes it.
inline constexpr char kAuthorizationPagePath[] = "docs/reference/authorization.md";
inline constexpr char kWriteAuthorizationReference[] =
    "bazel run --config=opt //rpc/frontend:write_authorization_reference";

// Returns a sentence about a requirement, in Markdown, and its short name in the tables.
std::string_view NameOf(Requirement requirement);
std::string_view MeaningOf(Requirement requirement);

// Returns the whole reference page.
std::string AuthorizationPage();

}  // namespace quorate::rpc
