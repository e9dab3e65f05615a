// One node of the tree: 88 bytes, followed by its name in the same block, and by its owner if it
// has one. Most nodes are plain leaves; other nodes need 32 bytes more, in a separate block.
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

// The further fields of a node that is not a plain leaf: a node that has or had children, that can
// be removed automatically, or whose ACL was changed.
struct ZnodeExtra {
  // Constructs `links` if `is_ephemeral`, otherwise `children`; Znode::Delete destroys it.
  ZnodeExtra(bool is_ephemeral, Zxid node_pzxid);
  ~ZnodeExtra() {}

  Zxid pzxid;
  union {
    ChildSet children;     // if the node is not ephemeral
    EphemeralLinks links;  // if the node is ephemeral
  };
  int32_t created_children = 0;  // number of creations ever; ZooKeeper's stored cversion
  int32_t aversion = 0;
};

struct Znode {
  // Creates a node. `owner` determines its kind (tree/node_kind.h). `memory` must outlive it.
  static Znode* New(NodeMemory* memory, Znode* parent, std::string_view name, SessionId owner);
  // Frees the node alone; the caller has to delete its children.
  static void Delete(Znode* node);

  std::string_view name() const { return {reinterpret_cast<const char*>(this + 1), name_length}; }
  // The session of an ephemeral node, another kind's mark (tree/node_kind.h), or kNoSession.
  SessionId owner() const { return has_owner_ ? StoredOwner() : kNoSession; }
  NodeKind kind() const { return KindOf(owner()); }
  bool is_ephemeral() const { return kind() == NodeKind::kEphemeral; }
  Zxid pzxid() const { return extra_ == nullptr ? czxid : extra_->pzxid; }
  int32_t created_children() const { return extra_ == nullptr ? 0 : extra_->created_children; }
  int32_t aversion() const { return extra_ == nullptr ? 0 : extra_->aversion; }
  // Returns an empty set for an ephemeral node.
  const ChildSet& children() const;
  // REQUIRES: ephemeral.
  EphemeralLinks& links();

  // Returns the extra fields for changes; allocates them if the node was a plain leaf. `memory` is
  // the one that New got.
  ZnodeExtra& Extend(NodeMemory* memory);
  // REQUIRES: czxid is set.
  void SetPzxid(NodeMemory* memory, Zxid pzxid);

  // Returns the path ("/a/b"), built from the names up to the root.
  std::string Path() const;
  Stat ToStat() const;

  Znode* parent;
  [[no_unique_address]] ZnodeData data;
  uint32_t acl_id = 0;  // in AclTable; placed here because it fits into the padding of `data`
  Zxid czxid;
  Zxid mzxid;
  int64_t ctime_ms = 0;
  int64_t mtime_ms = 0;
  // The hash of path and data. It is stored so that a change of the metadata, such as the parent's
  // at each create, need not hash them again for the digest.
  uint64_t content_hash = 0;
  int32_t version = 0;
  const uint32_t name_length : 31;

 private:
  const uint32_t has_owner_ : 1;

 public:
  uint32_t ordinal = 0;     // among the nodes that the command of czxid created
  uint32_t changed_at = 0;  // place in a list of ChangeTracker, which checks it

 private:
  Znode(Znode* parent_node, uint32_t length, bool has_owner)
      : parent(parent_node), name_length(length), has_owner_(has_owner) {}
  ~Znode() = default;

  static constexpr uint32_t kNameMax = (uint32_t{1} << 31) - 1;
  // The size of the node with the name and owner behind it.
  static size_t BlockBytes(size_t name_bytes, bool has_owner) {
    return sizeof(Znode) + name_bytes + (has_owner ? sizeof(SessionId) : 0);
  }
  SessionId StoredOwner() const;

  ZnodeExtra* extra_ = nullptr;
};

static_assert(sizeof(Znode) == 88, "as documented above");
static_assert(sizeof(ZnodeExtra) == 32, "as documented above");
// The rest, up to 128 bytes, is for the node's slot in its parent's child set, if the parent has
// several children, and for rounding: tree_memory_test measures the total.
static_assert(sizeof(Znode) + sizeof(ZnodeExtra) <= 120, "of a node with children");

}  // namespace quorate::tree
