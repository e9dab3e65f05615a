// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/secrets.h"
#include "tree/acl.h"
#include "tree/tree.h"
#include "tree/tree_impl.h"

namespace quorate::tree {

SessionInfo ToInfo(const Session& session) {
  SessionInfo info;
  info.id = session.id;
  info.timeout_ms = session.timeout_ms;
  info.attach_zxid = session.attach_zxid;
  info.member = session.member;
  info.ephemerals = session.ephemeral_count;
  info.last_sequence = session.last_sequence();
  info.acknowledged = session.acknowledged();
  return info;
}

const Znode* Tree::Impl::FindReadable(std::string_view path, std::span<const Identity> identities,
                                      ErrorCode* error) const {
  const Znode* node = Lookup(path);
  *error = ErrorCode::kOk;
  if (node == nullptr) {
    *error = ErrorCode::kNoNode;
  } else if (!IsPermitted(*node, identities, permission::kRead)) {
    *error = ErrorCode::kNoAuth;
  }
  return *error == ErrorCode::kOk ? node : nullptr;
}

ErrorCode Tree::Exists(std::string_view path, Stat* stat) const {
  if (path.find('\0') != std::string_view::npos) return ErrorCode::kBadArguments;
  return FindStat(path, stat) ? ErrorCode::kOk : ErrorCode::kNoNode;
}

ErrorCode Tree::GetData(std::string_view path, std::span<const Identity> identities,
                        std::string_view* data, bool* has_data, Stat* stat) const {
  ErrorCode error;
  const Znode* node = impl_->FindReadable(path, identities, &error);
  if (node == nullptr) return error;
  *data = node->data.view();
  *has_data = node->data.has_data();
  *stat = node->ToStat();
  return ErrorCode::kOk;
}

ErrorCode Tree::GetChildren(std::string_view path, std::span<const Identity> identities,
                            const std::function<void(std::string_view)>& child, Stat* stat) const {
  ErrorCode error;
  const Znode* node = impl_->FindReadable(path, identities, &error);
  if (node == nullptr) return error;
  *stat = node->ToStat();
  node->children().ForEach([&child](Znode* each) { child(each->name()); });
  return ErrorCode::kOk;
}

ErrorCode Tree::GetAcl(std::string_view path, std::span<const Identity> identities,
                       std::vector<Acl>* acl, Stat* stat) const {
  const Znode* node = impl_->Lookup(path);
  if (node == nullptr) return ErrorCode::kNoNode;
  if (!impl_->IsPermitted(*node, identities, permission::kRead | permission::kAdmin)) {
    return ErrorCode::kNoAuth;
  }
  *stat = node->ToStat();
  *acl = impl_->acls().Get(node->acl_id);
  if (impl_->IsPermitted(*node, identities, permission::kAdmin)) return ErrorCode::kOk;
  for (Acl& entry : *acl) {
    if (entry.identity.scheme == "digest") entry.identity.id = MaskDigestId(entry.identity.id);
  }
  return ErrorCode::kOk;
}

bool Tree::FindStat(std::string_view path, Stat* stat) const {
  const Znode* node = impl_->Lookup(path);
  if (node != nullptr) *stat = node->ToStat();
  return node != nullptr;
}

bool Tree::FindSession(SessionId id, SessionInfo* info) const {
  const Session* session = impl_->sessions().Find(id);
  if (session != nullptr) *info = ToInfo(*session);
  return session != nullptr;
}

bool Tree::CheckPassword(SessionId id, std::string_view password) const {
  const Session* session = impl_->sessions().Find(id);
  return session != nullptr && SecretsEqual(session->password, password);
}

std::vector<SessionInfo> Tree::Sessions() const {
  std::vector<SessionInfo> infos;
  infos.reserve(impl_->sessions().size());
  for (const auto& [id, session] : impl_->sessions().all()) infos.push_back(ToInfo(*session));
  return infos;
}

DedupTable::Last Tree::LastOf(uint16_t member) const {
  const DedupTable::Map& all = impl_->proposers().all();
  auto it = all.find(member);
  return it == all.end() ? DedupTable::Last{} : it->second;
}

std::vector<std::string> Tree::Ephemerals(SessionId id) const {
  std::vector<std::string> paths;
  const Session* session = impl_->sessions().Find(id);
  if (session == nullptr) return paths;
  paths.reserve(session->ephemeral_count);
  for (Znode* node = session->first; node != nullptr; node = node->links().next) {
    paths.push_back(node->Path());
  }
  ASSERT(paths.size() == session->ephemeral_count, "each is counted");
  return paths;
}

size_t Tree::EphemeralCount(SessionId id) const {
  const Session* session = impl_->sessions().Find(id);
  return session == nullptr ? 0 : session->ephemeral_count;
}

std::vector<std::string> Tree::FindExpired(int64_t time_ms, size_t max) const {
  if (!impl_->ttls_are_held()) return impl_->expiry().FindExpired(time_ms, max);
  std::vector<std::string> paths = impl_->expiry().FindExpired(kContainersOnlyMs, max);
  return paths.empty() ? impl_->expiry().FindExpired(time_ms, std::min<size_t>(max, 1)) : paths;
}

}  // namespace quorate::tree
