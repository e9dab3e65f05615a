// SPDX-License-Identifier: Apache-2.0

#include "tree/sessions.h"

#include <utility>

#include "base/assert.h"
#include "tree/digest.h"

namespace quorate::tree {

void Session::Link(Znode* node) {
  EphemeralLinks& links = node->links();
  ASSERT(links.previous == nullptr && links.next == nullptr && first != node,
         "the node is in no list yet");
  ASSERT(node->owner() == id, "the node belongs to this session");
  links.previous = last;
  (last == nullptr ? first : last->links().next) = node;
  last = node;
  ++ephemeral_count;
}

void Session::Unlink(Znode* node) {
  ASSERT(ephemeral_count > 0, "the node is in the list");
  ASSERT(node->owner() == id, "the node belongs to this session");
  const EphemeralLinks& links = node->links();
  (links.previous == nullptr ? first : links.previous->links().next) = links.next;
  (links.next == nullptr ? last : links.next->links().previous) = links.previous;
  --ephemeral_count;
}

void Session::Relink(Znode* node) {
  ASSERT(node->owner() == id, "the node belongs to this session");
  const EphemeralLinks& links = node->links();
  Znode*& from_previous = links.previous == nullptr ? first : links.previous->links().next;
  Znode*& from_next = links.next == nullptr ? last : links.next->links().previous;
  ASSERT(from_previous == links.next && from_next == links.previous,
         "the neighbours are adjacent again");
  from_previous = node;
  from_next = node;
  ++ephemeral_count;
}

uint64_t Session::OwnHash() const {
  return HashNumbers<5>(
      kSessionTerm,
      {static_cast<uint64_t>(id.value()), static_cast<uint64_t>(timeout_ms),
       static_cast<uint64_t>(attach_zxid.value()), uint64_t{member}, HashBytes(password)});
}

uint64_t Session::Hash() const { return OwnHash() + (answers == nullptr ? 0 : answers->Hash()); }

uint64_t Session::ComputeHash() const {
  return OwnHash() + (answers == nullptr ? 0 : answers->ComputeHash());
}

Session* SessionTable::Find(SessionId id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

size_t SessionTable::BytesOf(const Session& session) {
  constexpr size_t kPlaceBytes = 32;  // approximate size of an entry in the map
  return sizeof(Session) + kPlaceBytes + session.password.capacity();
}

Session* SessionTable::Add(SessionId id, std::string password) {
  ASSERT(id != kNoSession, "0 is no session");
  auto session = std::make_unique<Session>();
  session->id = id;
  session->password = std::move(password);
  bytes_ += BytesOf(*session);
  const auto [at, inserted] = sessions_.emplace(id, std::move(session));
  ASSERT(inserted, "a session is added once");
  return at->second.get();
}

void SessionTable::Remove(Session* session) {
  ASSERT(session != nullptr);
  ASSERT(session->ephemeral_count == 0 && session->first == nullptr,
         "its ephemerals were removed first");
  bytes_ -= BytesOf(*session);
  const size_t erased = sessions_.erase(session->id);
  ASSERT(erased == 1, "the session is in the table");
}

}  // namespace quorate::tree
