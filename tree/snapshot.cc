// SPDX-License-Identifier: Apache-2.0

#include "tree/snapshot.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/seeded_bug.h"
#include "base/strings.h"
#include "tree/digest.h"
#include "tree/record.h"
#include "tree/tree_impl.h"

namespace quorate::tree {

namespace {

// The maximum number of children for which space (16 bytes each) is reserved before they are added.
constexpr uint64_t kReservedChildrenMax = 16u << 20;

}  // namespace

HeadRecord Tree::Impl::Head() const {
  HeadRecord head;
  head.zxid = last_zxid_;
  head.time_ms = time_ms_;
  head.ttls_held_until_ms = ttls_held_until_ms_;
  head.digest = totals_.digest;
  head.nodes = totals_.nodes;
  head.sessions = sessions_.size();
  head.proposers = dedup_table_.all();
  return head;
}

void Tree::Impl::ForEachRecord(const RecordFunction& record) const {
  std::string key;
  std::string value;
  EncodeHeadKey(&key);
  EncodeHead(Head(), &value);
  record(key, value);
  for (const auto& [id, session] : sessions_.all()) {
    EncodeSessionKey(id, &key);
    EncodeSession(*session, &value);
    record(key, value);
  }

  struct Place {
    NodeKey key;
    const Znode* node;
  };
  std::vector<Place> places;
  places.reserve(totals_.nodes);
  places.push_back({KeyOf(*root_), root_});
  for (size_t i = 0; i < places.size(); ++i) {
    places[i].node->children().ForEach([&places](const Znode* child) {
      places.push_back({KeyOf(*child), child});
    });
  }
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return a.key < b.key; });
  for (const Place& place : places) {
    EncodeNodeKey(place.key, &key);
    EncodeNode(*place.node, acls_, &value);
    record(key, value);
  }
}

void Tree::ForEachRecord(const RecordFunction& record) const { impl_->ForEachRecord(record); }
void Tree::BeginDelta() { impl_->changes().BeginDelta(impl_->Head()); }
bool Tree::NextDeltaRecords(size_t bytes_max, const RecordFunction& record) {
  return impl_->changes().NextDeltaRecords(bytes_max, record);
}
bool Tree::EndDelta(bool durable, size_t bytes_max) {
  return impl_->changes().EndDelta(durable, bytes_max);
}

struct TreeLoader::State {
  // A node with children, and the number of children that were not added yet.
  struct Parent {
    NodeKey key;
    Znode* node = nullptr;
    uint32_t missing = 0;
  };

  // Returns the node with that key; nullptr if no node with children has it.
  Parent* FindParent(const NodeKey& key) {
    // Checks the last result first, because siblings often follow each other.
    if (last_parent < parents.size() && parents[last_parent].key == key) {
      return &parents[last_parent];
    }
    const auto found = std::lower_bound(
        parents.begin(), parents.end(), key,
        [](const Parent& parent, const NodeKey& wanted) { return parent.key < wanted; });
    if (found == parents.end() || found->key != key) return nullptr;
    last_parent = static_cast<size_t>(found - parents.begin());
    path = found->node->Path();
    if (path == "/") path.clear();
    parent_path_bytes = path.size();
    return &*found;
  }

  // Creates a node. Returns nullptr if the parent already has a child with that name.
  Znode* NewNode(const NodeRecord& record, Znode* parent);
  // Reserves space for `children` children, but not more than a limit: the number may be damaged.
  void Reserve(Znode* node, uint32_t children);

  std::unique_ptr<Tree::Impl> impl = std::make_unique<Tree::Impl>(Tree::Impl::Bare{});
  std::string last_key;
  uint64_t reservable = kReservedChildrenMax;
  bool has_head = false;
  HeadRecord head;
  NodeRecord record;
  std::vector<Parent> parents;  // ascending by key, in the order of their records
  size_t last_parent = 0;
  std::string path;  // the path of that parent (empty for the root), then the name of the last
                     // child
  size_t parent_path_bytes = 0;
};

