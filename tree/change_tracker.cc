#include "tree/change_tracker.h"

#include <limits>

namespace quorate::tree {
namespace {

// What an entry of a map counts for: finding its place costs more than its bytes.
constexpr size_t kMapEntryBytes = 128;

}  // namespace

void ChangeTracker::AppendChanged(Znode* node) {
  ASSERT(changes_.nodes.size() < std::numeric_limits<uint32_t>::max(), "the place has 32 bits");
  node->changed_at = static_cast<uint32_t>(changes_.nodes.size());
  changes_.nodes.Append(node);
}

void ChangeTracker::LeavePicture(Znode* node) {
  if (!IsAt(picture_->changes.nodes, *node)) return;
  picture_->changes.nodes[node->changed_at] = nullptr;
  // It was handed out, or nobody wants it any more.
  if (node->changed_at < picture_->nodes_done || picture_->durable.has_value()) return;
  EncodeNodeKey(KeyOf(*node), &key_);
  EncodeNode(*node, acls_, &value_);
  picture_->saved.emplace_back(key_, value_);
}

void ChangeTracker::OnNodeFreed(Znode* node) {
  ASSERT(IsAt(changes_.nodes, *node), "its change was announced");
  Znode* last = changes_.nodes.Last();
  changes_.nodes[node->changed_at] = last;
  last->changed_at = node->changed_at;
  changes_.nodes.DropLast();
  if (node->czxid <= pictured_zxid_) changes_.deleted_nodes.Append(KeyOf(*node));
}

void ChangeTracker::BeforeSessionChange(SessionId id) {
  bool unknown = sessions_.Find(id) == nullptr;
  if (picture_ != nullptr) {
    const auto found = picture_->changes.sessions.find(id);
    if (found != picture_->changes.sessions.end()) {
      unknown = false;
      if (!picture_->durable.has_value() && !IsSessionDone(*picture_, id)) {
        const Session* session = sessions_.Find(id);
        EncodeSessionKey(id, &key_);
        auto& saved = picture_->saved.emplace_back(key_, std::nullopt);
        if (session != nullptr) EncodeSession(*session, &saved.second.emplace());
      }
      picture_->changes.sessions.erase(found);
    }
  }
  // One that is changed already stays what it is.
  changes_.sessions.emplace(id, unknown);
}

void ChangeTracker::OnSessionRemoved(SessionId id) {
  const auto found = changes_.sessions.find(id);
  ASSERT(found != changes_.sessions.end(), "its change was announced");
  if (found->second) changes_.sessions.erase(found);
}

void ChangeTracker::SetClean(Zxid zxid) {
  ASSERT(picture_ == nullptr, "a picture is of the tree that was");
  changes_ = Changes{};
  pictured_zxid_ = zxid;
}

void ChangeTracker::BeginPicture(const HeadRecord& head) {
  ASSERT(picture_ == nullptr, "one picture at a time");
  picture_ = std::make_unique<Picture>();
  std::swap(picture_->changes, changes_);
  EncodeHeadKey(&key_);
  EncodeHead(head, &value_);
  picture_->saved.emplace_back(key_, value_);
  pictured_zxid_ = head.zxid;
}

bool ChangeTracker::NextPictureRecords(size_t bytes_max, const RecordFunction& record) {
  ASSERT(picture_ != nullptr, "BeginPicture comes first");
  ASSERT(!picture_->durable.has_value(), "EndPicture comes last");
  const Changes& changes = picture_->changes;
  size_t bytes = 0;
  do {
    if (!picture_->saved.empty()) {
      bytes += HandOutSaved(record);
    } else if (picture_->nodes_done < changes.nodes.size()) {
      bytes += HandOutNode(record);
    } else if (picture_->deleted_nodes_done < changes.deleted_nodes.size()) {
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
  const auto& [key, value] = picture_->saved.front();
  const size_t bytes = key.size() + (value.has_value() ? value->size() : 0);
  record(key, value);
  picture_->saved.pop_front();
  return bytes;
}

size_t ChangeTracker::HandOutNode(const RecordFunction& record) {
  const Znode* node = picture_->changes.nodes[picture_->nodes_done++];
  // Counts for something too: a piece has an end even if all nodes have left.
  if (node == nullptr) return sizeof(node);
  EncodeNodeKey(KeyOf(*node), &key_);
  EncodeNode(*node, acls_, &value_);
  record(key_, value_);
  return key_.size() + value_.size();
}

size_t ChangeTracker::HandOutDeletedNode(const RecordFunction& record) {
  EncodeNodeKey(picture_->changes.deleted_nodes[picture_->deleted_nodes_done++], &key_);
  record(key_, std::nullopt);
  return key_.size();
}

bool ChangeTracker::IsSessionLeft() const {
  const SessionMap& sessions = picture_->changes.sessions;
  return !sessions.empty() && !IsSessionDone(*picture_, sessions.rbegin()->first);
}

size_t ChangeTracker::HandOutSession(const RecordFunction& record) {
  const SessionMap& ids = picture_->changes.sessions;
  const auto next =
      picture_->last_session.has_value() ? ids.upper_bound(*picture_->last_session) : ids.begin();
  ASSERT(next != ids.end(), "one is left");
  picture_->last_session = next->first;
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
  const Changes& changes = picture_->changes;
  return picture_->saved.empty() && picture_->nodes_done == changes.nodes.size() &&
         picture_->deleted_nodes_done == changes.deleted_nodes.size() && !IsSessionLeft();
}

bool ChangeTracker::EndPicture(bool durable, size_t bytes_max) {
  ASSERT(picture_ != nullptr, "BeginPicture comes first");
  if (!picture_->durable.has_value()) {
    ASSERT(!durable || IsAllHandedOut());
    picture_->durable = durable;
  }
  ASSERT(durable == *picture_->durable, "it ends in one way");
  const Changes& changes = picture_->changes;
  size_t bytes = 0;
  do {
    if (!picture_->saved.empty()) {
      bytes += EndSaved();
    } else if (changes.nodes.size() > 0) {
      bytes += EndNode();
    } else if (changes.deleted_nodes.size() > 0) {
      bytes += EndDeletedNode();
    } else if (!changes.sessions.empty()) {
      bytes += EndSession();
    } else {
      picture_.reset();
      return false;
    }
  } while (bytes < bytes_max);
  return true;
}

size_t ChangeTracker::EndSaved() {
  const auto& [key, value] = picture_->saved.front();
  const size_t bytes = sizeof(key) + sizeof(value) + key.size() + (value ? value->size() : 0);
  picture_->saved.pop_front();
  return bytes;
}

size_t ChangeTracker::EndNode() {
  Znode* node = picture_->changes.nodes.Last();
  picture_->changes.nodes.DropLast();
  if (*picture_->durable || node == nullptr) return sizeof(node);
  AppendChanged(node);
  return sizeof(*node);
}

size_t ChangeTracker::EndDeletedNode() {
  BlockList<NodeKey>& ended = picture_->changes.deleted_nodes;
  if (!*picture_->durable) changes_.deleted_nodes.Append(ended.Last());
  ended.DropLast();
  return sizeof(NodeKey);
}

size_t ChangeTracker::EndSession() {
  SessionMap& ended = picture_->changes.sessions;
  if (!*picture_->durable) changes_.sessions.emplace(ended.begin()->first, false);
  ended.erase(ended.begin());
  return kMapEntryBytes;
}

}  // namespace quorate::tree
