// What a client of Quorate talks about: znodes and their metadata, access control, watches and
// errors. The meanings are those of rpc/proto/quorate/v1/types.proto, the numbers too.
//
// Thread-safety: values without state of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"

namespace quorate {

// Metadata of a znode. Times are milliseconds since the epoch, by the leader's clock.
struct Stat {
  int64_t created_zxid = 0;
  int64_t modified_zxid = 0;
  int64_t children_modified_zxid = 0;
  int64_t created_ms = 0;
  int64_t modified_ms = 0;
  int32_t version = 0;
  int32_t children_version = 0;
  int32_t acl_version = 0;
  // The session of an ephemeral znode, 0 for any other.
  int64_t ephemeral_session = 0;
  int32_t data_bytes = 0;
  int32_t children = 0;

  bool operator==(const Stat&) const = default;
};

enum Permission : int32_t {
  kPermissionRead = 1,
  kPermissionWrite = 2,
  kPermissionCreate = 4,
  kPermissionDelete = 8,
  kPermissionAdmin = 16,
  kPermissionAll = 31,
};

// Some rights of somebody.
struct Acl {
  // The sum of Permissions.
  int32_t permissions = kPermissionAll;
  // "world" (id "anyone"), "auth", "digest" or "ip".
  std::string scheme = "world";
  std::string id = "anyone";

  bool operator==(const Acl&) const = default;
};

// Proof of an identity.
struct Credential {
  std::string scheme = "digest";
  // For digest: "user:password".
  std::string secret{};
};

// Who somebody is.
struct Identity {
  std::string scheme;
  std::string id;

  bool operator==(const Identity&) const = default;
};

enum class CreateMode {
  kPersistent = 0,
  // Ends with the session.
  kEphemeral = 1,
  // Ten digits are appended to the name.
  kPersistentSequential = 2,
  kEphemeralSequential = 3,
  // Is removed some time after its last child was.
  kContainer = 4,
  // Is removed after ttl_ms without children and changes.
  kPersistentWithTtl = 5,
  kPersistentSequentialWithTtl = 6,
};

enum class EventType { kNodeCreated = 1, kNodeDeleted = 2, kNodeDataChanged = 3 };

// A change of a znode. Creation and deletion of a child are the events of the child.
struct Event {
  EventType type{};
  std::string path;
  // The transaction that made the change.
  int64_t zxid = 0;

  bool operator==(const Event&) const = default;
};

// Events were lost, because the servers do not keep them any more: what was watched has to be read
// again. From `zxid` on the watch is complete again: a read from now on sees at least that zxid,
// and every change after `zxid` will be told.
struct WatchReset {
  int64_t zxid = 0;

  bool operator==(const WatchReset&) const = default;
};

using WatchNotification = std::variant<Event, WatchReset>;

// Of which znodes a watch sees the events.
enum class WatchScope {
  kNode = 0,
  // The znode and its children.
  kChildren = 1,
  // The znode and everything below it.
  kSubtree = 2,
};

enum class ErrorCode {
  kOk = 0,
  kNoNode = 1,
  kNodeExists = 2,
  kBadVersion = 3,
  kNotEmpty = 4,
  kNoChildrenForEphemerals = 5,
  kNoAuth = 6,
  kInvalidAcl = 7,
  kBadArguments = 8,
  kQuotaExceeded = 9,
  kTooLarge = 10,
  kNotAttempted = 11,
  kSessionExpired = 12,
  kSessionMoved = 13,
  kAuthFailed = 14,
  kUnavailable = 15,
  kOutOfSequence = 16,
  kTooManyUnacknowledged = 17,
  kAlreadyAcknowledged = 18,
  kEventsLost = 19,
  kSystemError = 20,
  kNoSpace = 21,
  kUnimplemented = 22,
  kTooManyStreams = 23,
  kTooSlow = 24,
  kNoRequest = 25,
  kCannotTransfer = 26,
  kNoBackup = 27,
};

// What the servers said, if `status` is a refusal by them (or one that they would have made);
// nothing for what the client itself reports: deadlines, cancellations, too many pending requests.
std::optional<ErrorCode> ErrorOf(const absl::Status& status);

// Of a transaction that the servers refused: the operation that failed, from 0.
std::optional<size_t> FailedOperationOf(const absl::Status& status);

// Of a write that the servers refused with TOO_LARGE: the most bytes of data that they take in one
// write (jute.maxbuffer). Nothing for other statuses, and for servers that do not say it.
std::optional<int64_t> DataBytesMaxOf(const absl::Status& status);

// "NO_NODE".
std::string_view NameOf(ErrorCode code);

}  // namespace quorate
