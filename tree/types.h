// The words of the tree: znodes' metadata, sessions, errors. Names and numbers are ZooKeeper's, so
// that a door need not translate them.
//
// Thread-safety: values; no shared state.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/strong_int.h"

namespace quorate::tree {

// Transaction id: the log index of the entry that made the change. 0 is before the first.
using Zxid = StrongInt<struct ZxidTag, int64_t>;
// Never 0; the top byte is the id of the server that made it, 1 to 254.
using SessionId = StrongInt<struct SessionIdTag, int64_t>;

inline constexpr SessionId kNoSession{0};
inline constexpr int32_t kAnyVersion = -1;
inline constexpr size_t kPasswordBytes = 16;

// ZooKeeper's error codes (those that a server can send).
enum class ErrorCode : int32_t {
  kOk = 0,
  kSystemError = -1,
  kRuntimeInconsistency = -2,  // in a failed multi: an operation after the one that failed
  kMarshallingError = -5,
  kUnimplemented = -6,
  kBadArguments = -8,
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
  kNoWatcher = -121,
  kReconfigDisabled = -123,
  kQuotaExceeded = -125,
};

// "no node" and the like, for logs and messages.
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

// What exists, getData and the like report. `cversion` is the number seen on the wire: creates plus
// deletes of children.
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

namespace permission {
inline constexpr int32_t kRead = 1;
inline constexpr int32_t kWrite = 2;
inline constexpr int32_t kCreate = 4;
inline constexpr int32_t kDelete = 8;
inline constexpr int32_t kAdmin = 16;
inline constexpr int32_t kAll = 31;
}  // namespace permission

// Somebody, as an authentication scheme names them: {"ip", "127.0.0.1"}, {"digest", "user:hash"}.
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

// {ALL, world, anyone}.
std::vector<Acl> OpenAcl();

// The types of watch events that a server sends.
enum class EventType : int32_t {
  kNodeCreated = 1,
  kNodeDeleted = 2,
  kNodeDataChanged = 3,
  kNodeChildrenChanged = 4,
};

}  // namespace quorate::tree
