// The replicated state machine: znodes and sessions. Pure and deterministic: the same commands at
// the same zxids give the same tree and digest on every machine; time and randomness are part of
// the commands.
//
// Thread-safety: none inside. Any number of threads may call const functions together. Apply and
// the other functions that are not const exclude all other calls, unless their comment says
// otherwise (rpc/frontend/guarded_tree.h holds a SharedMutex around Apply, once per batch).
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
#include "tree/types.h"

namespace quorate::tree {

// The outcome of a command.
struct ApplyResult {
  Zxid zxid;  // of the command; if `repeated`, of the command with this number that was applied
              // earlier
  CommandHeader header;
  // A session command: kOk or kSessionExpired (no such session, or wrong password). A
  // deleteContainer: kOk, kNoNode or kNotEmpty (the node may not be removed, or no longer). A
  // request: kSessionExpired or kSessionMoved if the session cannot act, and then `ops` is empty;
  // otherwise kOk, and each operation has its own error. In a failed multi, operations before the
  // failing one have kOk, the failing one its own error, later ones kRuntimeInconsistency. A
  // sequenced request: also kAlreadyAcknowledged, kOutOfSequence or kTooManyUnacknowledged, and
  // then `ops` is empty.
  ErrorCode error = ErrorCode::kOk;
  int32_t timeout_ms = 0;  // create and attach of a session: its timeout
  std::vector<OpResult> ops;
  uint64_t client_sequence = 0;  // a sequenced request: its number within its session
  bool repeated = false;         // this number was applied before: this is its cached response
};

struct SessionInfo {
  SessionId id;
  int32_t timeout_ms = 0;
  Zxid attach_zxid;
  uint16_t member = 0;  // the server to which it is attached
  size_t ephemerals = 0;
  // The number of the last sequenced request that was applied, and the number up to which the
  // client has the responses.
  uint64_t last_sequence = 0;
  uint64_t acknowledged = 0;
};

// The access control lists of the node that an event is about, and of its parent (empty for the
// root).
struct EventAcls {
  std::span<const Acl> node;
  std::span<const Acl> parent;
};

// A quota that a write exceeds.
struct QuotaExcess {
  std::string_view path;  // the path that has the quota
  bool is_bytes = false;  // a limit of bytes; false: of the number of nodes
  bool is_hard = false;   // a hard limit: the write fails if its request enforces quotas
  int64_t value = 0;      // the count or bytes that the write leads to
  int64_t limit = 0;
};

// Receives what Apply does, during Apply. Calls come in the order of the changes; string views are
// valid only during the call.
class ApplyListener {
 public:
  virtual ~ApplyListener() = default;
  // A node changed: kNodeCreated, kNodeDeleted or kNodeDataChanged. A creation or deletion also
  // changes the children of the parent; there is no separate call for that. For a multi, calls come
  // only if the whole multi succeeded. Not called for a change of ACL. `acls` is valid during the
  // call.
  virtual void OnNodeEvent(EventType type, std::string_view path, Zxid zxid,
                           const EventAcls& acls) = 0;
  // A session was created, attached (moved), closed or expired.
  virtual void OnSessionAttached(const SessionInfo& session) = 0;
  virtual void OnSessionClosed(SessionId session, Zxid zxid) = 0;
  // A command whose proposer is the one passed to Apply exceeds a quota, whether it succeeds or
  // not.
  virtual void OnQuotaExceeded(const QuotaExcess& excess) { static_cast<void>(excess); }
  // A command's time was so far from the tree's time that it is a leap (tree/limits.h).
  virtual void OnTimeLeap(int64_t /*from_ms*/, int64_t /*to_ms*/) {}
  // The result of a command whose proposer is the one passed to Apply; after the events it caused.
  // Not called for a duplicate or out-of-sequence command.
  virtual void OnResult(ApplyResult result) = 0;
};

class Tree {
 public:
  // Holds "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", all of zxid 0.
  Tree();
  ~Tree();
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  // Applies one committed command. REQUIRES: zxid > last_zxid(). A command that does not decode
  // aborts: it was checked before it entered the log, so memory or log is damaged.
  void Apply(Zxid zxid, std::string_view command, const Proposer& self, ApplyListener* listener);
  // Advances last_zxid for an entry without a command (a no-op of consensus).
  void Skip(Zxid zxid);

  Zxid last_zxid() const;
  // The newest time that a command carried. A command with an older time does not move it back,
  // unless the difference is a leap (tree/limits.h).
  int64_t time_ms() const;

