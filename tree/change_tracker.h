// Which records changed since the last checkpoint delta, and the deltas themselves: what those
// records were at exactly one zxid, read out piece by piece while the tree goes on changing.
//
// A changed node is in a list, and knows its place there: it is in the list if the list has it at
// that place. So a node needs four bytes, and nothing has to be cleared when a list is done with.
// BeginDelta takes the whole list as the delta and starts an empty one; whoever changes a node
// of the delta that was not yet handed out saves its record first.
//
// A delta ends as it is read, piece by piece: its list is taken apart from the back, and a node
// of one that failed goes into the list of changes, unless it changed meanwhile and is there.
//
// Keys of nodes never come back, so that a deleted one is a key and no more; and one that no
// delta has ever had leaves no trace at all: the memory is bounded by the nodes that there are
// and the deletions of such as a delta has had. Sessions are few, and the same id may come back:
// they are an ordered map.
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

// A list in blocks: growing never moves what is there, and freeing is a few calls.
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
    // One block more than needed stays, so that the size may swing about its border.
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
  // The value is absent for a record that is to be removed.
  using RecordFunction =
      std::function<void(std::string_view key, std::optional<std::string_view> value)>;

  // Both outlive the tracker.
  ChangeTracker(const AclTable* acls, const SessionTable* sessions)
      : acls_(*acls), sessions_(*sessions) {}

  // A new node; its key is that of its record from now on.
  void OnNodeCreated(Znode* node) { AppendChanged(node); }
  // Before any change of a node's record. O(1), and the size of the record if a delta wants it.
  void BeforeNodeChange(Znode* node) {
    if (IsChanged(*node)) return;
    if (delta_ != nullptr) SaveForDelta(node);
    AppendChanged(node);
  }
  // Before the node is freed. REQUIRES: BeforeNodeChange or OnNodeCreated was called for it.
  void OnNodeFreed(Znode* node);

  // Before a session is added, changed or removed.
  void BeforeSessionChange(SessionId id);
  // REQUIRES: BeforeSessionChange was called for it.
  void OnSessionRemoved(SessionId id);

  // Everything is as the records of `zxid` say: nothing is changed. REQUIRES: no delta.
  void SetClean(Zxid zxid);

  // As in Tree. `head` is the tree as it is.
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
    Changes changes;  // nullptr among the nodes: changed meanwhile
    // How far they were handed out.
    size_t nodes_done = 0;
    size_t deleted_nodes_done = 0;
    std::optional<SessionId> last_session;
    // Records that were saved before a change; no value: to be removed.
    std::deque<std::pair<std::string, std::optional<std::string>>> saved;
    std::optional<bool> durable;  // once it ends
  };

  static bool IsAt(const BlockList<Znode*>& nodes, const Znode& node) {
    return node.changed_at < nodes.size() && nodes[node.changed_at] == &node;
  }
  // Mostly the node itself tells, and spares the look at the list.
  bool IsChanged(const Znode& node) const {
    return node.mzxid > delta_zxid_ || node.pzxid() > delta_zxid_ || IsAt(changes_.nodes, node);
  }
  void AppendChanged(Znode* node);
  void SaveForDelta(Znode* node);
  static bool IsSessionDone(const Delta& delta, SessionId id) {
    return delta.last_session.has_value() && id <= *delta.last_session;
  }
  // A piece of what is left; each returns the bytes it handed out.
  size_t HandOutSaved(const RecordFunction& record);
  size_t HandOutNode(const RecordFunction& record);
  size_t HandOutDeletedNode(const RecordFunction& record);
  size_t HandOutSession(const RecordFunction& record);
  bool IsSessionLeft() const;
  bool IsAllHandedOut() const;
  // A piece of a delta that ends; each returns the bytes it went over.
  size_t EndSaved();
  size_t EndNode();
  size_t EndDeletedNode();
  size_t EndSession();

  const AclTable& acls_;
  const SessionTable& sessions_;
  Changes changes_;
  std::unique_ptr<Delta> delta_;
  // Of the newest delta: whatever changed later is among the changes, and no delta has had what
  // was created later.
  Zxid delta_zxid_{-1};
  std::string key_;
  std::string value_;
};

}  // namespace quorate::tree
