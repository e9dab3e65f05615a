// SPDX-License-Identifier: Apache-2.0

#include "tree/acl_table.h"

#include <string>

#include "base/assert.h"
#include "base/bytes.h"
#include "tree/acl.h"
#include "tree/hash.h"

namespace quorate::tree {
namespace {

// A list with more entries than this gets an index.
constexpr size_t kScannedEntriesMax = 8;

uint64_t HashAcl(const std::vector<Acl>& acl) {
  std::string bytes;
  LittleEndianWriter writer(&bytes);
  for (const Acl& entry : acl) {
    writer.Int(entry.permissions);
    writer.String(entry.identity.scheme);
    writer.String(entry.identity.id);
  }
  return HashBytes(bytes);
}

}  // namespace

bool IsOpenAcl(std::span<const Acl> acl) {
  return acl.size() == 1 && acl[0].permissions == permission::kAll &&
         acl[0].identity.scheme == "world" && acl[0].identity.id == "anyone";
}

AclTable::AclTable() {
  const uint32_t id = Add(OpenAcl());
  ASSERT(id == kOpenAclId, "the first");
}

uint32_t AclTable::Ref(const std::vector<Acl>& acl) {
  if (IsOpenAcl(acl)) return kOpenAclId;
  const auto found = ids_.find(acl);
  const uint32_t id = found != ids_.end() ? found->second : Add(acl);
  ++entries_[id].references;
  return id;
}

void AclTable::Ref(uint32_t id) {
  if (id == kOpenAclId) return;
  ASSERT(id < entries_.size() && entries_[id].references > 0, "the list is referenced");
  ++entries_[id].references;
}

uint32_t AclTable::Add(const std::vector<Acl>& acl) {
  uint32_t id = static_cast<uint32_t>(entries_.size());
  if (free_.empty()) {
    entries_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  const auto [at, inserted] = ids_.emplace(acl, id);
  ASSERT(inserted, "a list is added once");
  entries_[id] = Entry{&at->first, HashAcl(acl), 0, nullptr};
  if (acl.size() > kScannedEntriesMax) entries_[id].index = std::make_unique<AclIndex>(at->first);
  return id;
}

void AclTable::Unref(uint32_t id) {
  if (id == kOpenAclId) return;
  ASSERT(id < entries_.size() && entries_[id].references > 0, "each reference is dropped once");
  Entry& entry = entries_[id];
  if (--entry.references > 0) return;
  const size_t erased = ids_.erase(*entry.acl);
  ASSERT(erased == 1, "the list is known by its content");
  entry = Entry{};
  free_.push_back(id);
}

const std::vector<Acl>& AclTable::Get(uint32_t id) const {
  ASSERT(id < entries_.size() && entries_[id].acl != nullptr, "the list is referenced");
  return *entries_[id].acl;
}

bool AclTable::Allows(uint32_t id, std::span<const Identity> identities,
                      int32_t permissions) const {
  const std::vector<Acl>& acl = Get(id);
  const AclIndex* index = entries_[id].index.get();
  if (index == nullptr) return IsAllowed(acl, identities, permissions);
  return HasSuper(identities) || index->Allows(identities, permissions);
}

uint64_t AclTable::Hash(uint32_t id) const {
  ASSERT(id < entries_.size() && entries_[id].acl != nullptr, "the list is referenced");
  return entries_[id].hash;
}

}  // namespace quorate::tree
