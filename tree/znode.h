// One node of the tree: 120 bytes, followed by its name in the same allocation.
//
// Thread-safety: none inside; const functions may be called together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tree/child_set.h"
#include "tree/node_kind.h"
#include "tree/types.h"

namespace quorate::tree {

// A node's data: one allocation, or none. Null data and empty data differ.
class ZnodeData {
 public:
  ZnodeData() = default;
  ZnodeData(const ZnodeData&) = delete;
  ZnodeData& operator=(const ZnodeData&) = delete;
  ~ZnodeData();

  void Set(bool has_data, std::string_view bytes);
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

struct Znode {
  // `owner` says what kind of node it is (tree/node_kind.h).
  static Znode* New(Znode* parent, std::string_view name, SessionId owner);
  // Frees the node alone; its children are the caller's affair.
  static void Delete(Znode* node);

  std::string_view name() const { return {reinterpret_cast<const char*>(this + 1), name_length}; }
  NodeKind kind() const { return KindOf(owner); }
  bool is_ephemeral() const { return kind() == NodeKind::kEphemeral; }
  // REQUIRES: not ephemeral: such nodes have no children.
  ChildSet& children();
  // Those of an ephemeral node are none.
  const ChildSet& children() const;
  // REQUIRES: ephemeral.
  EphemeralLinks& links();

  // "/a/b" from the names up to the root.
  std::string Path() const;
  Stat ToStat() const;

  Znode* parent;
  [[no_unique_address]] ZnodeData data;
  uint32_t acl_id = 0;  // in AclTable; stands here because it fits into the padding of `data`
  Zxid czxid;
  Zxid mzxid;
  Zxid pzxid;
  int64_t ctime_ms = 0;
  int64_t mtime_ms = 0;
  const SessionId owner;  // the session of an ephemeral node, or another kind's mark
  // Of the path and the data: with it a change of the metadata, such as that of the parent at each
  // create, costs the digest no second look at them.
  uint64_t content_hash = 0;
  int32_t version = 0;
  int32_t created_children = 0;  // ever; ZooKeeper's stored cversion
  int32_t aversion = 0;
  const uint32_t name_length;
  uint32_t ordinal = 0;     // among the nodes that the command of czxid created
  uint32_t changed_at = 0;  // ChangeTracker's, and means nothing without it

 private:
  Znode(Znode* parent_node, SessionId node_owner, uint32_t length);
  ~Znode();

  union {
    ChildSet children_;
    EphemeralLinks links_;
  };
};

static_assert(sizeof(Znode) == 120, "as documented above");
static_assert(sizeof(Znode) <= 128, "the memory that a node may take beside its name and data");

}  // namespace quorate::tree
