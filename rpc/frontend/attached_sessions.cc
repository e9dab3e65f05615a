// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/attached_sessions.h"

#include <utility>

namespace quorate::rpc {

void AttachedSessions::Attach(tree::SessionId session, std::shared_ptr<AttachedSession> client) {
  MutexLock lock(&mutex_);
  std::shared_ptr<AttachedSession>& current = sessions_[session];
  if (current == nullptr || current->attach_zxid <= client->attach_zxid) {
    current = std::move(client);
  }
}

void AttachedSessions::Update(tree::SessionId session, std::shared_ptr<AttachedSession> client) {
  MutexLock lock(&mutex_);
  const auto found = sessions_.find(session);
  if (found != sessions_.end() && found->second->tag == client->tag) {
    found->second = std::move(client);
  }
}

void AttachedSessions::Detach(tree::SessionId session, uint32_t tag) {
  MutexLock lock(&mutex_);
  const auto found = sessions_.find(session);
  if (found != sessions_.end() && found->second->tag == tag) sessions_.erase(found);
}

std::shared_ptr<const AttachedSession> AttachedSessions::Find(tree::SessionId session) const {
  MutexLock lock(&mutex_);
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : found->second;
}

}  // namespace quorate::rpc
