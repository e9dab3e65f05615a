// SPDX-License-Identifier: Apache-2.0

// The replicated state machine: znodes and sessions. It is deterministic: the same commands at the
// same zxids give the same tree and digest on every machine. Time and randomness are part of the
// commands.
//
// Thread-safety: none inside. Any number of threads may call const functions at the same time.
// Apply and the other functions that are not const exclude all other calls, unless their comment
// says otherwise (rpc/frontend/guarded_tree.h holds a SharedMutex around Apply, once per batch).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tree/command.h"
#include "tree/dedup_table.h"
#include "tree/pieces.h"
#include "tree/subtree.h"
#include "tree/types.h"

namespace quorate::tree {

// The outcome of a command.
struct ApplyResult {
  Zxid zxid;  // of the command; if `repeated`, of the earlier command with the same
              // number, which was applied
  CommandHeader header;
  // The error of the whole command, by its kind:
  //   create, attach session  kOk, or kSessionExpired if there is no such session or the password
  //                           is wrong
  //   close, expire session   kOk, kSessionExpired if there is no such session, or kSessionMoved
  //                           if the command is of another attachment
  //   deleteContainer         kOk, kNoNode, or kNotEmpty if the node may not be removed (any more)
  //   request                 kSessionExpired or kSessionMoved if the session cannot act; then
  //                           `ops` is empty. Otherwise kOk, and each operation has its own error;
  //                           in a failed multi, operations before the failed one have kOk, and
  //                           later ones kRuntimeInconsistency
  //   sequenced request       as a request, or kAlreadyAcknowledged, kOutOfSequence or
  //                           kTooManyUnacknowledged; then `ops` is empty
  ErrorCode error = ErrorCode::kOk;
  int32_t timeout_ms = 0;  // create or attach a session: its timeout
  // Which operations `ops` are those of: one element for each, unless `repeated`.
  Branch branch = Branch::kNone;
  std::vector<OpResult> ops;
  uint64_t client_sequence = 0;  // sequenced request: its number within the session
  // The number was applied before. `kept` is the cached response, and `ops` are empty until
  // ExpandRepeated.
  bool repeated = false;
  std::string kept;
  // Of a command that a session has submitted and that was not refused: the number of ephemerals of
  // the session after it.
  size_t session_ephemerals = 0;
};

// Sets `result->ops` from the cached response of a repeated request. A response of few bytes can be
// very many results: of more than `results_max`, only the first ones are set, and if the operation that
// failed is not among them, the last one has its error. A client that repeats what it has sent gets all
// of them if `results_max` is the number of the request's operations and compares. REQUIRES:
// result->repeated, and results_max > 0.
void ExpandRepeated(size_t results_max, ApplyResult* result);

struct SessionInfo {
  SessionId id;
  int32_t timeout_ms = 0;
  Zxid attach_zxid;
  uint16_t member = 0;  // the server to which it is attached
  size_t ephemerals = 0;
  // The number of the last sequenced request that was applied, and the number up to which the
  // client has acknowledged the responses.
  uint64_t last_sequence = 0;
  uint64_t acknowledged = 0;
};

// The ACLs of the node of an event, and of its parent (empty for the root).
struct EventAcls {
  std::span<const Acl> node;
  std::span<const Acl> parent;
};

// The data of the node of an event. Null data are as empty data.
struct EventValues {
  // The data as the command has left it: after its last change of the node, if it has several. No
  // value for a deletion.
  std::optional<std::string_view> value;
  // The data before this change. No value for a creation.
  std::optional<std::string_view> previous;
  // The command also changed the ACL of some node: who may read the node now may not have been
  // allowed to read `previous`.
  bool changes_acls = false;
};

// A quota that a write exceeds.
struct QuotaExcess {
  std::string_view path;  // the path that has the quota
  bool is_bytes = false;  // a limit on bytes; false: on the number of nodes
  bool is_hard = false;   // a hard limit: the write fails if its request enforces quotas
  int64_t value = 0;      // the count or bytes after the write
  int64_t limit = 0;
};

// Receives the effects of a command while Apply runs. Calls come in the order of the changes.
// String views are valid only during the call.
class ApplyListener {
 public:
  virtual ~ApplyListener() = default;
  // Called when a node was created, deleted or its data changed (kNodeCreated, kNodeDeleted,
  // kNodeDataChanged). A creation or deletion also changes the children of the parent; there is no
  // separate call for that. The changes of a multi are reported only if the whole multi succeeded.
  // A change of an ACL is not reported. `acls` is valid only during the call.
  virtual void OnNodeEvent(EventType type, std::string_view path, Zxid zxid,
                           const EventAcls& acls) = 0;
  // Returns whether OnNodeValues is to be called for the next event.
  virtual bool WantsNodeValues() const { return false; }
  // Called just before OnNodeEvent for the same event. `values` is valid until OnNodeEvent returns.
  virtual void OnNodeValues(const EventValues& values) { static_cast<void>(values); }
  // Called when a session was created, attached (moved), closed or expired.
  virtual void OnSessionAttached(const SessionInfo& session) = 0;
  virtual void OnSessionClosed(SessionId session, Zxid zxid) = 0;
  // Called when a command of the proposer passed to Apply exceeds a quota, whether the command
  // succeeds or not.
  virtual void OnQuotaExceeded(const QuotaExcess& excess) { static_cast<void>(excess); }
  // Called when a command's time differs so much from the tree's time that it is a leap
  // (tree/limits.h).
  virtual void OnTimeLeap(int64_t /*from_ms*/, int64_t /*to_ms*/) {}
  // Called with the result of a command of the proposer passed to Apply, after the events that the
  // command caused. Not called for a duplicate or out-of-sequence command.
  virtual void OnResult(ApplyResult result) = 0;
};

class Tree {
 public:
  // Creates a tree with "/", "/zookeeper", "/zookeeper/quota" and "/zookeeper/config", all with
  // zxid 0.
  Tree();
  ~Tree();
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  // Applies one committed command. Aborts if the command cannot be decoded: it was checked before
  // it entered the log, so that the memory or the log must be damaged. REQUIRES: zxid >
  // last_zxid().
  void Apply(Zxid zxid, std::string_view command, const Proposer& self, ApplyListener* listener);
  // Advances last_zxid for an entry without a command (a no-op of consensus).
  void Skip(Zxid zxid);
  // Sets the data of /zookeeper/config, for an entry that changes the membership of the cluster. As
  // in ZooKeeper, its version stays. REQUIRES: zxid > last_zxid().
  void SetConfig(Zxid zxid, std::string_view text, ApplyListener* listener);

