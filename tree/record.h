// SPDX-License-Identifier: Apache-2.0

// The tree as records, each with a key and a value. Records are the contents of checkpoints, of
// snapshots for followers, and of backups. There is one head record, and one record for each
// session and each znode.
//
// A znode's key is the zxid at which it was created and its ordinal among the nodes that the same
// command created. Therefore
//   - a key never changes and is never used again, and a change of a znode touches one record
//     (its creation or deletion also touches the parent's record, because the parent's stat
//     changes);
//   - a parent comes before its children, and the ephemerals of a session come in the order of
//     creation: loading in key order needs no second pass, and the order needs no record;
//   - a key costs four bytes of memory, since a node has its czxid anyway; it is short at any
//     depth; and new nodes come at the end of the key space, which is cheap for an LSM tree.
// A node's record contains its ACL list, so that the lists need no records of their own.
//
// Keys are compared as bytes; numbers in them are big-endian:
//   u8 1                                    the head, which comes first
//   u8 2, i64 id (with the sign bit flipped)  a session
//   u8 3, i64 czxid, u32 ordinal             a znode
// Values are little-endian:
//   head     u8 format (1; 2 after a leap of time), i64 zxid, i64 time_ms, if the format is 2 i64
//            time until which TTLs are held, u64 digest, u64 znodes, u64 sessions, u32 count, then
//            for each proposer: u16 member, u64 incarnation, u64 sequence
//   session  i32 timeout_ms, i64 attach zxid, u16 member, the password; if it has made numbered
//            writes: i32 -2 (a format number, which is no valid timeout), i32 timeout_ms, i64
//            attach zxid, u16 member, u32 length and password, u64 last sequence, u64 acknowledged,
//            ResponseCache::bytes()
//   znode    u8 flags, i64 czxid and u32 ordinal of the parent (the root's own for the root),
//            i64 mzxid, pzxid, ctime_ms, mtime_ms, i32 version, created children, aversion,
//            u32 children, [i64 owner], u32 length and name, [u32 count, then for each ACL entry:
//            i32 permissions, u32 length and scheme, u32 length and id], the data
//
// Thread-safety: functions without state.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tree/acl_table.h"
#include "tree/dedup_table.h"
#include "tree/sessions.h"
#include "tree/types.h"
#include "tree/znode.h"

namespace quorate::tree {

enum class RecordKind : uint8_t { kHead = 1, kSession = 2, kNode = 3 };

struct NodeKey {
  Zxid czxid;
  uint32_t ordinal = 0;
  friend auto operator<=>(const NodeKey&, const NodeKey&) = default;
};

inline NodeKey KeyOf(const Znode& node) { return {node.czxid, node.ordinal}; }

struct HeadRecord {
  Zxid zxid;
  int64_t time_ms = 0;
  int64_t ttls_held_until_ms = 0;  // after a leap of time; 0 if TTLs are not held
  uint64_t digest = 0;
  uint64_t nodes = 0;
  uint64_t sessions = 0;
  DedupTable::Map proposers;
};

struct SessionRecord {
  SessionId id;
  int32_t timeout_ms = 0;
  Zxid attach_zxid;
  uint16_t member = 0;
  std::string_view password;
  // The state of the numbered writes; zeros if there were none.
  uint64_t last_sequence = 0;
  uint64_t acknowledged = 0;
  std::string_view answers;
  Zxid answered_zxid;  // the zxid of the newest response
};

struct NodeRecord {
  NodeKey key;
  NodeKey parent;
  Zxid mzxid;
  Zxid pzxid;
  int64_t ctime_ms = 0;
  int64_t mtime_ms = 0;
  int32_t version = 0;
  int32_t created_children = 0;
  int32_t aversion = 0;
  uint32_t children = 0;
  SessionId owner;  // as Znode::owner
  std::string_view name;
  std::vector<Acl> acl;  // empty: {ALL, world, anyone}
  bool has_data = false;
  std::string_view data;
};

// Each of these functions replaces the contents of `*key` or `*value`.
void EncodeHeadKey(std::string* key);
void EncodeSessionKey(SessionId id, std::string* key);
void EncodeNodeKey(const NodeKey& node, std::string* key);
void EncodeHead(const HeadRecord& head, std::string* value);
void EncodeSession(const Session& session, std::string* value);
// Encodes a node. `acls` is the table that has the node's list.
void EncodeNode(const Znode& node, const AclTable& acls, std::string* value);

// Each of these functions decodes a record, and checks that the functions above can have written
// it, as far as a single record shows that. Returns DataLoss with the fault. Views point into key
// and value.
absl::StatusOr<RecordKind> DecodeKind(std::string_view key);
absl::StatusOr<HeadRecord> DecodeHead(std::string_view key, std::string_view value);
absl::StatusOr<SessionRecord> DecodeSession(std::string_view key, std::string_view value);
// Decodes a node into `*record`, whose memory is reused. REQUIRES: `*record` is new or was decoded
// into before.
absl::Status DecodeNode(std::string_view key, std::string_view value, NodeRecord* record);

// Returns a DataLoss error that names the record and its fault `what`.
absl::Status BadRecord(std::string_view what, std::string_view key);

}  // namespace quorate::tree