  // --- Reads. `identities` are the caller's, besides world:anyone -------------------------------
  // No permission is needed, as in ZooKeeper 3.8: the existence of a node is not protected.
  ErrorCode Exists(std::string_view path, Stat* stat) const;
  // `*data` stays valid until the next Apply; `*has_data` is false for null data.
  ErrorCode GetData(std::string_view path, std::span<const Identity> identities,
                    std::string_view* data, bool* has_data, Stat* stat) const;
  // Calls `child` with each child's name. O(children); a server that must serve other clients
  // meanwhile uses ReadChildren.
  ErrorCode GetChildren(std::string_view path, std::span<const Identity> identities,
                        const std::function<void(std::string_view)>& child, Stat* stat) const;
  // The same in pieces: calls `child` with the names of the next children from `*place` on, at
  // least `count_max` if there are as many, and at most some hundred more. Moves `*place` behind
  // them. A child that exists from the first piece to the last is read exactly once; a child that
  // is created or deleted meanwhile may be read or not. `*stat` is the node's at the time of this
  // call.
  ErrorCode ReadChildren(std::string_view path, std::span<const Identity> identities,
                         size_t count_max, const std::function<void(std::string_view)>& child,
                         ChildrenPlace* place, Stat* stat) const;
  ErrorCode GetAcl(std::string_view path, std::span<const Identity> identities,
                   std::vector<Acl>* acl, Stat* stat) const;
  // Counts the znodes below a znode, at any depth, in pieces: looks at about `nodes_max` of them
  // and sets `*done` when `place->count` is complete. Znodes that are created or deleted between
  // two pieces may count or not. O(1) for the root.
  ErrorCode CountDescendants(std::string_view path, std::span<const Identity> identities,
                             size_t nodes_max, DescendantsPlace* place, bool* done) const;
  // Reads the stat without a permission check, for watches. Returns false if there is no such node.
  bool FindStat(std::string_view path, Stat* stat) const;

  // Returns false if there is no such session.
  bool FindSession(SessionId id, SessionInfo* info) const;
  bool CheckPassword(SessionId id, std::string_view password) const;
  // All sessions, ascending by id.
  std::vector<SessionInfo> Sessions() const;
  // At most `max` sessions with ids above `id`, ascending.
  std::vector<SessionInfo> SessionsAfter(SessionId id, size_t max) const;
  // The last applied command that `member` proposed; zeros if there was none.
  DedupTable::Last LastOf(uint16_t member) const;
  // Paths of the ephemerals of a session, in the order of creation.
  std::vector<std::string> Ephemerals(SessionId id) const;
  // The same in pieces: calls `path` with the ephemerals behind `after` (a path; empty: from the
  // first), until `path` returns false. Returns false without a call if `after` is not an ephemeral
  // of the session.
  bool ReadEphemerals(SessionId id, std::string_view after,
                      const std::function<bool(std::string_view path)>& path) const;

  // Paths of containers and nodes with a TTL that a deleteContainer removes at `time_ms`, at most
  // `max`; O(max). After a leap of time, at most one node with a TTL, if there is no container:
  // deleteContainer does not remove it then, but the command moves the tree's time on.
  std::vector<std::string> FindExpired(int64_t time_ms, size_t max) const;

  // --- Counters, all O(1) ------------------------------------------------------------------------
  size_t node_count() const;
  size_t ephemeral_count() const;
  // The number of ephemerals of one session; 0 if there is no such session.
  size_t EphemeralCount(SessionId id) const;
  size_t session_count() const;
  size_t data_bytes() const;  // names and data
  // The memory of all nodes with their names and data, without the children sets of their parents.
  size_t node_memory_bytes() const;
  // The memory of all sessions, and of the responses to their numbered writes. Unlike the other
  // counts, these may differ between members.
  size_t session_memory_bytes() const;
  size_t answer_memory_bytes() const;
  // Memory that is allocated from the system and free for new nodes.
  size_t free_node_memory_bytes() const;
  // A hash of the whole tree and of the sessions; kept incrementally, equal on all members at a
  // zxid.
  uint64_t digest() const;
  // The same, computed from all znodes and sessions: a check for tests and tools. O(size of the
  // tree).
  uint64_t ComputeDigest() const;

  // --- The tree as records -----------------------------------------------------------------------
  // A store keeps the records (tree/record.h). A checkpoint delta is what changed since the
  // previous delta, so that the cost of updating the store is proportional to the changes. In a new
  // tree everything counts as changed; in a loaded tree nothing does, because the store has it.

  // Without a `value`, the record of that key is to be removed. Views are valid during the call.
  using RecordFunction =
      std::function<void(std::string_view key, std::optional<std::string_view> value)>;

  // Calls `record` for all records, in the order of keys. For n nodes: O(n log n) time and 24 bytes
  // of memory a node.
  void ForEachRecord(const RecordFunction& record) const;

  // Begins a checkpoint delta with everything that changed since the last one. Together with the
  // deltas before it, its records are those of ForEachRecord at this moment. O(members). Excludes
  // all other calls, as Apply does. REQUIRES: every delta that was begun has ended.
  void BeginDelta();
  // Hands out the next records of the delta, each key once, in no order, until they are at least
  // `bytes_max` bytes. Returns whether there may be more. Between two calls the tree may change: if
  // a record of the delta changes before it was handed out, its old value is kept, which takes
  // memory. May run together with const functions, but not with itself. REQUIRES: a delta is begun.
  bool NextDeltaRecords(size_t bytes_max, const RecordFunction& record);
  // Ends the delta, also in pieces: forgets about `bytes_max` bytes of it, and returns whether
  // there is more. `durable`: the store has its records durably. Otherwise they count as changed
  // again and are part of the next delta. Between two calls the tree may change. May run together
  // with const functions, but not with itself. REQUIRES: a delta is begun; `durable` is the same in
  // all calls; if it is true, all records were handed out.
  bool EndDelta(bool durable, size_t bytes_max);

 private:
  friend class TreeLoader;
  class Impl;
  explicit Tree(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quorate::tree
