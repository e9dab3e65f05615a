// SPDX-License-Identifier: Apache-2.0

// The implementation of Tree. tree.cc has construction, time and digest; tree_apply.cc the changes;
// tree_sequenced.cc the numbered requests; tree_transaction.cc compares, reads and missing parents;
// tree_quota.cc quotas; tree_read.cc the reads;
// snapshot.cc the conversion to and from records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tree/acl_table.h"
#include "tree/change_tracker.h"
#include "tree/command.h"
#include "tree/dedup_table.h"
#include "tree/expiry_index.h"
#include "tree/limits.h"
#include "tree/node_memory.h"
#include "tree/quota.h"
#include "tree/record.h"
#include "tree/sessions.h"
#include "tree/tree.h"
#include "tree/types.h"
#include "tree/znode.h"

namespace quorate::tree {

SessionInfo ToInfo(const Session& session);

class Tree::Impl {
 public:
  Impl();
  // Selects the constructor of a tree without any node, which TreeLoader fills.
  struct Bare {};
  explicit Impl(Bare) {}
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void Apply(Zxid zxid, std::string_view command, const Proposer& self, ApplyListener* listener);
  void Skip(Zxid zxid);
  void SetConfig(Zxid zxid, std::string_view text, ApplyListener* listener);

  // Returns the node at a path, or nullptr if there is none or the path is not legal. As in
  // ZooKeeper, "" means the root too.
  Znode* Lookup(std::string_view path) const;
  bool IsPermitted(const Znode& node, std::span<const Identity> identities,
                   int32_t permissions) const;
  // Returns the node if it exists and the caller may read it. Otherwise returns nullptr and sets
  // `*error`.
  const Znode* FindReadable(std::string_view path, std::span<const Identity> identities,
                            ErrorCode* error) const;

  // Returns the head record for the tree's present state.
  HeadRecord Head() const;
  void ForEachRecord(const RecordFunction& record) const;
  ChangeTracker& changes() { return changes_; }

  const AclTable& acls() const { return acls_; }
  const SessionTable& sessions() const { return sessions_; }
  const DedupTable& proposers() const { return dedup_table_; }
  const ExpiryIndex& expiry() const { return expiry_; }
  Zxid last_zxid() const { return last_zxid_; }
  int64_t time_ms() const { return time_ms_; }
  bool ttls_are_held() const { return ttls_held_until_ms_ != 0; }
  size_t node_count() const { return totals_.nodes; }
  size_t ephemeral_count() const { return totals_.ephemerals; }
  size_t data_bytes() const { return totals_.data_bytes; }
  size_t session_memory_bytes() const { return sessions_.bytes(); }
  size_t answer_memory_bytes() const { return answer_bytes_; }
  size_t node_memory_bytes() const { return memory_.bytes_used(); }
  size_t free_node_memory_bytes() const { return memory_.bytes_reserved() - memory_.bytes_used(); }
  uint64_t visited_nodes() const { return visited_nodes_; }
  uint64_t digest() const { return totals_.digest; }
  uint64_t ComputeDigest() const;

 private:
  friend class TreeLoader;

  // Totals that each change updates. If a multi fails, all of them are restored together.
  struct Totals {
    size_t nodes = 0;
    size_t ephemerals = 0;
    size_t data_bytes = 0;  // of names and data
    uint64_t digest = 0;
  };

  // The caller of an operation, and the zxid of its command.
  struct Context {
    Zxid zxid;
    Session* session = nullptr;  // nullptr for a request without a session or of a local one
    std::span<const Identity> identities;
    bool enforces_quota = false;
    ApplyListener* listener = nullptr;  // nullptr unless this server proposed the command
    bool is_local = false;              // the session is local, and the tree does not know it
    size_t read_cost_max = kReadCostMax;
  };

  // The values that a change replaced. Rollback restores them; Commit frees them.
  struct Undo {
    OpKind kind = OpKind::kCheck;
    Znode* node = nullptr;
    // Create and delete: the parent's earlier values.
    Zxid pzxid;
    int32_t created_children = 0;
    // SetData: the node's earlier values.
    ZnodeData data;
    uint64_t content_hash = 0;
    Zxid mzxid;
    int64_t mtime_ms = 0;
    // SetData: the earlier version. SetAcl: the earlier version of the ACL.
    int32_t version = 0;
    // SetAcl: the earlier ACL.
    uint32_t acl_id = 0;
  };

  struct Event {
    EventType type = EventType::kNodeCreated;
    std::string_view path;        // if empty, the event has the path of `node`
    const Znode* node = nullptr;  // exists until Commit, even if it was deleted
    // A change of the data: the data before it, which exist until Commit.
    const ZnodeData* previous = nullptr;
  };

