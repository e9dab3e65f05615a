// SPDX-License-Identifier: Apache-2.0

// Tracks which records changed since the last checkpoint delta, and holds the current delta: the
// values of those records at exactly one zxid. The delta is read piece by piece while the tree
// continues to change.
//
// The tracker keeps a list of the changed nodes. A node stores its place in the list, and is in the
// list exactly if the list has the node at that place. Therefore a node needs only four bytes, and
// no node has to be updated when a list is dropped. BeginDelta makes the whole list the delta and
// starts an empty list. If a node of the delta changes before it was handed out, its record is
// saved first.
//
// A delta also ends piece by piece: its list is emptied from the back. If the delta failed, each of
// its nodes returns to the list of changes, unless the node changed in the meantime and is already
// there.
//
// If a node is deleted that was in a delta, only its key is kept, which is never used again. A node
// that is deleted before it was in any delta leaves nothing. Therefore the memory is bounded by the
// number of existing nodes and of deleted nodes that were in a delta. Sessions are few, and a
// session id may be used again, so that sessions are in an ordered map instead.
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

// A list that is stored in blocks: growth never moves elements, and freeing the list takes few
// calls.
template <typename T>
class BlockList {
 public:
  size_t size() const { return size_; }
  T& operator[](size_t at) { return (*blocks_[at / kBlock])[at % kBlock]; }
  const T& operator[](size_t at) const { return (*blocks_[at / kBlock])[at % kBlock]; }
  // Returns the last element. REQUIRES: the list is not empty.
  const T& Last() const { return (*this)[size_ - 1]; }
  void Append(const T& value) {
    if (size_ == blocks_.size() * kBlock)
      blocks_.push_back(std::make_unique_for_overwrite<Block>());
    (*this)[size_++] = value;
  }
  void DropLast() {
    ASSERT(size_ > 0);
    --size_;
    // Keeps one block more than needed, so that a size that varies around a multiple of kBlock does
    // not allocate and free a block each time.
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
  // Receives a record. `value` is nullopt if the record is to be removed.
  using RecordFunction =
      std::function<void(std::string_view key, std::optional<std::string_view> value)>;

  // `acls` and `sessions` must outlive the tracker.
  ChangeTracker(const AclTable* acls, const SessionTable* sessions)
      : acls_(*acls), sessions_(*sessions) {}

  // Adds a new node to the changes. Called when the node has its key (czxid and ordinal).
  void OnNodeCreated(Znode* node) { AppendChanged(node); }
  // Records that a node is about to change. Called before any change of the node's record. O(1),
  // plus the size of the record if a delta needs its old value.
  void BeforeNodeChange(Znode* node) {
    if (IsChanged(*node)) return;
    if (delta_ != nullptr) SaveForDelta(node);
    AppendChanged(node);
  }
  // Removes a deleted node from the lists. Called before the node is freed. REQUIRES:
  // BeforeNodeChange or OnNodeCreated was called for it.
  void OnNodeFreed(Znode* node);

  // Records that a session is about to change. Called before a session is added, changed or
  // removed.
  void BeforeSessionChange(SessionId id);
  // Called after a session was removed. REQUIRES: BeforeSessionChange was called for it.
  void OnSessionRemoved(SessionId id);

  // Declares that the store has the whole tree as of `zxid`, so that nothing counts as changed.
  // REQUIRES: there is no delta.
  void SetClean(Zxid zxid);

  // See Tree for these three. `head` is the head record of the tree's present state.
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
    Changes changes;  // a node is nullptr once it changed after BeginDelta
    // The numbers of nodes and of deleted nodes that were handed out, and the last session that
    // was.
    size_t nodes_done = 0;
    size_t deleted_nodes_done = 0;
    std::optional<SessionId> last_session;
    // Records saved before a change; without a value, the record is to be removed.
    std::deque<std::pair<std::string, std::optional<std::string>>> saved;
    std::optional<bool> durable;  // set once EndDelta is called
  };

  static bool IsAt(const BlockList<Znode*>& nodes, const Znode& node) {
    return node.changed_at < nodes.size() && nodes[node.changed_at] == &node;
  }
  // Returns whether the node is in changes_. The node's zxids alone decide in most cases, without a
  // lookup in the list.
  bool IsChanged(const Znode& node) const {
    return node.mzxid > delta_zxid_ || node.pzxid() > delta_zxid_ || IsAt(changes_.nodes, node);
  }
  void AppendChanged(Znode* node);
  void SaveForDelta(Znode* node);
  static bool IsSessionDone(const Delta& delta, SessionId id) {
    return delta.last_session.has_value() && id <= *delta.last_session;
  }
  // Each of these hands out one of the remaining records and returns its size in bytes.
  size_t HandOutSaved(const RecordFunction& record);
  size_t HandOutNode(const RecordFunction& record);
  size_t HandOutDeletedNode(const RecordFunction& record);
  size_t HandOutSession(const RecordFunction& record);
  bool IsSessionLeft() const;
  bool IsAllHandedOut() const;
  // Each of these ends one element of the delta and returns the bytes for which it counts.
  size_t EndSaved();
  size_t EndNode();
  size_t EndDeletedNode();
  size_t EndSession();

  const AclTable& acls_;
  const SessionTable& sessions_;
  Changes changes_;
  std::unique_ptr<Delta> delta_;
  // The zxid of the newest delta. Every node with a later zxid is in changes_, and a node created
  // later is in no delta.
  Zxid delta_zxid_{-1};
  std::string key_;
  std::string value_;
};

}  // namespace quorate::tree
