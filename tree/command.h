// SPDX-License-Identifier: Apache-2.0

// Commands: the requests that change the tree, as log entries. The server that accepts a request
// encodes it once. The same bytes are used in the log, between servers, and for Apply.
//
// Layout, little-endian:
//   0  u8   format (1)          1  u8   kind            2  u16  proposer member
//   4  u32  proposer tag        8  i64  time_ms, written by the leader when it proposes;
//                                       bit 62: CommandHeader::bounds_time
//  16  u64  proposer           24  u64  proposer sequence
//           incarnation
//  32  i64  session id         40  i64  attach zxid
//  48  body by kind
//
// Proposer: each server numbers the commands that it submits 1, 2, 3, ... within an incarnation (a
// number that is greater at each start of that server). The tree applies number n of an incarnation
// only once, and only right after n - 1. A command that was sent again, or that overtook a lost
// one, changes nothing. Therefore a server may resend, in order, all its commands that it has not
// seen applied, and each is applied exactly once.
//
// Proposer member 0 means that there is no proposer: such a command has sequence 0 and is always
// applied. It is used for commands that can be applied twice without harm, such as the expiry of a
// session, which the leader decides.
//
// Proposer tag: a value that the proposer gets back in the result. The tree ignores it.
//
// Thread-safety: values and functions without state.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tree/types.h"

namespace quorate::tree {

enum class CommandKind : uint8_t {
  kCreateSession = 1,  // body: i32 timeout_ms, password
  kAttachSession = 2,  // body: i32 timeout_ms, password. The session moves to the proposer server;
                       // its attach zxid becomes the zxid of this command
  kCloseSession = 3,   // no body. From the client
  kExpireSession = 4,  // no body. From the leader; only if the attach zxid is still the session's
  kRequest = 5,        // body: a Request. Without a session (session and attach zxid 0), or of a
                       // local session (attach zxid 0), it may do everything except create
                       // ephemerals. In a local session, those fail with kEphemeralOnLocalSession
  kDeleteContainer = 6,   // body: the path. From the leader; only if Tree::FindExpired would still
                          // return the node
  kSequencedRequest = 7,  // body: u64 sequence in the session, u64 acknowledged, a Request.
                          // Applied once, even if it is sent repeatedly or via other servers
                          // (SequencedRequest)
};

// The cluster versions in which commands changed. A command that older members do not know may
// enter the log only when every member knows it. The cluster version also counts all other changes
// on which members must agree (consensus/core/types.h lists the numbers).
inline constexpr uint32_t kVersionFirst = 1;
inline constexpr uint32_t kVersionExpiry = 3;  // containers, nodes with a TTL, hard quotas
// Numbered writes, requests without a session, recursive deletes, checks for absence.
inline constexpr uint32_t kVersionNumbered = 4;
inline constexpr uint32_t kVersionCheckCreated = 5;    // also kRefused with a `refusal`
inline constexpr uint32_t kVersionBoundedTime = 7;     // CommandHeader::bounds_time
inline constexpr uint32_t kVersionKeeper = 8;          // the operations of ClickHouse Keeper
inline constexpr uint32_t kVersionLocalSessions = 10;  // requests of local sessions
// Requests with branches, reads, creates with parents.
inline constexpr uint32_t kVersionTransactions = 12;

struct Proposer {
  uint16_t member = 0;
  uint64_t incarnation = 0;
  friend bool operator==(const Proposer&, const Proposer&) = default;
};

struct CommandHeader {
  CommandKind kind = CommandKind::kRequest;
  Proposer proposer;
  uint32_t proposer_tag = 0;
  uint64_t sequence = 0;  // counted from 1 in the proposer's incarnation
  int64_t time_ms = 0;    // since the epoch
  // Whether the tree limits how far this command's time may move the tree's time (tree/limits.h).
  // If false, the tree's time is the newest time that any command carried.
  bool bounds_time = false;
  SessionId session;
  Zxid attach_zxid;  // which attachment of the session this belongs to: the zxid of the command
                     // that created or last attached it. A request of an older attachment is
                     // refused with kSessionMoved: the client has moved to another connection.
                     // 0 in a kRequest: the session is local, known only to the server that has
                     // made it, which is the proposer. If the tree knows the session, because it
                     // became global, such a request is refused with kSessionMoved
};

inline constexpr size_t kCommandHeaderBytes = 48;

// As in ZooKeeper, the operation and the mode together decide the kind of the created node:
//   kCreate           the kind of the mode, but a persistent node for kContainer; no TTL modes
//   kCreateContainer  a container, sequential if the mode is; no TTL modes
//   kCreateTtl        a node with a TTL; the mode is one of the two with a TTL
// Any other combination fails with kBadArguments. A check with kAnyVersion requires that the node
// exists and that the caller may read it.
enum class OpKind : uint8_t {
  kCreate = 1,
  kDelete = 2,
  kSetData = 3,
  kCheck = 4,
  kSetAcl = 5,
  kCreateContainer = 6,
  kCreateTtl = 7,
  kCheckAbsent = 8,      // fails with kNodeExists if there is a node
  kDeleteRecursive = 9,  // the node and all below it, within the bounds of tree/limits.h
  kCheckCreated = 10,    // fails with kBadVersion if the node's czxid is not `created_zxid`;
                         // needs no permission, like kCheckAbsent
  kRefused = 11,         // fails with `refusal`: stands for a numbered write that a front end
                         // refused, so that its sequence number is used up

