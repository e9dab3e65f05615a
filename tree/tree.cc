// SPDX-License-Identifier: Apache-2.0

#include "tree/tree.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "tree/acl.h"
#include "tree/digest.h"
#include "tree/limits.h"
#include "tree/path.h"
#include "tree/tree_impl.h"

namespace quorate::tree {

Tree::Impl::Impl() {
  root_ = Znode::New(&memory_, nullptr, "", kNoSession);
  root_->data.Set(&memory_, true, "");
  root_->content_hash = HashContent("/", root_->data);
  root_->ordinal = created_++;
  changes_.OnNodeCreated(root_);
  totals_.nodes = 1;
  totals_.digest = TimeTerm();
  AddToDigest(*root_);
  AddSystemNode("/zookeeper");
  AddSystemNode("/zookeeper/quota");
  AddSystemNode("/zookeeper/config");
  // ZooKeeper gives this ACL with version -1 to the configuration node, and clients can see it.
  Znode* config = Lookup("/zookeeper/config");
  RemoveFromDigest(*config);
  config->acl_id = acls_.Ref({Acl{permission::kRead, Identity{"world", "anyone"}}});
  config->Extend(&memory_).aversion = -1;
  AddToDigest(*config);
}

Tree::Impl::~Impl() {
  // Uses no recursion: a path can be too deep for the stack.
  std::vector<Znode*> to_delete;
  if (root_ != nullptr) to_delete.push_back(root_);
  while (!to_delete.empty()) {
    Znode* node = to_delete.back();
    to_delete.pop_back();
    node->children().ForEach([&to_delete](Znode* child) { to_delete.push_back(child); });
    Znode::Delete(node);
  }
}

// Adds a node that every tree has. As in ZooKeeper, it does not count as a created child of its
// parent.
void Tree::Impl::AddSystemNode(std::string_view path) {
  Znode* parent = Lookup(ParentPath(path));
  ASSERT(parent != nullptr, "parents are added first");
  ASSERT(parent->children().Find(LastSegment(path)) == nullptr, "a system node is added once");
  Znode* node = Znode::New(&memory_, parent, LastSegment(path), kNoSession);
  node->data.Set(&memory_, true, "");
  node->content_hash = HashContent(path, node->data);
  node->ordinal = created_++;
  changes_.OnNodeCreated(node);
  parent->Extend(&memory_).children.Insert(node);
  ++totals_.nodes;
  totals_.data_bytes += node->name_length;
  AddToDigest(*node);
}

uint64_t Tree::Impl::NodeTerm(const Znode& node) const {
  return HashNode(node, node.content_hash, acls_.Hash(node.acl_id));
}

void Tree::Impl::AdvanceTime(const CommandHeader& header, ApplyListener* listener) {
  const int64_t from_ms = time_ms_;
  const int64_t to_ms = header.time_ms;
  // A new tree has no time from which the time could leap.
  const bool may_leap = header.bounds_time && from_ms != 0;
  const bool leaps = may_leap && (to_ms - from_ms > kLeapMsMin || from_ms - to_ms > kLeapMsMin);
  if (!leaps && to_ms <= from_ms) return;
  int64_t held_until_ms = leaps ? to_ms + kLeapHoldMs : ttls_held_until_ms_;
  if (held_until_ms <= to_ms) held_until_ms = 0;
  SetTime(to_ms, held_until_ms);
  if (leaps) listener->OnTimeLeap(from_ms, to_ms);
}

void Tree::Impl::SetTime(int64_t time_ms, int64_t ttls_held_until_ms) {
  totals_.digest -= TimeTerm();
  time_ms_ = time_ms;
  ttls_held_until_ms_ = ttls_held_until_ms;
  totals_.digest += TimeTerm();
}

uint64_t Tree::Impl::TimeTerm() const {
  return HashTime(time_ms_) + (ttls_held_until_ms_ == 0 ? 0 : HashHold(ttls_held_until_ms_));
}

void Tree::Impl::Skip(Zxid zxid) {
  ASSERT(zxid > last_zxid_, "each zxid is applied once, in order");
  last_zxid_ = zxid;
}

Znode* Tree::Impl::Lookup(std::string_view path) const {
  if (path.empty() || path == "/") return root_;
  if (path.front() != '/') return nullptr;
  const Znode* at = root_;
  size_t start = 1;
  while (true) {
    const size_t slash = path.find('/', start);
    const size_t end = std::min(slash, path.size());
    // No node has an empty name. Therefore paths with "//" or with a trailing slash find nothing.
    Znode* child = at->children().Find(path.substr(start, end - start));
    if (child == nullptr || slash == std::string_view::npos) return child;
    at = child;
    start = end + 1;
  }
}

bool Tree::Impl::IsPermitted(const Znode& node, std::span<const Identity> identities,
                             int32_t permissions) const {
  if (node.acl_id == kOpenAclId) return true;
  return acls_.Allows(node.acl_id, identities, permissions);
}

uint64_t Tree::Impl::ComputeDigest() const {
  uint64_t sum = TimeTerm() + dedup_table_.Hash();
  for (const auto& [id, session] : sessions_.all()) sum += session->ComputeHash();
  std::vector<const Znode*> left = {root_};
  size_t nodes = 0;
  while (!left.empty()) {
    const Znode* node = left.back();
    left.pop_back();
    ++nodes;
    const uint64_t content_hash = HashContent(node->Path(), node->data);
    sum += HashNode(*node, content_hash, acls_.Hash(node->acl_id));
    node->children().ForEach([&left](Znode* child) { left.push_back(child); });
  }
  ASSERT(nodes == totals_.nodes, "totals_ counts each node");
  return sum;
}

Tree::Tree() : impl_(std::make_unique<Impl>()) {}
Tree::Tree(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tree::~Tree() = default;

void Tree::Apply(Zxid zxid, std::string_view command, const Proposer& self,
                 ApplyListener* listener) {
  impl_->Apply(zxid, command, self, listener);
}
void Tree::Skip(Zxid zxid) { impl_->Skip(zxid); }
void Tree::SetConfig(Zxid zxid, std::string_view text, ApplyListener* listener) {
  impl_->SetConfig(zxid, text, listener);
}
Zxid Tree::last_zxid() const { return impl_->last_zxid(); }
int64_t Tree::time_ms() const { return impl_->time_ms(); }
size_t Tree::node_count() const { return impl_->node_count(); }
size_t Tree::ephemeral_count() const { return impl_->ephemeral_count(); }
size_t Tree::session_count() const { return impl_->sessions().size(); }
size_t Tree::data_bytes() const { return impl_->data_bytes(); }
size_t Tree::node_memory_bytes() const { return impl_->node_memory_bytes(); }
size_t Tree::free_node_memory_bytes() const { return impl_->free_node_memory_bytes(); }
size_t Tree::session_memory_bytes() const { return impl_->session_memory_bytes(); }
uint64_t Tree::visited_nodes() const { return impl_->visited_nodes(); }
size_t Tree::answer_memory_bytes() const { return impl_->answer_memory_bytes(); }
uint64_t Tree::digest() const { return impl_->digest(); }
uint64_t Tree::ComputeDigest() const { return impl_->ComputeDigest(); }

}  // namespace quorate::tree
