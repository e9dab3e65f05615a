// Tracks which records changed since the last checkpoint delta, and holds the deltas: the values of
// those records at exactly one zxid, read piece by piece while the tree continues to change.
//
// A changed node is in a list, and stores its place there: it is in the list if the list has it at
// that place. So a node needs four bytes, and nothing has to be cleared when a list is dropped.
// BeginDelta takes the whole list as the delta and starts an empty one. Before a node of the delta
// changes that was not yet handed out, its record is saved.
//
// A delta also ends piece by piece: its list is emptied from the back. If the delta failed, each
// node goes back into the list of changes, unless it changed meanwhile and is already there.
//
// Keys of nodes are never used again, so that only the key of a deleted node is kept; a deleted
// node that was in no delta leaves nothing. So the memory is bounded by the number of existing
// nodes and of deleted nodes that were in a delta. Sessions are few, and an id may be used again:
// they are in an ordered map.
//
// Thread-safety: none inside; see Tree.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "base/assert.h"
#include "tree/acl_table.h"
#include "tree/record.h"
#include "tree/sessions.h"
#include "tree/types.h"
#include "tree/znode.h"

namespace quorate::tree {

// A list in blocks: growing never moves elements, and freeing takes a few calls.
template <typename T>
class BlockList {
 public:
  size_t size() const { return size_; }
  T& operator[](size_t at) { return (*blocks_[at / kBlock])[at % kBlock]; }
  const T& operator[](size_t at) const { return (*blocks_[at / kBlock])[at % kBlock]; }
  // REQUIRES: it is not empty.
  const T& Last() const { return (*this)[size_ - 1]; }
  void Append(const T& value) {
    if (size_ == blocks_.size() * kBlock)
      blocks_.push_back(std::make_unique_for_overwrite<Block>());
    (*this)[size_++] = value;
  }
  void DropLast() {
    ASSERT(size_ > 0);
    --size_;
    // Keeps one block more than needed, so that a size that varies around a block's border does not
    // allocate and free a block each time.
    if (size_ + 2 * kBlock == blocks_.size() * kBlock) blocks_.pop_back();
  }

 private:
  static constexpr size_t kBlock = 4096;
  using Block = std::array<T, kBlock>;
  std::vector<std::unique_ptr<Block>> blocks_;
  size_t size_ = 0;
};

class ChangeTracker {
 public:
  // There is no value for a record that is to be removed.
  using RecordFunction =
      std::function<void(std::string_view key, std::optional<std::string_view> value)>;

  // Both outlive the tracker.
  ChangeTracker(const AclTable* acls, const SessionTable* sessions)
      : acls_(*acls), sessions_(*sessions) {}

  // Called for a new node, once it has its key.
  void OnNodeCreated(Znode* node) { AppendChanged(node); }
  // Called before any change of a node's record. O(1), plus the size of the record if a delta needs
  // it.
  void BeforeNodeChange(Znode* node) {
    if (IsChanged(*node)) return;
    if (delta_ != nullptr) SaveForDelta(node);
    AppendChanged(node);
  }
  // Called before the node is freed. REQUIRES: BeforeNodeChange or OnNodeCreated was called for it.
  void OnNodeFreed(Znode* node);

  // Called before a session is added, changed or removed.
  void BeforeSessionChange(SessionId id);
  // REQUIRES: BeforeSessionChange was called for it.
  void OnSessionRemoved(SessionId id);

  // Declares that the tree equals the records at `zxid`, so that nothing counts as changed.
  // REQUIRES: no delta.
  void SetClean(Zxid zxid);

  // As in Tree. `head` is the head record of the tree's present state.
  void BeginDelta(const HeadRecord& head);
  bool NextDeltaRecords(size_t bytes_max, const RecordFunction& record);
  bool EndDelta(bool durable, size_t bytes_max);

 private:
  // The value is true for a session that is in no earlier checkpoint delta.
  using SessionMap = absl::btree_map<SessionId, bool>;

  struct Changes {
    BlockList<Znode*> nodes;
    BlockList<NodeKey> deleted_nodes;
    SessionMap sessions;
  };

  struct Delta {
    Changes changes;  // nullptr among the nodes: the node changed meanwhile
    // How many of `changes` were handed out, and the last session of them.
    size_t nodes_done = 0;
    size_t deleted_nodes_done = 0;
    std::optional<SessionId> last_session;
    // Records that were saved before a change; no value: the record is to be removed.
    std::deque<std::pair<std::string, std::optional<std::string>>> saved;
    std::optional<bool> durable;  // set once EndDelta is called
  };

  static bool IsAt(const BlockList<Znode*>& nodes, const Znode& node) {
    return node.changed_at < nodes.size() && nodes[node.changed_at] == &node;
  }
  // In most cases the node's zxids alone decide, without a lookup in the list.
  bool IsChanged(const Znode& node) const {
    return node.mzxid > delta_zxid_ || node.pzxid() > delta_zxid_ || IsAt(changes_.nodes, node);
  }
  void AppendChanged(Znode* node);
  void SaveForDelta(Znode* node);
  static bool IsSessionDone(const Delta& delta, SessionId id) {
    return delta.last_session.has_value() && id <= *delta.last_session;
  }
  // Each hands out one of the remaining records and returns its bytes.
  size_t HandOutSaved(const RecordFunction& record);
  size_t HandOutNode(const RecordFunction& record);
  size_t HandOutDeletedNode(const RecordFunction& record);
  size_t HandOutSession(const RecordFunction& record);
  bool IsSessionLeft() const;
  bool IsAllHandedOut() const;
  // Each ends one element of the delta and returns the bytes that it counts for.
  size_t EndSaved();
  size_t EndNode();
  size_t EndDeletedNode();
  size_t EndSession();

  const AclTable& acls_;
  const SessionTable& sessions_;
  Changes changes_;
  std::unique_ptr<Delta> delta_;
  // The zxid of the newest delta: all later changes are in changes_, and nodes created later are in
  // no delta.
  Zxid delta_zxid_{-1};
  std::string key_;
  std::string value_;
};

}  // namespace quorate::tree
