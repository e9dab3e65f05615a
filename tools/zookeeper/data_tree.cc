// SPDX-License-Identifier: Apache-2.0

#include "tools/zookeeper/data_tree.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/strings.h"
#include "tree/path.h"
#include "tree/quota.h"

namespace quorate::tools::zookeeper {
namespace {

using tree::SessionId;
using tree::Znode;
using tree::Zxid;

absl::Status BadNode(std::string_view path, std::string_view what) {
  return absl::DataLossError(
      absl::StrCat("the node ", absl::Utf8SafeCEscape(ToAbsl(path)), " ", ToAbsl(what)));
}

// Counts the znodes from `top` down, and their bytes.
tree::StatsTrack Count(const Znode* top) {
  tree::StatsTrack stats;
  stats.count = 0;
  stats.bytes = 0;
  std::vector<const Znode*> left;
  if (top != nullptr) left.push_back(top);
  while (!left.empty()) {
    const Znode* node = left.back();
    left.pop_back();
    ++stats.count;
    stats.bytes += node->data.size();
    node->children().ForEach([&left](const Znode* child) { left.push_back(child); });
  }
  return stats;
}

}  // namespace

DataTree::~DataTree() {
  // This is not recursive, because a path can be deeper than the stack allows.
  std::vector<Znode*> to_delete;
  if (root_ != nullptr) to_delete.push_back(root_);
  while (!to_delete.empty()) {
    Znode* node = to_delete.back();
    to_delete.pop_back();
    node->children().ForEach([&to_delete](Znode* child) { to_delete.push_back(child); });
    Znode::Delete(node);
  }
}

uint64_t DataTree::Term(const Znode& node, std::string_view path) {
  return zookeeper_files::NodeDigest(
      path, node.data.view(),
      {node.czxid, node.mzxid, node.pzxid(), node.ctime_ms, node.mtime_ms, node.version,
       node.created_children(), node.aversion(), node.owner()});
}

void DataTree::Note(Zxid zxid, int64_t time_ms) {
  newest_change_ = std::max(newest_change_, zxid);
  time_ms_ = std::max(time_ms_, time_ms);
}

Znode* DataTree::Find(std::string_view path) const {
  if (path == "/") return root_;
  if (path.empty() || path.front() != '/') return nullptr;
  Znode* at = root_;
  while (at != nullptr && !path.empty()) {
    path.remove_prefix(1);
    const size_t end = std::min(path.find('/'), path.size());
    at = at->children().Find(path.substr(0, end));
    path.remove_prefix(end);
  }
  return at;
}

// --- A snapshot ----------------------------------------------------------------------------------

absl::Status DataTree::AddNode(const SnapshotNode& from) {
  Znode* parent = nullptr;
  if (from.path == "/") {
    if (root_ != nullptr) return BadNode(from.path, "is there twice");
    if (from.stat.owner != tree::kNoSession) return BadNode(from.path, "is not persistent");
  } else {
    if (!tree::IsValidPath(from.path)) return BadNode(from.path, "has an illegal path");
    parent = Find(tree::ParentPath(from.path));
    if (parent == nullptr) return BadNode(from.path, "has no parent");
    if (parent->is_ephemeral()) return BadNode(from.path, "has an ephemeral parent");
    if (parent->children().Find(tree::LastSegment(from.path)) != nullptr) {
      return BadNode(from.path, "is there twice");
    }
  }
  if (from.stat.czxid < Zxid(0)) return BadNode(from.path, "has a negative zxid");
  if (from.stat.mzxid < from.stat.czxid)
    return BadNode(from.path, "was changed before it was created");
  const std::string_view name = parent == nullptr ? "" : tree::LastSegment(from.path);
  Znode* node = Attach(parent, name, from.stat.owner);
  node->data.Set(&memory_, from.has_data, from.data);
  if (from.acl != nullptr) {
    ReplaceAcl(node, *from.acl);
  } else {
    without_acl_.insert(node);
  }
  node->czxid = from.stat.czxid;
  node->mzxid = from.stat.mzxid;
  // Servers before 3.2 did not store a pzxid.
  node->SetPzxid(&memory_, std::max(from.stat.pzxid, from.stat.czxid));
  node->ctime_ms = from.stat.ctime_ms;
  node->mtime_ms = from.stat.mtime_ms;
  node->version = from.stat.version;
  if (from.stat.stored_cversion != 0 || from.stat.aversion != 0) {
    tree::ZnodeExtra& extra = node->Extend(&memory_);
    extra.created_children = from.stat.stored_cversion;
    extra.aversion = from.stat.aversion;
  }
  AddToDigest(*node, from.path);
  Note(std::max(node->mzxid, node->pzxid()), std::max(node->ctime_ms, node->mtime_ms));
  return absl::OkStatus();
}

void DataTree::AddSession(SessionId session, int32_t timeout_ms) {
  sessions_[session] = timeout_ms;
}

// --- Transactions --------------------------------------------------------------------------------

void DataTree::Apply(const Transaction& transaction) {
  ASSERT(root_ != nullptr, "a snapshot was loaded");
  time_ms_ = std::max(time_ms_, transaction.time_ms);
  if (transaction.type == TransactionType::kCreateSession) {
    AddSession(transaction.session, transaction.timeout_ms);
  } else if (transaction.type == TransactionType::kCloseSession) {
    CloseSession(transaction);
  }
  for (const Operation& operation : transaction.operations) {
    switch (operation.type) {
      case TransactionType::kCreate:
        Create(operation, transaction);
        break;
      case TransactionType::kDelete:
        Delete(operation.path, transaction.zxid);
        break;
      case TransactionType::kSetData:
        SetData(operation, transaction);
        break;
      case TransactionType::kSetAcl:
        SetAcl(operation);
        break;
      default:
        ASSERT(false, "decoding returns no other types");
    }
  }
}

void DataTree::Create(const Operation& operation, const Transaction& transaction) {
  const std::string_view parent_path = tree::ParentPath(operation.path);
  Znode* parent = Find(parent_path);
  // A snapshot may show later transactions. If they have deleted the parent, or replaced it by an
  // ephemeral znode, they have deleted the znode of this transaction, too, so it is not created.
  if (parent == nullptr || parent->is_ephemeral()) return;
  RemoveFromDigest(*parent, parent_path);
  const int32_t cversion =
      operation.parent_cversion == -1
          ? static_cast<int32_t>(static_cast<uint32_t>(parent->created_children()) + 1)
          : operation.parent_cversion;
  if (cversion > parent->created_children()) {
    tree::ZnodeExtra& extra = parent->Extend(&memory_);
    extra.created_children = cversion;
    extra.pzxid = transaction.zxid;
    Note(transaction.zxid, 0);
  }
  AddToDigest(*parent, parent_path);
  Znode* node = parent->children().Find(tree::LastSegment(operation.path));
  if (node != nullptr) {
    // The snapshot may have been written before the server added the list; later transactions
    // correct it.
    ReplaceAcl(node, operation.acl);
    return;
  }
  node = Attach(parent, tree::LastSegment(operation.path), operation.owner);
  node->data.Set(&memory_, operation.has_data, operation.data);
  ReplaceAcl(node, operation.acl);
  node->czxid = node->mzxid = transaction.zxid;
  node->SetPzxid(&memory_, transaction.zxid);
  node->ctime_ms = node->mtime_ms = transaction.time_ms;
  AddToDigest(*node, operation.path);
  Note(transaction.zxid, transaction.time_ms);
}

void DataTree::Delete(std::string_view path, Zxid zxid) {
  const std::string_view parent_path = tree::ParentPath(path);
  Znode* parent = Find(parent_path);
  if (parent == nullptr) return;
  if (zxid > parent->pzxid()) {
    RemoveFromDigest(*parent, parent_path);
    parent->SetPzxid(&memory_, zxid);
    AddToDigest(*parent, parent_path);
    Note(zxid, 0);
  }
  // If the znode has children, it was created again later, and so were the children.
  Znode* node = parent->children().Find(tree::LastSegment(path));
  if (node != nullptr) Remove(node);
}

void DataTree::SetData(const Operation& operation, const Transaction& transaction) {
  Znode* node = Find(operation.path);
  if (node == nullptr) return;
  RemoveFromDigest(*node, operation.path);
  node->data.Set(&memory_, operation.has_data, operation.data);
  node->version = operation.version;
  node->mzxid = transaction.zxid;
  node->mtime_ms = transaction.time_ms;
  AddToDigest(*node, operation.path);
  Note(node->mzxid, node->mtime_ms);
}

void DataTree::SetAcl(const Operation& operation) {
  Znode* node = Find(operation.path);
  if (node == nullptr) return;
  RemoveFromDigest(*node, operation.path);
  ReplaceAcl(node, operation.acl);
  node->Extend(&memory_).aversion = operation.version;
  AddToDigest(*node, operation.path);
}

void DataTree::CloseSession(const Transaction& transaction) {
  for (const std::string_view path : transaction.closed) {
    if (path != "/" && tree::IsValidPath(path)) Delete(path, transaction.zxid);
  }
  DeleteEphemerals(transaction.session, transaction.zxid);
  sessions_.erase(transaction.session);
}

void DataTree::DeleteEphemerals(SessionId session, Zxid zxid) {
  const auto owner = owners_.find(session);
  if (owner == owners_.end()) return;
  tree::Session& list = *owner->second;
  while (list.first != nullptr) Delete(list.first->Path(), zxid);
  owners_.erase(session);
}

// --- Nodes ---------------------------------------------------------------------------------------

Znode* DataTree::Attach(Znode* parent, std::string_view name, SessionId owner) {
  Znode* node = Znode::New(&memory_, parent, name, owner);
  ++nodes_;
  if (parent == nullptr) {
    root_ = node;
  } else {
    parent->Extend(&memory_).children.Insert(node);
  }
  if (node->is_ephemeral()) {
    std::unique_ptr<tree::Session>& list = owners_[owner];
    if (list == nullptr) list = std::make_unique<tree::Session>();
    list->id = owner;
    list->Link(node);
  }
  return node;
}

void DataTree::Remove(Znode* node) {
  node->parent->Extend(&memory_).children.Erase(node);
  Free(node);
}

void DataTree::Free(Znode* node) {
  std::vector<Znode*> to_delete = {node};
  // Removes parents last, because the digest needs paths, and paths need the parents.
  for (size_t i = 0; i < to_delete.size(); ++i) {
    RemoveFromDigest(*to_delete[i], to_delete[i]->Path());
    to_delete[i]->children().ForEach([&to_delete](Znode* child) { to_delete.push_back(child); });
  }
  for (Znode* each : to_delete) {
    if (each->is_ephemeral()) owners_.at(each->owner())->Unlink(each);
    acls_.Unref(each->acl_id);
    without_acl_.erase(each);
    Znode::Delete(each);
    --nodes_;
  }
}

void DataTree::ReplaceAcl(Znode* node, const std::vector<tree::Acl>& acl) {
  const uint32_t before = node->acl_id;
  // ZooKeeper permits everything to all clients if a list is empty.
  node->acl_id = acl.empty() ? tree::kOpenAclId : acls_.Ref(acl);
  acls_.Unref(before);
  without_acl_.erase(node);
}

// --- The end -------------------------------------------------------------------------------------

absl::StatusOr<size_t> DataTree::Finish(Zxid last_zxid) {
  if (root_ == nullptr) return absl::DataLossError("there is no root");
  std::vector<SessionId> gone;
  size_t orphans = 0;
  for (const auto& [session, list] : owners_) {
    if (sessions_.contains(session)) continue;
    gone.push_back(session);
    orphans += list->ephemeral_count;
  }
  std::sort(gone.begin(), gone.end());
  for (const SessionId session : gone) DeleteEphemerals(session, last_zxid);
  if (!without_acl_.empty()) {
    std::string path = (*without_acl_.begin())->Path();
    for (const Znode* node : without_acl_) path = std::min(path, node->Path());
    return BadNode(path, "has an access control list that the snapshot does not have");
  }
  for (std::string_view path : {"/zookeeper", "/zookeeper/quota", "/zookeeper/config"}) {
    if (SystemNode(path) == nullptr) return BadNode(path, "is ephemeral");
  }
  Znode* config = SystemNode("/zookeeper/config");
  config->data.Set(&memory_, true, "");
  ReplaceAcl(config, {tree::Acl{tree::permission::kRead, tree::Identity{"world", "anyone"}}});
  config->mzxid = config->czxid;
  config->SetPzxid(&memory_, config->czxid);
  config->mtime_ms = config->ctime_ms;
  config->version = 0;
  config->Extend(&memory_).aversion = -1;
  RecountQuotas();
  return orphans;
}

// Returns the znode at that path, creating it if it is missing; nullptr if its parent cannot have
// children.
Znode* DataTree::SystemNode(std::string_view path) {
  Znode* node = Find(path);
  if (node != nullptr) return node->is_ephemeral() ? nullptr : node;
  Znode* parent = Find(tree::ParentPath(path));
  if (parent == nullptr || parent->is_ephemeral()) return nullptr;
  node = Attach(parent, tree::LastSegment(path), tree::kNoSession);
  node->data.Set(&memory_, true, "");
  node->czxid = node->mzxid = parent->czxid;
  node->SetPzxid(&memory_, parent->czxid);
  AddToDigest(*node, path);
  return node;
}

void DataTree::RecountQuotas() {
  std::vector<const Znode*> left = {Find(tree::kQuotaRoot)};
  while (!left.empty()) {
    const Znode* at = left.back();
    left.pop_back();
    at->children().ForEach([this, &left](Znode* child) {
      left.push_back(child);
      if (child->name() != tree::kStatsName) return;
      const std::string path = child->Path();
      const auto quota_path = tree::QuotaPathOf(path, tree::kStatsName);
      if (quota_path.has_value()) {
        child->data.Set(&memory_, true, tree::ToString(Count(Find(*quota_path))));
      }
    });
  }
}

}  // namespace quorate::tools::zookeeper