  void AddSystemNode(std::string_view path);
  uint64_t NodeTerm(const Znode& node) const;
  // Remove a node's term from the digest before its metadata change, and add it again afterwards.
  void RemoveFromDigest(const Znode& node) { totals_.digest -= NodeTerm(node); }
  void AddToDigest(const Znode& node) { totals_.digest += NodeTerm(node); }
  void AdvanceTime(const CommandHeader& header, ApplyListener* listener);
  void SetTime(int64_t time_ms, int64_t ttls_held_until_ms);
  // Returns the digest's term of the time.
  uint64_t TimeTerm() const;

  void ApplyOpenSession(const CommandHeader& header, std::string_view command, Zxid zxid,
                        ApplyListener* listener, ApplyResult* result);
  void ApplyEndSession(const CommandHeader& header, Zxid zxid, ApplyListener* listener,
                       ApplyResult* result);
  // Applies a request. Stores the results of its operations in `*result` only if `wanted`.
  void ApplyRequest(const CommandHeader& header, std::string_view command, Zxid zxid, bool wanted,
                    ApplyListener* listener, ApplyResult* result);
  void ApplySequencedRequest(const CommandHeader& header, std::string_view command, Zxid zxid,
                             bool wanted, ApplyListener* listener, ApplyResult* result);
  // Drops the responses up to `sequence`, which the client has acknowledged.
  void Acknowledge(Session* session, uint64_t sequence);
  // Returns kOk if `sequence` is the next number of the session and its response may still fit. If
  // the number was applied earlier, returns kOk, stores the response of that time in `*result`, and
  // sets `result->repeated`. Otherwise returns the error.
  ErrorCode CheckSequence(const Session& session, uint64_t sequence, ApplyResult* result);
  // Stores the encoded response (answer_) under the session's next number.
  void KeepAnswer(Session* session);

  // Finds the session of a request, and returns whether it may act: kOk, kSessionExpired or
  // kSessionMoved. For a request without a session, or of a local session, returns kOk and leaves
  // `*session` nullptr.
  // REQUIRES: *session is nullptr.
  ErrorCode FindAttached(const CommandHeader& header, Session** session);
  // Makes the compares of a request, and tries the operations of the branch in order, until one
  // fails. Sets `*branch`, and stores the results in `*results`, unless that is nullptr. Returns true
  // if all succeeded: then CommitRequest or Rollback must follow. If a compare or an operation
  // failed, undoes the others and returns false.
  bool TryOps(const Request& request, const Context& context, Branch* branch,
              std::vector<OpResult>* results);
  void CommitRequest(Zxid zxid, ApplyListener* listener);
  // Adds what the request has visited to visited_nodes_.
  void CountVisits(const Request& request);
  // Notifies the listener of an event at `path`. REQUIRES: it is not committed yet.
  void TellEvent(const Event& event, std::string_view path, Zxid zxid, ApplyListener* listener);

  void ApplyDeleteContainer(std::string_view command, Zxid zxid, ApplyListener* listener,
                            ApplyResult* result);

  // Makes the compares of a request until one does not hold, and returns the branch. Returns
  // kCompares, and sets `*place` and `*error`, if a compare cannot be made.
  Branch MakeCompares(const Request& request, std::span<const Identity> identities, size_t* place,
                      ErrorCode* error) const;
  ErrorCode MakeCompare(const Compare& compare, std::span<const Identity> identities,
                        bool* holds) const;

  // Each of these makes its checks in ZooKeeper's order, and changes nothing unless it returns kOk;
  // but a create that fails may leave the parents that it has added, which Rollback removes.
  // `result` may be nullptr.
  ErrorCode ApplyOp(const Op& op, const Context& context, OpResult* result);
  ErrorCode Create(const Op& op, const Context& context, OpResult* result);
  // Adds the missing parents of `op.path`, from the top. Sets `*parent` to its parent, and
  // `*is_new` to whether that was added. REQUIRES: the path is legal; resolved_acl_ is that of the
  // operation.
  ErrorCode AddParents(const Op& op, const Context& context, Znode** parent, bool* is_new);
  // Adds a node with its event and its part of the quota, and stores its path and stat in
  // `*result`. REQUIRES: the caller has made all checks but that of the quota.
  ErrorCode AddNode(Znode* parent, std::string_view path, SessionId owner, const Op& op,
                    const Context& context, OpResult* result);
  ErrorCode Read(const Op& op, const Context& context, OpResult* result);
  // Adds to the cost of the request's reads. Returns kTooLarge if they exceed its maximum.
  ErrorCode AddReadCost(const Context& context, size_t cost);
  // Returns whether the request visits too many nodes, with `more` that it is about to visit.
  bool VisitsTooMany(size_t more = 0) const {
    return recursive_nodes_ + listed_nodes_ + more > kDeleteRecursiveMax;
  }
  ErrorCode Delete(const Op& op, const Context& context);
  ErrorCode DeleteRecursive(const Op& op, const Context& context, OpResult* result);
  ErrorCode SetData(const Op& op, const Context& context, OpResult* result);
  // Replaces the data of `node`, with its event, so that CommitRequest or Rollback must follow.
  void ReplaceData(Znode* node, std::string_view path, bool has_data, std::string_view data,
                   int32_t version, Zxid zxid);
  ErrorCode SetAcl(const Op& op, const Context& context, OpResult* result);
  ErrorCode CheckVersion(const Op& op, const Context& context);
  ErrorCode CheckAbsent(const Op& op) const;
  ErrorCode CheckCreated(const Op& op) const;
  ErrorCode CheckNotExists(const Op& op, const Context& context) const;
  ErrorCode CheckStat(const Op& op, const Context& context) const;
  ErrorCode TryDelete(const Op& op, const Context& context, OpResult* result);
  ErrorCode RemoveSubtree(const Op& op, const Context& context, OpResult* result);