  Zxid last_zxid() const;
  // Returns the tree's time: the newest time of a command. An older command does not move it back,
  // unless the difference is a leap (tree/limits.h).
  int64_t time_ms() const;

  // --- Reads. `identities` are those of the caller, in addition to world:anyone ------------------
  // Sets `*stat`. Needs no permission, as in ZooKeeper 3.8, where the existence of a node is not
  // protected.
  ErrorCode Exists(std::string_view path, Stat* stat) const;
  // Sets `*data`, which stays valid until the next Apply. `*has_data` is false for null data.
  ErrorCode GetData(std::string_view path, std::span<const Identity> identities,
                    std::string_view* data, bool* has_data, Stat* stat) const;
  // Calls `child` with the name of each child. O(children): a server that must serve other clients
  // in the meantime uses ReadChildren instead.
  ErrorCode GetChildren(std::string_view path, std::span<const Identity> identities,
                        const std::function<void(std::string_view)>& child, Stat* stat) const;
  // Reads the children in pieces. Calls `child` with the names of the next children from `*place`
  // on: at least `count_max` if there are as many, and at most some hundred more. Moves `*place`
  // behind them. A child that exists from the first piece to the last is read exactly once. A child
  // that is created or deleted in between may or may not be read. `*stat` is the node's stat at the
  // time of this call.
  ErrorCode ReadChildren(std::string_view path, std::span<const Identity> identities,
                         size_t count_max, const std::function<void(std::string_view)>& child,
                         ChildrenPlace* place, Stat* stat) const;
  ErrorCode GetAcl(std::string_view path, std::span<const Identity> identities,
                   std::vector<Acl>* acl, Stat* stat) const;
  // Counts the znodes below a znode, at any depth, in pieces. Looks at about `nodes_max` of them,
  // and sets `*done` when `place->count` is complete. Znodes that are created or deleted between
  // two pieces may or may not be counted. O(1) for the root.
  ErrorCode CountDescendants(std::string_view path, std::span<const Identity> identities,
                             size_t nodes_max, DescendantsPlace* place, bool* done) const;
  // Reads everything below a znode in the order of the query, in pieces (tree/subtree.h). Calls
  // `take` for the next znodes from `*place` on, until about `steps_max` steps were made or `take`
  // returns false for a znode, which is then the next one of the next piece. Adds the steps, each
  // about as long as a look at one znode, to `*steps`. What `take` gets is the state of now, and is
  // valid during the call. A znode that exists from the first piece to the last is shown exactly
  // once; one that is created or deleted in between may or may not be shown. A znode below the top
  // that the caller may not read is shown without what is below it. REQUIRES: !place->done(),
  // !place->has_names_to_sort(); the query is that of all earlier pieces.
  ErrorCode ReadSubtree(const SubtreeQuery& query, std::span<const Identity> identities,
                        size_t steps_max,
                        const std::function<bool(const SubtreeEntry& entry)>& take,
                        SubtreePlace* place, size_t* steps) const;
  // Reads the stat without a permission check, for watches. Returns false if there is no such node.
  bool FindStat(std::string_view path, Stat* stat) const;

