// SPDX-License-Identifier: Apache-2.0

// The basic types of the tree: metadata of znodes, sessions, errors. Their names and numbers are
// ZooKeeper's, so that the ZooKeeper front end need not translate them.
//
// Thread-safety: values; no shared state.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/strong_int.h"

namespace quorate::tree {

// Transaction id: the log index of the entry that made the change. 0 is before the first entry.
using Zxid = StrongInt<struct ZxidTag, int64_t>;
// A session id is never 0. Its top byte is the id of the server that created the session, 1 to 254.
using SessionId = StrongInt<struct SessionIdTag, int64_t>;

inline constexpr SessionId kNoSession{0};
inline constexpr int32_t kAnyVersion = -1;
inline constexpr size_t kPasswordBytes = 16;

// ZooKeeper's error codes (those that a server can send), and our own codes below -1000. Only
// requests that ZooKeeper does not have may result in one of our own codes: a ZooKeeper client must
// never receive one.
enum class ErrorCode : int32_t {
  kOk = 0,
  kSystemError = -1,
  kRuntimeInconsistency = -2,  // in a failed multi: an operation after the one that failed
  kMarshallingError = -5,
  kUnimplemented = -6,
  kBadArguments = -8,
  kNewConfigNoQuorum = -13,
  kReconfigInProgress = -14,
  kNoNode = -101,
  kNoAuth = -102,
  kBadVersion = -103,
  kNoChildrenForEphemerals = -108,
  kNodeExists = -110,
  kNotEmpty = -111,
  kSessionExpired = -112,
  kInvalidAcl = -114,
  kAuthFailed = -115,
  kSessionMoved = -118,
  kNotReadOnly = -119,
  kEphemeralOnLocalSession = -120,
  kNoWatcher = -121,
  kReconfigDisabled = -123,
  kQuotaExceeded = -125,
  // Errors of a numbered write. Nothing was applied, and the client can use the number again.
  kAlreadyAcknowledged = -1001,    // the client acknowledged the response, which was dropped
  kOutOfSequence = -1002,          // writes with lower numbers are still missing
  kTooManyUnacknowledged = -1003,  // too many responses, or bytes of them, are kept
  // An operation, or its response, is larger than tree/limits.h allows.
  kTooLarge = -1004,
  kNoSpace = -1005,  // the disks are nearly full; only for a refused write (OpKind::kRefused)
};

// Returns whether an error is one of our own codes.
inline constexpr bool IsOwnError(ErrorCode code) { return static_cast<int32_t>(code) < -1000; }

// Returns a text such as "no node", for logs and messages.
std::string_view ToString(ErrorCode code);

enum class CreateMode : int32_t {
  kPersistent = 0,
  kEphemeral = 1,
  kPersistentSequential = 2,
  kEphemeralSequential = 3,
  kContainer = 4,
  kPersistentWithTtl = 5,
  kPersistentSequentialWithTtl = 6,
};

// The metadata that exists, getData and others return. `cversion` is defined as in the wire
// protocol: creates plus deletes of children.
struct Stat {
  Zxid czxid;
  Zxid mzxid;
  int64_t ctime_ms = 0;
  int64_t mtime_ms = 0;
  int32_t version = 0;
  int32_t cversion = 0;
  int32_t aversion = 0;
  SessionId ephemeral_owner;  // of an ephemeral node; kNoSession for all others
  int32_t data_length = 0;
  int32_t num_children = 0;
  Zxid pzxid;
  friend bool operator==(const Stat&, const Stat&) = default;
};

// The outcome of one operation of a request.
struct OpResult {
  ErrorCode error = ErrorCode::kOk;
  std::string path;  // create: the final path, with the sequence number
  Stat stat;         // create, setData, setAcl, when error is kOk; reads, when `found`
  // deleteRecursive, removeSubtree and tryDelete: the number of removed nodes, when error is kOk.
  uint64_t removed = 0;
  uint64_t added_parents = 0;  // create with parents: how many of them did not exist
  bool found = false;          // reads: the node exists
  std::string data;            // get: the node's data; null data are as empty data
  // getChildren: the names of the children, in byte order.
  std::vector<std::string> children;
  friend bool operator==(const OpResult&, const OpResult&) = default;
};

// Which operations of a request its results belong to.
enum class Branch : uint8_t {
  kNone = 0,       // the request has no branches: all of its operations
  kThen = 1,       // all compares held: the operations of `then`
  kOtherwise = 2,  // some compare did not hold: the operations of `otherwise`
  kCompares = 3,   // a compare failed with an error, so that no operation was tried: the compares
};

// Sets `results` for a request whose operation at `place` failed with `error`, so that no operation
// had an effect: operations before it get kOk, operations after it kRuntimeInconsistency. REQUIRES:
// place < results.size().
void SetFailed(ErrorCode error, size_t place, std::span<OpResult> results);

namespace permission {
inline constexpr int32_t kRead = 1;
inline constexpr int32_t kWrite = 2;
inline constexpr int32_t kCreate = 4;
inline constexpr int32_t kDelete = 8;
inline constexpr int32_t kAdmin = 16;
inline constexpr int32_t kAll = 31;
}  // namespace permission

// A client's identity in an authentication scheme: {"ip", "127.0.0.1"}, {"digest", "user:hash"}.
struct Identity {
  std::string scheme;
  std::string id;
  friend auto operator<=>(const Identity&, const Identity&) = default;
};

struct Acl {
  int32_t permissions = 0;
  Identity identity;
  friend auto operator<=>(const Acl&, const Acl&) = default;
};

// Returns {ALL, world, anyone}.
std::vector<Acl> OpenAcl();

// The types of watch events that a server sends.
enum class EventType : int32_t {
  kNodeCreated = 1,
  kNodeDeleted = 2,
  kNodeDataChanged = 3,
  kNodeChildrenChanged = 4,
};

}  // namespace quorate::tree
