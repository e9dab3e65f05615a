// SPDX-License-Identifier: Apache-2.0

#include "tree/change_tracker.h"

#include <limits>

namespace quorate::tree {
namespace {

// The bytes for which an entry of a map counts: more than its size, because finding it takes time
// too.
constexpr size_t kMapEntryBytes = 128;

}  // namespace

void ChangeTracker::AppendChanged(Znode* node) {
  ASSERT(changes_.nodes.size() < std::numeric_limits<uint32_t>::max(), "the place has 32 bits");
  node->changed_at = static_cast<uint32_t>(changes_.nodes.size());
  changes_.nodes.Append(node);
}

void ChangeTracker::SaveForDelta(Znode* node) {
  if (!IsAt(delta_->changes.nodes, *node)) return;
  delta_->changes.nodes[node->changed_at] = nullptr;
  // Needs no copy: the record was already handed out, or the delta is ending and needs no more
  // records.
  if (node->changed_at < delta_->nodes_done || delta_->durable.has_value()) return;
  EncodeNodeKey(KeyOf(*node), &key_);
  EncodeNode(*node, acls_, &value_);
  delta_->saved.emplace_back(key_, value_);
}

void ChangeTracker::OnNodeFreed(Znode* node) {
  ASSERT(IsAt(changes_.nodes, *node), "BeforeNodeChange or OnNodeCreated was called");
  Znode* last = changes_.nodes.Last();
  changes_.nodes[node->changed_at] = last;
  last->changed_at = node->changed_at;
  changes_.nodes.DropLast();
  if (node->czxid <= delta_zxid_) changes_.deleted_nodes.Append(KeyOf(*node));
}

void ChangeTracker::BeforeSessionChange(SessionId id) {
  bool unknown = sessions_.Find(id) == nullptr;
  if (delta_ != nullptr) {
    const auto found = delta_->changes.sessions.find(id);
    if (found != delta_->changes.sessions.end()) {
      unknown = false;
      if (!delta_->durable.has_value() && !IsSessionDone(*delta_, id)) {
        const Session* session = sessions_.Find(id);
        EncodeSessionKey(id, &key_);
        auto& saved = delta_->saved.emplace_back(key_, std::nullopt);
        if (session != nullptr) EncodeSession(*session, &saved.second.emplace());
      }
      delta_->changes.sessions.erase(found);
    }
  }
  // An entry of a session that has already changed stays as it is.
  changes_.sessions.emplace(id, unknown);
}

void ChangeTracker::OnSessionRemoved(SessionId id) {
  const auto found = changes_.sessions.find(id);
  ASSERT(found != changes_.sessions.end(), "BeforeSessionChange was called");
  if (found->second) changes_.sessions.erase(found);
}

void ChangeTracker::SetClean(Zxid zxid) {
  ASSERT(delta_ == nullptr, "no delta is in progress");
  changes_ = Changes{};
  delta_zxid_ = zxid;
}

void ChangeTracker::BeginDelta(const HeadRecord& head) {
  ASSERT(delta_ == nullptr, "one delta at a time");
  delta_ = std::make_unique<Delta>();
  std::swap(delta_->changes, changes_);
  EncodeHeadKey(&key_);
  EncodeHead(head, &value_);
  delta_->saved.emplace_back(key_, value_);
  delta_zxid_ = head.zxid;
}

bool ChangeTracker::NextDeltaRecords(size_t bytes_max, const RecordFunction& record) {
  ASSERT(delta_ != nullptr, "BeginDelta comes first");
  ASSERT(!delta_->durable.has_value(), "EndDelta comes last");
  const Changes& changes = delta_->changes;
  size_t bytes = 0;
  do {
    if (!delta_->saved.empty()) {
      bytes += HandOutSaved(record);
    } else if (delta_->nodes_done < changes.nodes.size()) {
      bytes += HandOutNode(record);
    } else if (delta_->deleted_nodes_done < changes.deleted_nodes.size()) {
      bytes += HandOutDeletedNode(record);
    } else if (IsSessionLeft()) {
      bytes += HandOutSession(record);
    } else {
      return false;
    }
  } while (bytes < bytes_max);
  return true;
}

size_t ChangeTracker::HandOutSaved(const RecordFunction& record) {
  const auto& [key, value] = delta_->saved.front();
  const size_t bytes = key.size() + (value.has_value() ? value->size() : 0);
  record(key, value);
  delta_->saved.pop_front();
  return bytes;
}

size_t ChangeTracker::HandOutNode(const RecordFunction& record) {
  const Znode* node = delta_->changes.nodes[delta_->nodes_done++];
  // A nullptr counts too, so that a piece is bounded even if all its nodes changed meanwhile.
  if (node == nullptr) return sizeof(node);
  EncodeNodeKey(KeyOf(*node), &key_);
  EncodeNode(*node, acls_, &value_);
  record(key_, value_);
  return key_.size() + value_.size();
}

size_t ChangeTracker::HandOutDeletedNode(const RecordFunction& record) {
  EncodeNodeKey(delta_->changes.deleted_nodes[delta_->deleted_nodes_done++], &key_);
  record(key_, std::nullopt);
  return key_.size();
}

bool ChangeTracker::IsSessionLeft() const {
  const SessionMap& sessions = delta_->changes.sessions;
  return !sessions.empty() && !IsSessionDone(*delta_, sessions.rbegin()->first);
}

size_t ChangeTracker::HandOutSession(const RecordFunction& record) {
  const SessionMap& ids = delta_->changes.sessions;
  const auto next =
      delta_->last_session.has_value() ? ids.upper_bound(*delta_->last_session) : ids.begin();
  ASSERT(next != ids.end(), "a session is left");
  delta_->last_session = next->first;
  const Session* session = sessions_.Find(next->first);
  EncodeSessionKey(next->first, &key_);
  if (session == nullptr) {
    record(key_, std::nullopt);
    return key_.size();
  }
  EncodeSession(*session, &value_);
  record(key_, value_);
  return key_.size() + value_.size();
}

bool ChangeTracker::IsAllHandedOut() const {
  const Changes& changes = delta_->changes;
  return delta_->saved.empty() && delta_->nodes_done == changes.nodes.size() &&
         delta_->deleted_nodes_done == changes.deleted_nodes.size() && !IsSessionLeft();
}

bool ChangeTracker::EndDelta(bool durable, size_t bytes_max) {
  ASSERT(delta_ != nullptr, "BeginDelta comes first");
  if (!delta_->durable.has_value()) {
    ASSERT(!durable || IsAllHandedOut());
    delta_->durable = durable;
  }
  ASSERT(durable == *delta_->durable, "`durable` is the same in all calls");
  const Changes& changes = delta_->changes;
  size_t bytes = 0;
  do {
    if (!delta_->saved.empty()) {
      bytes += EndSaved();
    } else if (changes.nodes.size() > 0) {
      bytes += EndNode();
    } else if (changes.deleted_nodes.size() > 0) {
      bytes += EndDeletedNode();
    } else if (!changes.sessions.empty()) {
      bytes += EndSession();
    } else {
      delta_.reset();
      return false;
    }
  } while (bytes < bytes_max);
  return true;
}

size_t ChangeTracker::EndSaved() {
  const auto& [key, value] = delta_->saved.front();
  const size_t bytes = sizeof(key) + sizeof(value) + key.size() + (value ? value->size() : 0);
  delta_->saved.pop_front();
  return bytes;
}

size_t ChangeTracker::EndNode() {
  Znode* node = delta_->changes.nodes.Last();
  delta_->changes.nodes.DropLast();
  if (*delta_->durable || node == nullptr) return sizeof(node);
  AppendChanged(node);
  return sizeof(*node);
}

size_t ChangeTracker::EndDeletedNode() {
  BlockList<NodeKey>& ended = delta_->changes.deleted_nodes;
  if (!*delta_->durable) changes_.deleted_nodes.Append(ended.Last());
  ended.DropLast();
  return sizeof(NodeKey);
}

size_t ChangeTracker::EndSession() {
  SessionMap& ended = delta_->changes.sessions;
  if (!*delta_->durable) changes_.sessions.emplace(ended.begin()->first, false);
  ended.erase(ended.begin());
  return kMapEntryBytes;
}

}  // namespace quorate::tree
