// SPDX-License-Identifier: Apache-2.0

#include "tree/znode.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace quorate::tree {
namespace {

// The address of this character represents data that is empty but not null.
char empty_data;

const ChildSet kNoChildren;

}  // namespace

ZnodeData::~ZnodeData() { Clear(); }

void ZnodeData::Set(NodeMemory* memory, bool has_data, std::string_view bytes) {
  ASSERT(has_data || bytes.empty(), "null data has no bytes");
  ASSERT(bytes.size() <= static_cast<size_t>(std::numeric_limits<int32_t>::max()));
  char* copy = nullptr;
  if (has_data) {
    copy = bytes.empty() ? &empty_data : static_cast<char*>(memory->Allocate(bytes.size()));
  }
  if (!bytes.empty()) std::memcpy(copy, bytes.data(), bytes.size());
  Clear();
  bytes_ = copy;
  size_ = static_cast<uint32_t>(bytes.size());
}

void ZnodeData::Clear() {
  if (size_ > 0) NodeMemory::Free(bytes_, size_);
  bytes_ = nullptr;
  size_ = 0;
}

void ZnodeData::Swap(ZnodeData* other) {
  std::swap(bytes_, other->bytes_);
  std::swap(size_, other->size_);
}

ZnodeExtra::ZnodeExtra(bool is_ephemeral, Zxid node_pzxid) : pzxid(node_pzxid) {
  if (is_ephemeral) {
    new (&links) EphemeralLinks;
  } else {
    new (&children) ChildSet;
  }
}

Znode* Znode::New(NodeMemory* memory, Znode* parent, std::string_view name, SessionId owner) {
  ASSERT(name.size() <= kNameMax);
  const bool has_owner = owner != kNoSession;
  Znode* node = new (memory->Allocate(BlockBytes(name.size(), has_owner)))
      Znode(parent, static_cast<uint32_t>(name.size()), has_owner);
  char* behind = reinterpret_cast<char*>(node + 1);
  if (!name.empty()) std::memcpy(behind, name.data(), name.size());
  if (has_owner) {
    std::memcpy(behind + name.size(), &owner, sizeof(owner));
    node->Extend(memory);
  }
  return node;
}

void Znode::Delete(Znode* node) {
  ASSERT(node != nullptr);
  if (node->extra_ != nullptr) {
    if (!node->is_ephemeral()) node->extra_->children.~ChildSet();
    node->extra_->~ZnodeExtra();
    NodeMemory::Free(node->extra_, sizeof(ZnodeExtra));
  }
  const size_t bytes = BlockBytes(node->name_length, node->has_owner_);
  node->~Znode();
  NodeMemory::Free(node, bytes);
}

SessionId Znode::StoredOwner() const {
  SessionId owner;
  // The stored owner is not aligned.
  std::memcpy(&owner, name().data() + name_length, sizeof(owner));
  return owner;
}

const ChildSet& Znode::children() const {
  return extra_ == nullptr || is_ephemeral() ? kNoChildren : extra_->children;
}

EphemeralLinks& Znode::links() {
  ASSERT(is_ephemeral(), "only an ephemeral node is in a session's list");
  return extra_->links;
}

ZnodeExtra& Znode::Extend(NodeMemory* memory) {
  if (extra_ == nullptr) {
    extra_ = new (memory->Allocate(sizeof(ZnodeExtra))) ZnodeExtra(is_ephemeral(), czxid);
  }
  return *extra_;
}

void Znode::SetPzxid(NodeMemory* memory, Zxid pzxid) {
  if (pzxid != this->pzxid()) Extend(memory).pzxid = pzxid;
}

std::string Znode::Path() const {
  if (parent == nullptr) return "/";
  size_t size = 0;
  for (const Znode* at = this; at->parent != nullptr; at = at->parent) size += 1 + at->name_length;
  std::string path(size, '/');
  size_t end = size;
  for (const Znode* at = this; at->parent != nullptr; at = at->parent) {
    end -= at->name_length;
    std::copy_n(at->name().data(), at->name_length, path.data() + end);
    --end;
  }
  ASSERT(end == 0, "the names and slashes fill the path");
  return path;
}

Stat Znode::ToStat() const {
  Stat stat;
  stat.czxid = czxid;
  stat.mzxid = mzxid;
  stat.ctime_ms = ctime_ms;
  stat.mtime_ms = mtime_ms;
  stat.version = version;
  // cversion is creates plus deletes. Every created child that does not exist any more was deleted.
  stat.cversion =
      static_cast<int32_t>(2 * static_cast<uint32_t>(created_children()) - children().size());
  stat.aversion = aversion();
  stat.ephemeral_owner = is_ephemeral() ? owner() : kNoSession;
  stat.data_length = static_cast<int32_t>(data.size());
  stat.num_children = static_cast<int32_t>(children().size());
  stat.pzxid = pzxid();
  return stat;
}

}  // namespace quorate::tree
