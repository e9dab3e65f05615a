// What is behind Tree. tree.cc has the life of the tree and its digest, tree_apply.cc the changes,
// tree_sequenced.cc those that come once however often they are sent, tree_quota.cc quotas,
// tree_read.cc the reads, snapshot.cc the way into records and out of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tree/acl_table.h"
#include "tree/change_tracker.h"
#include "tree/command.h"
#include "tree/dedup_table.h"
#include "tree/expiry_index.h"
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
  // Without any node, for TreeLoader to fill.
  struct Bare {};
  explicit Impl(Bare) {}
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void Apply(Zxid zxid, std::string_view command, const Proposer& self, ApplyListener* listener);
  void Skip(Zxid zxid);

  // The node of a path; "" is the root too, as in ZooKeeper. nullptr if there is none, whether the
  // path is legal or not.
  Znode* Lookup(std::string_view path) const;
  bool IsPermitted(const Znode& node, std::span<const Identity> identities,
                   int32_t permissions) const;
  // The node if it is there and may be read; else nullptr and why.
  const Znode* FindReadable(std::string_view path, std::span<const Identity> identities,
                            ErrorCode* error) const;

  // The record of the head, as the tree is now.
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
  uint64_t digest() const { return totals_.digest; }
  uint64_t ComputeDigest() const;

 private:
  friend class TreeLoader;

  // Sums that follow each change, and go back as one when a multi fails.
  struct Totals {
    size_t nodes = 0;
    size_t ephemerals = 0;
    size_t data_bytes = 0;  // of names and data
    uint64_t digest = 0;
  };

  // Who does something, and when.
  struct Context {
    Zxid zxid;
    Session* session = nullptr;  // of a request without one: nobody
    std::span<const Identity> identities;
    bool enforces_quota = false;
    ApplyListener* listener = nullptr;  // if the command is of the server that applies it
  };

  // How to take back one change, or to free what it replaced.
  struct Undo {
    OpKind kind = OpKind::kCheck;
    Znode* node = nullptr;
    // Create and delete: of the parent.
    Zxid pzxid;
    int32_t created_children = 0;
    // SetData.
    ZnodeData data;
    uint64_t content_hash = 0;
    Zxid mzxid;
    int64_t mtime_ms = 0;
    // SetData: the version. SetAcl: that of the ACL.
    int32_t version = 0;
    // SetAcl.
    uint32_t acl_id = 0;
  };

  struct Event {
    EventType type = EventType::kNodeCreated;
    std::string_view path;        // empty: it is the node's
    const Znode* node = nullptr;  // there until Commit, even if it was deleted
  };

  void AddSystemNode(std::string_view path);
  uint64_t NodeTerm(const Znode& node) const;
  // Takes a node's term out of the digest before its metadata change, and puts it in after.
  void RemoveFromDigest(const Znode& node) { totals_.digest -= NodeTerm(node); }
  void AddToDigest(const Znode& node) { totals_.digest += NodeTerm(node); }
  void AdvanceTime(const CommandHeader& header, ApplyListener* listener);
  void SetTime(int64_t time_ms, int64_t ttls_held_until_ms);
  // The digest's term of the time.
  uint64_t TimeTerm() const;

  void ApplyOpenSession(const CommandHeader& header, std::string_view command, Zxid zxid,
                        ApplyListener* listener, ApplyResult* result);
  void ApplyEndSession(const CommandHeader& header, Zxid zxid, ApplyListener* listener,
                       ApplyResult* result);
  // `*result` gets what the operations answer only with `wanted`.
  void ApplyRequest(const CommandHeader& header, std::string_view command, Zxid zxid, bool wanted,
                    ApplyListener* listener, ApplyResult* result);
  void ApplySequencedRequest(const CommandHeader& header, std::string_view command, Zxid zxid,
                             bool wanted, ApplyListener* listener, ApplyResult* result);
  // Forgets the answers that the client has.
  void Acknowledge(Session* session, uint64_t sequence);
  // kOk if number `sequence` is the next of the session, and there may be room for its answer. Else
  // what is the matter, or, if it was applied before, kOk and `result->repeated`, and `*result` is
  // what it was then.
  static ErrorCode CheckSequence(const Session& session, uint64_t sequence, ApplyResult* result);
  // Makes the encoded answer that of the session's next number.
  void KeepAnswer(Session* session);

  // Who acts by a request, and whether it may: kOk, kSessionExpired or kSessionMoved. Nobody, with
  // kOk, for a request without a session. REQUIRES: *session is nullptr.
  ErrorCode FindAttached(const CommandHeader& header, Session** session);
  // Applies all operations of a request, or none. `*results` gets what they answer unless it is
  // nullptr. Returns whether all succeeded: then CommitRequest or Rollback must follow.
  bool TryOps(const Request& request, const Context& context, std::vector<OpResult>* results);
  void CommitRequest(Zxid zxid, ApplyListener* listener);

  void ApplyDeleteContainer(std::string_view command, Zxid zxid, ApplyListener* listener,
                            ApplyResult* result);

  // Each checks in ZooKeeper's order, and changes nothing unless it returns kOk. `result` may be
  // nullptr.
  ErrorCode ApplyOp(const Op& op, const Context& context, OpResult* result);
  ErrorCode Create(const Op& op, const Context& context, OpResult* result);
  ErrorCode Delete(const Op& op, const Context& context);
  ErrorCode DeleteRecursive(const Op& op, const Context& context, OpResult* result);
  ErrorCode SetData(const Op& op, const Context& context, OpResult* result);
  ErrorCode SetAcl(const Op& op, const Context& context, OpResult* result);
  ErrorCode CheckVersion(const Op& op, const Context& context);
  ErrorCode CheckAbsent(const Op& op) const;
  ErrorCode CheckCreated(const Op& op) const;

  // The node that a delete is about, whether it has children or not; what both kinds of delete look
  // at first.
  ErrorCode FindDeleteTarget(const Op& op, const Context& context, Znode** node);
  // Makes subtree_ the node and all below it, children before their parent and in the order of
  // their names. `path_bytes` is the size of the node's path. False if the request's recursive
  // deletes come to more than they may.
  bool CollectSubtree(Znode* top, size_t path_bytes);

  // A path that stays where it is until the end of the request: `path` itself, or with a sequence
  // number behind it.
  std::string_view NumberedPath(const Op& op, const Znode& parent);
  // Resolves the ACL of an operation into resolved_acl_.
  bool ResolveOpAcl(const Op& op, const Context& context);
  Znode* Attach(Znode* parent, std::string_view path, SessionId owner, const Op& op,
                const Context& context);
  void Detach(Znode* node, Zxid zxid);
  // REQUIRES: what happened to the node was not made final yet.
  EventAcls AclsOf(const Znode& node) const;
  // Follows the nodes that are limits of a quota, as they come and go.
  void RecordQuotaNode(const Znode& node, bool is_there);
  // Whether a write that adds so much to `path` keeps to its quota: kOk or kQuotaExceeded.
  ErrorCode CheckQuota(std::string_view path, int64_t bytes_added, int64_t nodes_added,
                       const Context& context);
  // The write was made: changes the statistics of the quota.
  void UpdateQuota(std::string_view path, int64_t bytes_added, int64_t nodes_added);
  // Makes new statistics what they should be. O(nodes below the path of the quota).
  void CountQuota(Znode* stats_node, std::string_view stats_path);
  void WriteQuotaStats(Znode* node, std::string_view path, std::string_view text);
  // Makes what the undo log holds final.
  void Commit();
  // Takes all of it back, newest first, and restores the totals.
  void Rollback(const Totals& before);
  void UndoOne(Undo* undo);

  NodeMemory memory_;  // outlives all that has a part of it
  Znode* root_ = nullptr;
  AclTable acls_;
  SessionTable sessions_;
  size_t answer_bytes_ = 0;  // memory_bytes() of all sessions' answers
  DedupTable dedup_table_;
  ChangeTracker changes_{&acls_, &sessions_};
  ExpiryIndex expiry_;
  QuotaIndex quotas_;
  Totals totals_;
  Zxid last_zxid_;
  int64_t time_ms_ = 0;
  int64_t ttls_held_until_ms_ = 0;  // after a leap; 0: they are not

  uint32_t created_ = 0;  // nodes, by the command that is being applied

  // Of the request that is being applied; kept so that their memory is used again.
  std::deque<Undo> undo_;
  std::vector<Event> events_;
  std::deque<std::string> numbered_paths_;
  std::vector<Acl> resolved_acl_;
  std::vector<Znode*> subtree_;
  size_t recursive_nodes_ = 0;  // of all its recursive deletes
  size_t recursive_path_bytes_ = 0;
  std::vector<OpResult> results_;  // if nobody is told of them
  std::string answer_;             // encoded
};

}  // namespace quorate::tree