  // Finds the node to delete, whether it has children or not. Makes the checks that both kinds of
  // delete have in common.
  ErrorCode FindDeleteTarget(const Op& op, const Context& context, Znode** node);
  // Sets subtree_ to the node and all nodes below it, children before their parent and in the order
  // of their names. `path_bytes` is the size of the node's path. Returns false if there are more
  // than `nodes_max` nodes, or if the recursive deletes of the request together exceed their
  // limits.
  bool CollectSubtree(Znode* top, size_t path_bytes, size_t nodes_max);
  // Deletes the nodes of subtree_.
  void DetachSubtree(const Context& context, OpResult* result);

  // Returns the path to create: `op.path`, followed by a sequence number if the mode is sequential.
  // The view is valid until the end of the request.
  std::string_view NumberedPath(const Op& op, const Znode& parent);
  // Resolves the ACL of an operation into resolved_acl_, and forgets the id of the one before.
  bool ResolveOpAcl(const Op& op, const Context& context);
  Znode* Attach(Znode* parent, std::string_view path, SessionId owner, const Op& op,
                const Context& context);
  void Detach(Znode* node, Zxid zxid);
  static EventValues ValuesOf(const Event& event, bool changes_acls);
  // Returns the ACLs of the node and of its parent. REQUIRES: the node's change is not committed
  // yet.
  EventAcls AclsOf(const Znode& node) const;
  // Updates the quota index after a node was created or deleted, if it is the limits of a quota.
  void RecordQuotaNode(const Znode& node, bool is_there);
  // Checks the quota of `path` for a write that adds `bytes_added` bytes and `nodes_added` nodes.
  // Returns kQuotaExceeded if a hard limit is exceeded and enforced, otherwise kOk.
  ErrorCode CheckQuota(std::string_view path, int64_t bytes_added, int64_t nodes_added,
                       const Context& context);
  // Updates the statistics of the quota after a write.
  void UpdateQuota(std::string_view path, int64_t bytes_added, int64_t nodes_added);
  // Initializes new statistics by counting the nodes below the path of the quota. O(number of these
  // nodes).
  void CountQuota(Znode* stats_node, std::string_view stats_path);
  void WriteQuotaStats(Znode* node, std::string_view path, std::string_view text);
  // Makes the changes in the undo log final.
  void Commit();
  // Undoes the changes in the undo log, newest first, and restores the totals.
  void Rollback(const Totals& before);
  void UndoOne(Undo* undo);

  NodeMemory memory_;  // outlives everything that is allocated from it
  Znode* root_ = nullptr;
  AclTable acls_;
  SessionTable sessions_;
  size_t answer_bytes_ = 0;  // memory_bytes() of all response caches
  DedupTable dedup_table_;
  ChangeTracker changes_{&acls_, &sessions_};
  ExpiryIndex expiry_;
  QuotaIndex quotas_;
  Totals totals_;
  Zxid last_zxid_;
  int64_t time_ms_ = 0;
  int64_t ttls_held_until_ms_ = 0;  // after a leap of time; 0 if TTLs are not held

  uint32_t created_ = 0;  // number of nodes created so far by the command that is being applied

  // State of the request that is being applied. These are members so that their memory is reused.
  std::deque<Undo> undo_;
  std::vector<Event> events_;
  bool changes_acls_ = false;  // whether the request has set the ACL of a node
  std::deque<std::string> numbered_paths_;
  std::vector<Acl> resolved_acl_;
  // The id of resolved_acl_, once a node that the operation has created has it: a long list is
  // looked up once, not once for each missing parent.
  std::optional<uint32_t> resolved_acl_id_;
  std::vector<Znode*> subtree_;
  // Of all recursive deletes of the request, and of all missing parents of its creates.
  size_t recursive_nodes_ = 0;
  size_t recursive_path_bytes_ = 0;
  size_t listed_nodes_ = 0;  // children of the nodes that the request lists
  size_t read_cost_ = 0;     // of all reads of the request
  uint64_t visited_nodes_ = 0;
  std::vector<OpResult> results_;  // used when the caller does not want the results
  std::string answer_;             // the encoded response
};

}  // namespace quorate::tree
