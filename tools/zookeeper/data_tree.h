// SPDX-License-Identifier: Apache-2.0

// The tree that a ZooKeeper server builds from its snapshot and its logs, by ZooKeeper's rules.
//
// A snapshot is fuzzy: it was written while the server continued to apply transactions, so a znode
// in it may have its state of any time between the first and the last byte. All transactions since
// the first byte are applied to it again. Each transaction contains the resulting values, not the
// differences, so that in the end every znode is correct. Until then, a transaction may find that
// the znode that it creates exists already, or miss a znode that was deleted later.
//
// Thread-safety: none.
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
#include "rpc/zookeeper_files/snapshot_writer.h"
#include "tools/zookeeper/transaction.h"
#include "tree/acl_table.h"
#include "tree/node_memory.h"
#include "tree/sessions.h"
#include "tree/znode.h"

namespace quorate::tools::zookeeper {

class DataTree {
 public:
  using SnapshotNode = zookeeper_files::SnapshotNode;

  // Creates an empty tree. The root has to be added first.
  DataTree() = default;
  ~DataTree();
  DataTree(const DataTree&) = delete;
  DataTree& operator=(const DataTree&) = delete;

  // Adds a znode. DataLoss if the path is illegal, the parent does not exist yet, or the znode
  // exists.
  absl::Status AddNode(const SnapshotNode& node);
  void AddSession(tree::SessionId session, int32_t timeout_ms);

  // Applies a transaction. REQUIRES: there is a root.
  void Apply(const Transaction& transaction);

  // Makes the changes that a server makes once all transactions are applied: deletes ephemerals of
  // ended sessions, and recounts quotas. Then resets znodes that every tree of ours has:
  // /zookeeper/config becomes empty, because it lists the servers of the old ensemble. Returns the
  // number of deleted ephemerals. DataLoss if the tree is incomplete.
  absl::StatusOr<size_t> Finish(tree::Zxid last_zxid);

  // Returns ZooKeeper's digest (version 2) of the current tree.
  uint64_t digest() const { return digest_; }
  // Returns the zxid of the newest change that is visible in the tree. It never decreases.
  tree::Zxid newest_change() const { return newest_change_; }
  // Returns the newest time in znodes and transactions, in milliseconds since the Unix epoch.
  int64_t time_ms() const { return time_ms_; }
  size_t node_count() const { return nodes_; }

  tree::Znode* root() const { return root_; }
  const tree::AclTable& acls() const { return acls_; }
  // Returns the timeouts in milliseconds, by session.
  const std::map<tree::SessionId, int32_t>& sessions() const { return sessions_; }

  // Returns the znode at `path`, or nullptr.
  tree::Znode* Find(std::string_view path) const;

 private:
  void Create(const Operation& operation, const Transaction& transaction);
  void Delete(std::string_view path, tree::Zxid zxid);
  void SetData(const Operation& operation, const Transaction& transaction);
  void SetAcl(const Operation& operation);
  void CloseSession(const Transaction& transaction);
  void DeleteEphemerals(tree::SessionId session, tree::Zxid zxid);

  tree::Znode* Attach(tree::Znode* parent, std::string_view name, tree::SessionId owner);
  // Removes a znode with all znodes below it. Of its parent, only the set of children is updated.
  void Remove(tree::Znode* node);
  void Free(tree::Znode* node);
  void ReplaceAcl(tree::Znode* node, const std::vector<tree::Acl>& acl);
  void Note(tree::Zxid zxid, int64_t time_ms);

  // Returns a znode's contribution to the digest, which is subtracted before a change and added
  // after it.
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
  // The sessions that own ephemerals, whether the sessions are known or not. Each has a list of its
  // znodes.
  absl::flat_hash_map<tree::SessionId, std::unique_ptr<tree::Session>> owners_;
  // The znodes whose access control list is missing in the snapshot, because the server added the
  // list later.
  absl::flat_hash_set<const tree::Znode*> without_acl_;
  size_t nodes_ = 0;
  uint64_t digest_ = 0;
  tree::Zxid newest_change_;
  int64_t time_ms_ = 0;
};

}  // namespace quorate::tools::zookeeper