TreeLoader::TreeLoader() : state_(std::make_unique<State>()) {}
TreeLoader::~TreeLoader() = default;

absl::Status TreeLoader::Add(std::string_view key, std::string_view value) {
  ASSERT(state_ != nullptr, "not after Finish");
  const absl::StatusOr<RecordKind> kind = DecodeKind(key);
  if (!kind.ok()) return kind.status();
  if (key <= state_->last_key) return BadRecord("does not come in the order of keys", key);
  state_->last_key = key;
  switch (*kind) {
    case RecordKind::kHead:
      return AddHead(key, value);
    case RecordKind::kSession:
      return AddSession(key, value);
    case RecordKind::kNode:
      break;
  }
  return AddNode(key, value);
}

absl::Status TreeLoader::AddHead(std::string_view key, std::string_view value) {
  absl::StatusOr<HeadRecord> head = DecodeHead(key, value);
  if (!head.ok()) return head.status();
  state_->has_head = true;
  state_->head = *std::move(head);
  Tree::Impl& impl = *state_->impl;
  impl.last_zxid_ = state_->head.zxid;
  impl.time_ms_ = state_->head.time_ms;
  impl.ttls_held_until_ms_ = state_->head.ttls_held_until_ms;
  impl.dedup_table_.Restore(state_->head.proposers);
  impl.totals_.digest = impl.TimeTerm() + impl.dedup_table_.Hash();
  return absl::OkStatus();
}

absl::Status TreeLoader::AddSession(std::string_view key, std::string_view value) {
  if (!state_->has_head) return BadRecord("comes without a head", key);
  const absl::StatusOr<SessionRecord> record = DecodeSession(key, value);
  if (!record.ok()) return record.status();
  if (std::max(record->attach_zxid, record->answered_zxid) > state_->head.zxid)
    return BadRecord("is newer than the head", key);
  Tree::Impl& impl = *state_->impl;
  Session* session = impl.sessions_.Add(record->id, std::string(record->password));
  session->timeout_ms = record->timeout_ms;
  session->attach_zxid = record->attach_zxid;
  session->member = record->member;
  if (record->last_sequence > 0) {
    session->answers = ResponseCache::Restore(record->id, record->last_sequence,
                                              record->acknowledged, record->answers);
    impl.answer_bytes_ += session->answers->memory_bytes();
  }
  impl.totals_.digest += session->Hash();
  return absl::OkStatus();
}

absl::Status TreeLoader::AddNode(std::string_view key, std::string_view value) {
  if (!state_->has_head) return BadRecord("comes without a head", key);
  NodeRecord& record = state_->record;
  if (absl::Status decoded = DecodeNode(key, value, &record); !decoded.ok()) return decoded;
  if (std::max(record.mzxid, record.pzxid) > state_->head.zxid) {
    return BadRecord("is newer than the head", key);
  }
  Tree::Impl& impl = *state_->impl;
  const bool is_root = record.key == NodeKey{};
  if (is_root != (impl.root_ == nullptr)) return BadRecord("comes without a root", key);
  Session* owner = nullptr;
  if (KindOf(record.owner) == NodeKind::kEphemeral) {
    owner = impl.sessions_.Find(record.owner);
    if (owner == nullptr) return BadRecord("is an ephemeral of no session", key);
  }
  Znode* parent = nullptr;
  if (!is_root) {
    State::Parent* found = state_->FindParent(record.parent);
    if (found == nullptr) return BadRecord("has no parent", key);
    if (found->missing == 0) return BadRecord("is one child more than its parent counts", key);
    parent = found->node;
    --found->missing;
  }
  Znode* node = state_->NewNode(record, parent);
  if (node == nullptr) return BadRecord("is a namesake", key);
  if (owner != nullptr) owner->Link(node);
  return absl::OkStatus();
}

