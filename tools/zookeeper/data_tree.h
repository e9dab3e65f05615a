// The tree that a ZooKeeper server makes of its snapshot and its logs, with ZooKeeper's rules.
//
// A snapshot is fuzzy: it was written while the server went on, and a node in it may be of any
// moment between its first and its last byte. All transactions since the first byte are applied to
// it again; each says what is to be, not what is to change, so that in the end every node is what
// it should be. In between, a transaction may find nodes that it is only about to make, or not find
// what was deleted later.
//
// Thread-safety: none inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "tools/zookeeper/digest.h"
#include "tools/zookeeper/transaction.h"
#include "tree/acl_table.h"
#include "tree/node_memory.h"
#include "tree/sessions.h"
#include "tree/znode.h"

namespace quorate::tools::zookeeper {

class DataTree {
 public:
  // A node as a snapshot has it.
  struct SnapshotNode {
    std::string_view path;  // "/" is the root's
    bool has_data = false;
    std::string_view data;
    const std::vector<tree::Acl>* acl = nullptr;  // nullptr: not known yet
    DigestStat stat;
  };

  // Without any node: the root is to be added first.
  DataTree() = default;
  ~DataTree();
  DataTree(const DataTree&) = delete;
  DataTree& operator=(const DataTree&) = delete;

  // DataLoss if the path is illegal, or there is no such parent yet, or such a node already.
  absl::Status AddNode(const SnapshotNode& node);
  void AddSession(tree::SessionId session, int32_t timeout_ms);

  // REQUIRES: there is a root.
  void Apply(const Transaction& transaction);

  // What a server does once all transactions are applied: deletes ephemerals of sessions that are
  // gone, and counts again what quotas are about. Then gives nodes that every tree of ours has what
  // is theirs: /zookeeper/config is empty, since it tells of the servers of the old ensemble.
  // Returns how many ephemerals were deleted. DataLoss if the tree is not one that is whole.
  absl::StatusOr<size_t> Finish(tree::Zxid last_zxid);

  // ZooKeeper's digest of the tree (its version 2), as it is now.
  uint64_t digest() const { return digest_; }
  // The newest change that shows in the tree; never goes back.
  tree::Zxid newest_change() const { return newest_change_; }
  // The newest time that shows in nodes and transactions.
  int64_t time_ms() const { return time_ms_; }
  size_t node_count() const { return nodes_; }

  tree::Znode* root() const { return root_; }
  const tree::AclTable& acls() const { return acls_; }
  // Timeouts in milliseconds, by session.
  const std::map<tree::SessionId, int32_t>& sessions() const { return sessions_; }

  // nullptr if there is none.
  tree::Znode* Find(std::string_view path) const;

 private:
  void Create(const Operation& operation, const Transaction& transaction);
  void Delete(std::string_view path, tree::Zxid zxid);
  void SetData(const Operation& operation, const Transaction& transaction);
  void SetAcl(const Operation& operation);
  void CloseSession(const Transaction& transaction);
  void DeleteEphemerals(tree::SessionId session, tree::Zxid zxid);

  tree::Znode* Attach(tree::Znode* parent, std::string_view name, tree::SessionId owner);
  // Without its parent's knowledge but for the set of children, and with all below it.
  void Remove(tree::Znode* node);
  void Free(tree::Znode* node);
  void ReplaceAcl(tree::Znode* node, const std::vector<tree::Acl>& acl);
  void Note(tree::Zxid zxid, int64_t time_ms);

  // A node's term of the digest, which is taken out before a change and put in after it.
  static uint64_t Term(const tree::Znode& node, std::string_view path);
  void RemoveFromDigest(const tree::Znode& node, std::string_view path) {
    digest_ -= Term(node, path);
  }
  void AddToDigest(const tree::Znode& node, std::string_view path) { digest_ += Term(node, path); }

  tree::Znode* SystemNode(std::string_view path);
  void RecountQuotas();

  tree::NodeMemory memory_;  // outlives the nodes
  tree::Znode* root_ = nullptr;
  tree::AclTable acls_;
  std::map<tree::SessionId, int32_t> sessions_;
  // Whose ephemerals there are, whether the session is known or not: lists through the nodes.
  absl::flat_hash_map<tree::SessionId, std::unique_ptr<tree::Session>> owners_;
  // Nodes whose list a snapshot names and does not have: the server interned it later.
  absl::flat_hash_set<const tree::Znode*> without_acl_;
  size_t nodes_ = 0;
  uint64_t digest_ = 0;
  tree::Zxid newest_change_;
  int64_t time_ms_ = 0;
};

}  // namespace quorate::tools::zookeeper
