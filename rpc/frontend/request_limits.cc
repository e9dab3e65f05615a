// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/request_limits.h"

#include <algorithm>

namespace quorate::rpc {
namespace {

// The bytes of an entry besides the scheme and the id.
constexpr size_t kEntryBytes = 16;

size_t BytesOf(const tree::Identity& identity) {
  return kEntryBytes + identity.scheme.size() + identity.id.size();
}

}  // namespace

bool AclsFit(const tree::Request& request, std::span<const tree::Identity> identities) {
  size_t identity_bytes = 0;
  for (const tree::Identity& identity : identities) identity_bytes += BytesOf(identity);
  size_t request_bytes = 0;
  for (const tree::Op& op : request.ops) {
    size_t entries = 0;
    size_t bytes = 0;
    for (const tree::Acl& entry : op.acl) {
      const bool is_auth = entry.identity.scheme == "auth";
      entries += is_auth ? identities.size() : 1;
      bytes += is_auth ? identity_bytes : BytesOf(entry.identity);
      if (entries > kAclEntriesMax || bytes > kAclBytesMax) return false;
    }
    request_bytes += bytes;
    if (request_bytes > kRequestAclBytesMax) return false;
  }
  return true;
}

size_t EphemeralsIn(const tree::Request& request) {
  const auto count = [](std::span<const tree::Op> ops) {
    return static_cast<size_t>(std::ranges::count_if(ops, [](const tree::Op& op) {
      return op.mode == tree::CreateMode::kEphemeral ||
             op.mode == tree::CreateMode::kEphemeralSequential;
    }));
  };
  if (!request.has_branches) return count(request.ops);
  return std::max(count(tree::OpsOf(request, tree::Branch::kThen)),
                  count(tree::OpsOf(request, tree::Branch::kOtherwise)));
}

}  // namespace quorate::rpc