Znode* TreeLoader::State::NewNode(const NodeRecord& from, Znode* parent) {
  Znode* node = Znode::New(&impl->memory_, parent, from.name, from.owner);
  if (parent != nullptr && parent->Extend(&impl->memory_).children.FindOrInsert(node) != nullptr) {
    Znode::Delete(node);
    return nullptr;
  }
  node->data.Set(&impl->memory_, from.has_data, from.data);
  if (!from.acl.empty()) node->acl_id = impl->acls_.Ref(from.acl);
  node->czxid = from.key.czxid;
  node->ordinal = from.key.ordinal;
  node->mzxid = from.mzxid;
  node->SetPzxid(&impl->memory_, from.pzxid);
  node->ctime_ms = from.ctime_ms;
  node->mtime_ms = from.mtime_ms;
  node->version = from.version;
  if (from.created_children != 0 || from.aversion != 0) {
    ZnodeExtra& extra = node->Extend(&impl->memory_);
    extra.created_children = from.created_children;
    extra.aversion = from.aversion;
  }
  if (parent == nullptr) {
    impl->root_ = node;
    node->content_hash = HashContent("/", node->data);
  } else {
    path.resize(parent_path_bytes);
    path += '/';
    path += from.name;
    node->content_hash = HashContent(path, node->data);
  }
  impl->AddToDigest(*node);
  impl->RecordQuotaNode(*node, true);
  ++impl->totals_.nodes;
  impl->totals_.ephemerals += node->is_ephemeral() ? 1 : 0;
  impl->totals_.data_bytes += node->name_length + node->data.size();
  if (from.children > 0) {
    parents.push_back({from.key, node, from.children});
    Reserve(node, from.children);
  } else {
    impl->expiry_.Add(*node);
  }
  return node;
}

void TreeLoader::State::Reserve(Znode* node, uint32_t children) {
  if (children > reservable) return;
  reservable -= children;
  node->Extend(&impl->memory_).children.Reserve(children);
}

uint64_t TreeLoader::nodes() const { return state_->impl->node_count(); }
uint64_t TreeLoader::nodes_total() const { return state_->head.nodes; }

absl::Status TreeLoader::CheckWhole(Zxid zxid, uint64_t digest) const {
  const auto refuse = [](std::string_view what) {
    return absl::DataLossError(
        absl::StrCat("the records of a tree are incomplete or inconsistent: ", ToAbsl(what),
                     "; restore the data from another server or from a backup"));
  };
  const Tree::Impl& impl = *state_->impl;
  const HeadRecord& head = state_->head;
  if (!state_->has_head) return refuse("there is no head");
  if (head.zxid != zxid) return refuse("the head is of another zxid");
  if (head.sessions != impl.sessions_.size()) return refuse("sessions are missing");
  if (head.nodes != impl.totals_.nodes) return refuse("nodes are missing, or too many");
  for (std::string_view path : {"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"}) {
    if (impl.root_ == nullptr || impl.Lookup(path) == nullptr) {
      return refuse("a node that every tree has is missing");
    }
  }
  for (const State::Parent& parent : state_->parents) {
    if (parent.missing > 0) return refuse("children are missing");
  }
  if (head.digest != digest || impl.totals_.digest != digest) return refuse("the digest differs");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Tree>> TreeLoader::Finish(Zxid zxid, uint64_t digest) {
  ASSERT(state_ != nullptr, "Finish is called once");
  const absl::Status whole = CheckWhole(zxid, digest);
  const std::unique_ptr<State> state = std::move(state_);
  if (!whole.ok()) return whole;
  if (SeededBug("a snapshot lacks the last commands of servers")) {
    state->impl->totals_.digest -= state->impl->dedup_table_.Hash();
    state->impl->dedup_table_.Restore({});
  }
  state->impl->changes_.SetClean(zxid);
  return std::unique_ptr<Tree>(new Tree(std::move(state->impl)));
}

}  // namespace quorate::tree
