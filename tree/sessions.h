// SPDX-License-Identifier: Apache-2.0

// All sessions, whichever member they are attached to, with their ephemeral nodes and the responses
// to their numbered writes.
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
  // The ephemerals in the order of their creation: a list that is linked through the nodes.
  Znode* first = nullptr;
  Znode* last = nullptr;
  size_t ephemeral_count = 0;
  // nullptr before the first numbered write.
  std::unique_ptr<ResponseCache> answers;

  // Return the sequence numbers of the numbered writes; 0 if there were none.
  uint64_t last_sequence() const { return answers == nullptr ? 0 : answers->last_sequence(); }
  uint64_t acknowledged() const { return answers == nullptr ? 0 : answers->acknowledged(); }

  // Appends a new node to the list of ephemerals. REQUIRES: the node is in no list.
  void Link(Znode* node);
  // Removes a node from the list. The node keeps its links for Relink. REQUIRES: the node is in the
  // list.
  void Unlink(Znode* node);
  // Undoes an Unlink. REQUIRES: all later changes of the list have been undone.
  void Relink(Znode* node);

  // Return the session's part of the digest: Hash in O(1), ComputeHash from scratch.
  uint64_t Hash() const;
  uint64_t ComputeHash() const;

 private:
  // Returns the hash of the session without its responses.
  uint64_t OwnHash() const;
};

class SessionTable {
 public:
  using Map = absl::btree_map<SessionId, std::unique_ptr<Session>>;

  // Returns the session, or nullptr if there is none with that id. O(log n).
  Session* Find(SessionId id) const;
  // Adds a session. REQUIRES: there is no session with that id, and id is not kNoSession.
  Session* Add(SessionId id, std::string password);
  // Removes a session. REQUIRES: it is in the table and has no ephemerals.
  void Remove(Session* session);

  // Returns all sessions, ascending by id.
  const Map& all() const { return sessions_; }
  size_t size() const { return sessions_.size(); }
  // Returns the memory of the sessions in bytes, without their response caches. O(1).
  size_t bytes() const { return bytes_; }

 private:
  static size_t BytesOf(const Session& session);

  Map sessions_;
  size_t bytes_ = 0;
};

}  // namespace quorate::tree
