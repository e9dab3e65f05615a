// One node of the tree: 88 bytes, followed by its name in the same block, and by its owner if it
// has one. Most nodes are plain leaves; what others have beside that is 32 bytes more, in a block
// of its own.
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

// A node's data: one block, or none. Null data and empty data differ.
class ZnodeData {
 public:
  ZnodeData() = default;
  ZnodeData(const ZnodeData&) = delete;
  ZnodeData& operator=(const ZnodeData&) = delete;
  ~ZnodeData();

  // Takes a copy of `bytes`, in a block of `memory`, which must outlive it.
  void Set(NodeMemory* memory, bool has_data, std::string_view bytes);
  // Makes it null.
  void Clear();
  void Swap(ZnodeData* other);

  bool has_data() const { return bytes_ != nullptr; }
  uint32_t size() const { return size_; }
  std::string_view view() const { return {bytes_, size_}; }

 private:
  char* bytes_ = nullptr;
  uint32_t size_ = 0;
};

// The places in the list of a session's ephemerals.
struct EphemeralLinks {
  struct Znode* previous = nullptr;
  struct Znode* next = nullptr;
};

// What a node has that is not a plain leaf: that has or had children, may go by itself, or had its
// ACL changed.
struct ZnodeExtra {
  // Of a node that is ephemeral or not. `links` or `children` is there accordingly; Znode::Delete
  // ends it.
  ZnodeExtra(bool is_ephemeral, Zxid node_pzxid);
  ~ZnodeExtra() {}

  Zxid pzxid;
  union {
    ChildSet children;     // of a node that is not ephemeral
    EphemeralLinks links;  // of one that is
  };
  int32_t created_children = 0;  // ever; ZooKeeper's stored cversion
  int32_t aversion = 0;
};

struct Znode {
  // `owner` says what kind of node it is (tree/node_kind.h). `memory` must outlive it.
  static Znode* New(NodeMemory* memory, Znode* parent, std::string_view name, SessionId owner);
  // Frees the node alone; its children are the caller's affair.
  static void Delete(Znode* node);

  std::string_view name() const { return {reinterpret_cast<const char*>(this + 1), name_length}; }
  // The session of an ephemeral node, another kind's mark (tree/node_kind.h), or kNoSession.
  SessionId owner() const { return has_owner_ ? StoredOwner() : kNoSession; }
  NodeKind kind() const { return KindOf(owner()); }
  bool is_ephemeral() const { return kind() == NodeKind::kEphemeral; }
  Zxid pzxid() const { return extra_ == nullptr ? czxid : extra_->pzxid; }
  int32_t created_children() const { return extra_ == nullptr ? 0 : extra_->created_children; }
  int32_t aversion() const { return extra_ == nullptr ? 0 : extra_->aversion; }
  // Those of an ephemeral node are none.
  const ChildSet& children() const;
  // REQUIRES: ephemeral.
  EphemeralLinks& links();

  // For changes; makes it if the node was a plain leaf. `memory` is that of the node.
  ZnodeExtra& Extend(NodeMemory* memory);
  // REQUIRES: czxid is set.
  void SetPzxid(NodeMemory* memory, Zxid pzxid);

  // "/a/b" from the names up to the root.
  std::string Path() const;
  Stat ToStat() const;

  Znode* parent;
  [[no_unique_address]] ZnodeData data;
  uint32_t acl_id = 0;  // in AclTable; stands here because it fits into the padding of `data`
  Zxid czxid;
  Zxid mzxid;
  int64_t ctime_ms = 0;
  int64_t mtime_ms = 0;
  // Of the path and the data: with it a change of the metadata, such as that of the parent at each
  // create, costs the digest no second look at them.
  uint64_t content_hash = 0;
  int32_t version = 0;
  const uint32_t name_length : 31;

 private:
  const uint32_t has_owner_ : 1;

 public:
  uint32_t ordinal = 0;     // among the nodes that the command of czxid created
  uint32_t changed_at = 0;  // ChangeTracker's, and means nothing without it

 private:
  Znode(Znode* parent_node, uint32_t length, bool has_owner)
      : parent(parent_node), name_length(length), has_owner_(has_owner) {}
  ~Znode() = default;

  static constexpr uint32_t kNameMax = (uint32_t{1} << 31) - 1;
  // Of the node with what stands behind it.
  static size_t BlockBytes(size_t name_bytes, bool has_owner) {
    return sizeof(Znode) + name_bytes + (has_owner ? sizeof(SessionId) : 0);
  }
  SessionId StoredOwner() const;

  ZnodeExtra* extra_ = nullptr;
};

static_assert(sizeof(Znode) == 88, "as documented above");
static_assert(sizeof(ZnodeExtra) == 32, "as documented above");
// The rest, up to 128 bytes, is for its place among its parent's children, if that has several, and
// for rounding: tree_memory_test counts it all.
static_assert(sizeof(Znode) + sizeof(ZnodeExtra) <= 120, "of a node with children");

}  // namespace quorate::tree