  // The operations that ClickHouse Keeper adds to ZooKeeper's, with its rules. Their paths must be
  // legal, or they fail with kBadArguments.
  kCheckNotExists = 12,     // fails with kNodeExists if there is a node with this version; it must
                            // be readable
  kCreateIfNotExists = 13,  // as kCreate, but succeeds without a change if there is a node
  kRemoveSubtree = 14,      // the node and all below it, or nothing if it does not exist. Needs the
                            // permission to delete of the parent and of each removed node. Fails
                            // with kNotEmpty if there are more nodes than `limit` or
                            // tree/limits.h allow
  kCheckStat = 15,          // fails with kBadVersion if the version or a field of the stat differs
                            // from `version` or `expected`; the node must be readable
  kTryDelete = 16,          // as kDelete, but succeeds without a change if the node does not exist,
                            // has another version or has children

  // Reads. They see the changes of the operations before them in the request. Their paths must be
  // legal, or they fail with kBadArguments. They fail with kTooLarge if the reads of the request
  // together exceed kReadCostMax, or kNumberedReadCostMax if it is numbered.
  kGet = 17,          // data and stat
  kExists = 18,       // whether there is a node, and its stat; needs no permission
  kGetChildren = 19,  // the names of the children, and the stat
};

// An operation. The bytes to which its views point must outlive it.

struct Op {
  OpKind kind = OpKind::kCheck;
  std::string_view path;
  bool has_data = false;  // null data is not the same as empty data
  std::string_view data;
  std::vector<Acl> acl;                       // creates, setAcl
  CreateMode mode = CreateMode::kPersistent;  // creates
  int64_t ttl_ms = 0;                         // createTtl
  // Deletes (top node), setData, checks of a version or stat, setAcl (of the ACL).
  int32_t version = kAnyVersion;
  Zxid created_zxid;                             // checkCreated
  ErrorCode refusal = ErrorCode::kBadArguments;  // refused
  uint32_t limit = 0;                            // removeSubtree: the most nodes that it may remove
  Stat expected;                                 // checkStat; a field of -1 matches any value
  // Creates: missing parents are created too, as persistent nodes with the ACL of this operation and
  // empty data. The permission to create is needed of the lowest node above them that exists. They
  // count against kDeleteRecursiveMax: kTooLarge if there are too many.
  bool with_parents = false;
};

// What a compare looks at. The permission to read is needed for all but existence and czxid, which
// are not protected.
enum class CompareTarget : uint8_t {
  kExists = 1,  // 1 if the node exists, otherwise 0
  kCzxid = 2,
  kMzxid = 3,
  kPzxid = 4,
  kVersion = 5,
  kCversion = 6,
  kAversion = 7,
  kValue = 8,  // the data, as unsigned bytes; null data are as empty data
};

enum class CompareRelation : uint8_t { kEqual = 1, kNotEqual = 2, kLess = 3, kGreater = 4 };

// A condition of a request with branches: the target is equal to, not equal to, less than or greater
// than `number`, or `value` if the target is the data. If the node does not exist, its zxids count
// as 0, and no relation holds for its versions and its data.
struct Compare {
  CompareTarget target = CompareTarget::kExists;
  CompareRelation relation = CompareRelation::kEqual;
  std::string_view path;  // must be legal, or the request fails with kBadArguments
  int64_t number = 0;
  std::string_view value;
};

// Returns whether kRefused may carry this error.
bool IsRefusal(ErrorCode error);
// Returns whether operation, mode and TTL of a create form a valid combination. REQUIRES: op.kind
// is one of the creates.
bool IsValidCreate(const Op& op);

// A request: one operation, or, if `multi`, any number of operations that succeed or fail together.
struct Request {
  bool multi = false;
  std::vector<Op> ops;
  // The caller's identities, besides world:anyone.
  std::vector<Identity> identities;
  // Whether hard quota limits are enforced. The server that accepts the request decides it by its
  // configuration: the outcome must not depend on the server that applies the request.
  bool enforces_quota = false;

