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

// Stands for data that is empty but not null.
char empty_data;

const ChildSet kNoChildren;

}  // namespace

ZnodeData::~ZnodeData() { Set(false, {}); }

void ZnodeData::Set(bool has_data, std::string_view bytes) {
  ASSERT(has_data || bytes.empty(), "null data has no bytes");
  ASSERT(bytes.size() <= static_cast<size_t>(std::numeric_limits<int32_t>::max()));
  char* copy = nullptr;
  if (has_data) copy = bytes.empty() ? &empty_data : new char[bytes.size()];
  if (!bytes.empty()) std::memcpy(copy, bytes.data(), bytes.size());
  if (bytes_ != &empty_data) delete[] bytes_;
  bytes_ = copy;
  size_ = static_cast<uint32_t>(bytes.size());
}

void ZnodeData::Swap(ZnodeData* other) {
  std::swap(bytes_, other->bytes_);
  std::swap(size_, other->size_);
}

Znode::Znode(Znode* parent_node, SessionId node_owner, uint32_t length)
    : parent(parent_node), owner(node_owner), name_length(length) {
  if (is_ephemeral()) {
    new (&links_) EphemeralLinks;
  } else {
    new (&children_) ChildSet;
  }
}

Znode::~Znode() {
  if (!is_ephemeral()) children_.~ChildSet();
}

Znode* Znode::New(Znode* parent, std::string_view name, SessionId owner) {
  ASSERT(name.size() <= std::numeric_limits<uint32_t>::max());
  void* memory = ::operator new(sizeof(Znode) + name.size());
  Znode* node = new (memory) Znode(parent, owner, static_cast<uint32_t>(name.size()));
  if (!name.empty()) std::memcpy(reinterpret_cast<char*>(node + 1), name.data(), name.size());
  return node;
}

void Znode::Delete(Znode* node) {
  ASSERT(node != nullptr);
  node->~Znode();
  ::operator delete(node);
}

ChildSet& Znode::children() {
  ASSERT(!is_ephemeral(), "an ephemeral node has no children");
  return children_;
}

const ChildSet& Znode::children() const { return is_ephemeral() ? kNoChildren : children_; }

EphemeralLinks& Znode::links() {
  ASSERT(is_ephemeral(), "only an ephemeral node is in a session's list");
  return links_;
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
  // Creates plus deletes: every child that was created and is gone was deleted.
  stat.cversion =
      static_cast<int32_t>(2 * static_cast<uint32_t>(created_children) - children().size());
  stat.aversion = aversion;
  stat.ephemeral_owner = is_ephemeral() ? owner : kNoSession;
  stat.data_length = static_cast<int32_t>(data.size());
  stat.num_children = static_cast<int32_t>(children().size());
  stat.pzxid = pzxid;
  return stat;
}

}  // namespace quorate::tree
