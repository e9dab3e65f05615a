// SPDX-License-Identifier: Apache-2.0

// The value types of the client: metadata of znodes, access control, watches and errors. Meanings
// and numbers are those of rpc/proto/quorate/v1/types.proto.
//
// Thread-safety: plain values.
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

// Metadata of a znode. Times are milliseconds since the Unix epoch, by the leader's clock.
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

// Values that the Stat of a znode must have. A field without a value, or with -1, admits any value.
struct StatCondition {
  std::optional<int64_t> created_zxid{};
  std::optional<int64_t> modified_zxid{};
  std::optional<int64_t> children_modified_zxid{};
  std::optional<int64_t> created_ms{};
  std::optional<int64_t> modified_ms{};
  std::optional<int32_t> version{};
  std::optional<int32_t> children_version{};
  std::optional<int32_t> acl_version{};
  // 0: the znode is not ephemeral.
  std::optional<int64_t> ephemeral_session{};
  std::optional<int32_t> data_bytes{};
  std::optional<int32_t> children{};

  bool operator==(const StatCondition&) const = default;
};

// What an entry of an access control list permits; permissions are added.
enum Permission : int32_t {
  kPermissionRead = 1,
  kPermissionWrite = 2,
  kPermissionCreate = 4,
  kPermissionDelete = 8,
  kPermissionAdmin = 16,
  kPermissionAll = 31,
};

// An entry of an access control list: the permissions of one identity.
struct Acl {
  // A sum of Permissions.
  int32_t permissions = kPermissionAll;
  // "world" (id "anyone"), "auth", "digest" or "ip".
  std::string scheme = "world";
  std::string id = "anyone";

  bool operator==(const Acl&) const = default;
};

// The proof of an identity.
struct Credential {
  std::string scheme = "digest";
  // For digest: "user:password".
  std::string secret{};
};

// An authenticated identity of a client.
struct Identity {
  std::string scheme;
  std::string id;

  bool operator==(const Identity&) const = default;
};

// When a znode that is created goes, and whether its name gets a number.
enum class CreateMode {
  kPersistent = 1,
  // The servers delete the znode when the session ends.
  kEphemeral = 2,
  // The servers append ten digits to the name.
  kPersistentSequential = 3,
  kEphemeralSequential = 4,
  // The servers delete the znode some time after its last child was deleted.
  kContainer = 5,
  // The servers delete the znode after ttl_ms without children and changes.
  kPersistentWithTtl = 6,
  kPersistentSequentialWithTtl = 7,
};

// Selects the children that a list has.
enum class ChildKind {
  kAll = 1,
  // All but the ephemeral ones.
  kPersistent = 2,
  kEphemeral = 3,
};

// What happened to a znode.
enum class EventType { kNodeCreated = 1, kNodeDeleted = 2, kNodeDataChanged = 3 };

// A change of a znode. The creation or deletion of a child is an event of the child.
struct Event {
  EventType type{};
  std::string path;
  // The zxid of the change.
  int64_t zxid = 0;

  bool operator==(const Event&) const = default;
};

// Reports that events were lost: the servers no longer keep them, too many waited for a slow
// callback, or the session was replaced (client/client.h). The watched znodes have to be read again. A read from now on sees at
// least the state at `zxid`, and the watch reports every change after `zxid`.
struct WatchReset {
  int64_t zxid = 0;

  bool operator==(const WatchReset&) const = default;
};

// What a watch reports: an event, or that events were lost.
using WatchNotification = std::variant<Event, WatchReset>;

// The znodes whose events a watch reports.
enum class WatchScope {
  kNode = 1,
  // The znode and its children.
  kChildren = 2,
  // The znode and everything below it.
  kSubtree = 3,
};

// Why the servers refused a request. docs/reference/errors.md explains each code.
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
  kCannotChangeMembers = 28,
  kMembersChanged = 29,
};

// Returns the servers' error code if `status` is a refusal by the servers (or one that the client
// made in their place); nothing for errors of the client itself, such as deadlines, cancellations
// and too many pending calls.
std::optional<ErrorCode> ErrorOf(const absl::Status& status);

// Returns the index, from 0, of the operation that failed within its part of the transaction if
// `status` is that of a transaction that the servers refused; nothing for other statuses.
std::optional<size_t> FailedOperationOf(const absl::Status& status);

// The parts of a transaction (client/transaction.h).
enum class TransactionPart {
  kOperations = 1,  // what the transaction does if all of its compares hold
  kElse = 2,        // what it does otherwise
  kCompares = 3,    // its compares
};

// Returns the part of the operation or compare that failed, as FailedOperationOf its index.
std::optional<TransactionPart> FailedPartOf(const absl::Status& status);

// Returns the zxid at which the servers refused a request: of a write, that of its transaction; of a
// read, the last zxid that the server had applied. Nothing for other statuses, and for a request
// that was refused before it was executed.
std::optional<int64_t> ZxidOf(const absl::Status& status);

// Returns the most bytes of data that the servers accept in one write (jute.maxbuffer) if `status`
// is that of a write that they refused with TOO_LARGE; nothing for other statuses, and if the
// server did not send the limit.
std::optional<int64_t> DataBytesMaxOf(const absl::Status& status);

// Returns the name of the code in the protocol without its prefix, such as "NO_NODE"; "OK" for kOk.
std::string_view NameOf(ErrorCode code);

}  // namespace quorate