  // A request with branches: if all compares hold, the first `then_count` operations are tried,
  // otherwise the others. Either branch may be empty. A compare that does not hold is no error; one
  // that cannot be made (kBadArguments, kNoAuth) fails the request. REQUIRES: if it has branches, it
  // is a multi.
  bool has_branches = false;
  std::vector<Compare> compares = {};
  size_t then_count = 0;
};

// Returns the operations of a branch. REQUIRES: it is not kCompares; it is kNone if and only if the
// request has no branches.
std::span<const Op> OpsOf(const Request& request, Branch branch);

// Returns whether the request may make the tree larger.
bool AddsData(const Request& request);
// Returns whether the request has reads, in whichever branch. The response to a numbered request
// with reads takes memory until the client has acknowledged it.
bool HasReads(const Request& request);

// Returns the cluster version that such a command needs. The command may be proposed only when
// every member understands that version.
uint32_t VersionNeeded(CommandKind kind);
uint32_t VersionNeeded(const Request& request);  // for a request with a session
// REQUIRES: the header's kind is one that carries a Request.
uint32_t VersionNeeded(const CommandHeader& header, const Request& request);

// A request that the client has numbered 1, 2, 3, ... over the life of its session, across all
// servers. The tree applies number n only right after n - 1, and once. The response is kept until a
// later request acknowledges it, and is returned whenever the same number is sent again.
struct SequencedRequest {
  uint64_t sequence = 0;      // from 1
  uint64_t acknowledged = 0;  // the client has received the responses up to this number
  Request request;
};

// Each of these functions appends a whole command (header and body) to `*out`.
void AppendCreateSession(const CommandHeader& header, int32_t timeout_ms, std::string_view password,
                         std::string* out);
void AppendAttachSession(const CommandHeader& header, int32_t timeout_ms, std::string_view password,
                         std::string* out);
void AppendCloseSession(const CommandHeader& header, std::string* out);  // kind: close or expire
void AppendRequest(const CommandHeader& header, const Request& request, std::string* out);
// REQUIRES: header.session is a session, sequence is not 0.
void AppendSequencedRequest(const CommandHeader& header, uint64_t sequence, uint64_t acknowledged,
                            const Request& request, std::string* out);
void AppendDeleteContainer(const CommandHeader& header, std::string_view path, std::string* out);

// Writes the leader's time into an encoded command, in place. REQUIRES: the command has at least
// kCommandHeaderBytes bytes.
void StampTime(char* command, int64_t time_ms, bool bounds_time = false);

// Writes the proposer's sequence number into an encoded command, in place. REQUIRES: as StampTime.
void StampSequence(char* command, uint64_t sequence);

// Returns the proposer of an encoded command. REQUIRES: as StampTime.
Proposer ProposerOf(std::string_view command);

// Returns the path of the first operation of the command with which `bytes` begin; empty if the command
// has no operation. The path points into `bytes`. Cheap: decodes nothing behind the path.
std::string_view FirstPathOf(std::string_view bytes);

// Decodes the header alone. Returns InvalidArgument if the command is too short, or of an unknown
// format or kind.
absl::StatusOr<CommandHeader> DecodeHeader(std::string_view command);

struct SessionBody {
  int32_t timeout_ms = 0;
  std::string_view password;
};
absl::StatusOr<SessionBody> DecodeSessionBody(std::string_view command);
// Decodes a command with a request. Its views point into `command`. Returns InvalidArgument if
// AppendRequest cannot have written the command.
absl::StatusOr<Request> DecodeRequest(std::string_view command);
// Decodes a command with a numbered request; InvalidArgument if AppendSequencedRequest cannot have
// written it.
absl::StatusOr<SequencedRequest> DecodeSequencedRequest(std::string_view command);
// Returns the path, which points into `command`. Returns InvalidArgument if AppendDeleteContainer
// cannot have written the command.
absl::StatusOr<std::string_view> DecodeDeleteContainer(std::string_view command);

}  // namespace quorate::tree
