// The sessions of all members' clients: which ephemeral nodes each has, and the answers to its
// numbered writes.
//
// Thread-safety: none inside; const functions may be called together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/container/btree_map.h"
#include "tree/response_cache.h"
#include "tree/types.h"
#include "tree/znode.h"

namespace quorate::tree {

struct Session {
  SessionId id;
  int32_t timeout_ms = 0;
  Zxid attach_zxid;
  uint16_t member = 0;
  std::string password;
  // The ephemerals in the order of creation: a list through the nodes.
  Znode* first = nullptr;
  Znode* last = nullptr;
  size_t ephemeral_count = 0;
  // From its first numbered write on; nullptr before.
  std::unique_ptr<ResponseCache> answers;

  // Of its numbered writes: 0 if there was none.
  uint64_t last_sequence() const { return answers == nullptr ? 0 : answers->last_sequence(); }
  uint64_t acknowledged() const { return answers == nullptr ? 0 : answers->acknowledged(); }

  // Appends a new node. REQUIRES: it is in no list.
  void Link(Znode* node);
  // Takes a node out; it remembers its neighbours. REQUIRES: it is in the list.
  void Unlink(Znode* node);
  // Undoes an Unlink. REQUIRES: all that happened to the list since then has been undone.
  void Relink(Znode* node);

  // The session's part of the digest: O(1), and computed from scratch.
  uint64_t Hash() const;
  uint64_t ComputeHash() const;

 private:
  // Without its answers.
  uint64_t OwnHash() const;
};

class SessionTable {
 public:
  using Map = absl::btree_map<SessionId, std::unique_ptr<Session>>;

  // nullptr if there is no such session. O(log n).
  Session* Find(SessionId id) const;
  // REQUIRES: there is no such session, and id is not kNoSession.
  Session* Add(SessionId id, std::string password);
  // REQUIRES: it is here and has no ephemerals.
  void Remove(Session* session);

  // Ascending by id.
  const Map& all() const { return sessions_; }
  size_t size() const { return sessions_.size(); }
  // The memory that the sessions take, without their answers. O(1).
  size_t bytes() const { return bytes_; }

 private:
  static size_t BytesOf(const Session& session);

  Map sessions_;
  size_t bytes_ = 0;
};

}  // namespace quorate::tree