  // Returns false if there is no such session.
  bool FindSession(SessionId id, SessionInfo* info) const;
  bool CheckPassword(SessionId id, std::string_view password) const;
  // Returns all sessions, ascending by id.
  std::vector<SessionInfo> Sessions() const;
  // Returns at most `max` sessions with ids above `id`, ascending.
  std::vector<SessionInfo> SessionsAfter(SessionId id, size_t max) const;
  // Returns the last applied command that `member` proposed; zeros if there was none.
  DedupTable::Last LastOf(uint16_t member) const;
  // Returns the paths of a session's ephemerals, in the order of their creation.
  std::vector<std::string> Ephemerals(SessionId id) const;
  // Reads the ephemerals in pieces: calls `path` with the ephemerals after the one at `after`
  // (empty: from the first on), until `path` returns false. Returns false without a call if `after`
  // is not an ephemeral of the session.
  bool ReadEphemerals(SessionId id, std::string_view after,
                      const std::function<bool(std::string_view path)>& path) const;

  // Returns at most `max` paths of containers and nodes with a TTL that a deleteContainer at
  // `time_ms` would remove. O(max). While TTLs are held after a leap of time, returns containers
  // only or, if there are none, at most one node with a TTL: deleteContainer does not remove that
  // node, but the command advances the tree's time.
  std::vector<std::string> FindExpired(int64_t time_ms, size_t max) const;

  // --- Counters, all O(1) ------------------------------------------------------------------------
  size_t node_count() const;
  size_t ephemeral_count() const;
  // The number of ephemerals of one session; 0 if there is no such session.
  size_t EphemeralCount(SessionId id) const;
  size_t session_count() const;
  size_t data_bytes() const;  // of names and data
  // Returns the memory of all nodes with their names and data in bytes, without the child sets of
  // their parents.
  size_t node_memory_bytes() const;
  // Return the memory of all sessions, and of the responses to their numbered writes, in bytes.
  // Unlike the other counts, these may differ between members.
  size_t session_memory_bytes() const;
  size_t answer_memory_bytes() const;
  // Returns the bytes that are allocated from the system and free for new nodes.
  size_t free_node_memory_bytes() const;
  // Returns about how many nodes the requests that were applied here have visited beyond one for
  // each operation: by compares, lists, recursive deletes and missing parents. Bytes that were read or
  // repeated count too.
  uint64_t visited_nodes() const;
  // Returns a hash of the whole tree with its sessions. It is updated with each change, and is
  // equal on all members at the same zxid.
  uint64_t digest() const;
  // Returns the same hash, computed from all znodes and sessions: a check for tests and tools.
  // O(size of the tree).
  uint64_t ComputeDigest() const;

  // --- The tree as records -----------------------------------------------------------------------
  // A store holds the records (tree/record.h). A checkpoint delta has the records that changed
  // since the previous delta, so that the cost of updating the store is proportional to the
  // changes. In a new tree every record counts as changed. In a loaded tree none does, because the
  // store has them.

  // Receives a record. `value` is nullopt if the record is to be removed. Views are valid during
  // the call.
  using RecordFunction =
      std::function<void(std::string_view key, std::optional<std::string_view> value)>;

  // Calls `record` for all records, in the order of their keys. For n nodes it takes O(n log n)
  // time, and 24 bytes of memory for each node.
  void ForEachRecord(const RecordFunction& record) const;

  // Begins a checkpoint delta with all records that changed since the last delta. Together with the
  // deltas before it, its records are those that ForEachRecord returns at this moment. O(members).
  // Excludes all other calls, as Apply does. REQUIRES: every earlier delta has ended.
  void BeginDelta();
  // Calls `record` for the next records of the delta, in no particular order and each key once,
  // until they have at least `bytes_max` bytes. Returns whether there may be more. The tree may
  // change between two calls: if a record of the delta changes before it was handed out, its old
  // value is kept, which takes memory. May run together with const functions, but not with itself.
  // REQUIRES: a delta has begun.
  bool NextDeltaRecords(size_t bytes_max, const RecordFunction& record);
  // Ends the delta, also in pieces: releases about `bytes_max` bytes of it, and returns whether
  // there is more. `durable` says that the store has the records durably; otherwise they count as
  // changed again and become part of the next delta. The tree may change between two calls. May run
  // together with const functions, but not with itself. REQUIRES: a delta has begun; `durable` is
  // the same in all calls; if it is true, all records were handed out.
  bool EndDelta(bool durable, size_t bytes_max);

 private:
  friend class TreeLoader;
  class Impl;
  explicit Tree(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quorate::tree
