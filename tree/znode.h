// SPDX-License-Identifier: Apache-2.0

// One node of the tree. It takes 88 bytes, followed in the same block by its name, and by its owner
// if it has one. Most nodes are plain leaves. Other nodes need 32 bytes more, in a separate block.
//
// Thread-safety: none inside; const functions may be called together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tree/child_set.h"
#include "tree/node_kind.h"
#include "tree/node_memory.h"
#include "tree/types.h"

namespace quorate::tree {

// A node's data: one block, or none. Null data differs from empty data.
class ZnodeData {
 public:
  ZnodeData() = default;
  ZnodeData(const ZnodeData&) = delete;
  ZnodeData& operator=(const ZnodeData&) = delete;
  ~ZnodeData();

  // Copies `bytes` into a block of `memory`, which must outlive this object.
  void Set(NodeMemory* memory, bool has_data, std::string_view bytes);
  // Frees the data and makes it null.
  void Clear();
  void Swap(ZnodeData* other);

  bool has_data() const { return bytes_ != nullptr; }
  uint32_t size() const { return size_; }
  std::string_view view() const { return {bytes_, size_}; }

 private:
  char* bytes_ = nullptr;
  uint32_t size_ = 0;
};

// The links of an ephemeral node in the list of its session.
struct EphemeralLinks {
  struct Znode* previous = nullptr;
  struct Znode* next = nullptr;
};

// The further fields of a node that is not a plain leaf. A node has them if it has or had children,
// can be removed automatically, or had its ACL changed.
struct ZnodeExtra {
  // Constructs `links` if `is_ephemeral`, otherwise `children`. Znode::Delete destroys the
  // constructed one.
  ZnodeExtra(bool is_ephemeral, Zxid node_pzxid);
  ~ZnodeExtra() {}

  Zxid pzxid;
  union {
    ChildSet children;     // if the node is not ephemeral
    EphemeralLinks links;  // if the node is ephemeral
  };
  int32_t created_children = 0;  // number of children ever created; ZooKeeper's stored cversion
  int32_t aversion = 0;
};

struct Znode {
  // Creates a node. `owner` determines its kind (tree/node_kind.h). `memory` must outlive it.
  static Znode* New(NodeMemory* memory, Znode* parent, std::string_view name, SessionId owner);
  // Frees the node alone. The caller has to delete its children.
  static void Delete(Znode* node);

  std::string_view name() const { return {reinterpret_cast<const char*>(this + 1), name_length}; }
  // Returns the session of an ephemeral node, the mark of another kind (tree/node_kind.h), or
  // kNoSession.
  SessionId owner() const { return has_owner_ ? StoredOwner() : kNoSession; }
  NodeKind kind() const { return KindOf(owner()); }
  bool is_ephemeral() const { return kind() == NodeKind::kEphemeral; }
  Zxid pzxid() const { return extra_ == nullptr ? czxid : extra_->pzxid; }
  int32_t created_children() const { return extra_ == nullptr ? 0 : extra_->created_children; }
  int32_t aversion() const { return extra_ == nullptr ? 0 : extra_->aversion; }
  // Returns the children; an empty set for an ephemeral node.
  const ChildSet& children() const;
  // Returns the links of an ephemeral node. REQUIRES: is_ephemeral().
  EphemeralLinks& links();

  // Returns the extra fields to change them. Allocates them if the node was a plain leaf. `memory`
  // is the same as for New.
  ZnodeExtra& Extend(NodeMemory* memory);
  // Sets the pzxid. Needs no extra fields while it equals czxid. REQUIRES: czxid is set.
  void SetPzxid(NodeMemory* memory, Zxid pzxid);

  // Returns the path ("/a/b"), built from the names up to the root.
  std::string Path() const;
  Stat ToStat() const;

  Znode* parent;
  [[no_unique_address]] ZnodeData data;
  uint32_t acl_id = 0;  // id in AclTable; placed here because it fits into the padding of `data`
  Zxid czxid;
  Zxid mzxid;
  int64_t ctime_ms = 0;
  int64_t mtime_ms = 0;
  // The hash of path and data. It is stored so that the digest can be updated without hashing them
  // again when only metadata changes, such as the parent's at each create.
  uint64_t content_hash = 0;
  int32_t version = 0;
  const uint32_t name_length : 31;

 private:
  const uint32_t has_owner_ : 1;

 public:
  uint32_t ordinal = 0;  // place among the nodes that the command of czxid created
  uint32_t changed_at =
      0;  // place in a list of ChangeTracker, which checks whether it is still valid

 private:
  Znode(Znode* parent_node, uint32_t length, bool has_owner)
      : parent(parent_node), name_length(length), has_owner_(has_owner) {}
  ~Znode() = default;

  static constexpr uint32_t kNameMax = (uint32_t{1} << 31) - 1;
  // Returns the size of a node with the name and owner behind it.
  static size_t BlockBytes(size_t name_bytes, bool has_owner) {
    return sizeof(Znode) + name_bytes + (has_owner ? sizeof(SessionId) : 0);
  }
  SessionId StoredOwner() const;

  ZnodeExtra* extra_ = nullptr;
};

static_assert(sizeof(Znode) == 88, "as documented above");
static_assert(sizeof(ZnodeExtra) == 32, "as documented above");
// The remaining bytes, up to 128, are for rounding and, if the parent has several children, for the
// node's slot in its parent's child set. tree_memory_test measures the total.
static_assert(sizeof(Znode) + sizeof(ZnodeExtra) <= 120,
              "a node with children takes at most 128 bytes");

}  // namespace quorate::tree
