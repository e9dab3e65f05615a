// SPDX-License-Identifier: Apache-2.0

// Feeds access control lists and identities with any values, as clients may send them.
#include "tree/acl.h"

#include <string>
#include <vector>

#include "base/assert.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {

void Run(Input input) {
  std::vector<tree::Identity> identities;
  for (int count = input.Take<uint8_t>() % 4; count > 0; --count) {
    const std::string scheme(input.TakePiece());
    const std::string id(input.TakePiece());
    // The server creates identities itself, with valid ids.
    if (scheme != "auth" && tree::IsValidId(scheme, id)) identities.push_back({scheme, id});
  }
  std::vector<tree::Acl> wanted;
  while (!input.empty()) {
    const auto permissions = input.Take<int32_t>();
    const std::string scheme(input.TakePiece());
    wanted.push_back({permissions, {scheme, std::string(input.TakePiece())}});
  }
  std::vector<tree::Acl> resolved;
  const bool is_valid = tree::ResolveAcl(wanted, identities, &resolved);
  tree::IsAllowed(wanted, identities, 1);
  if (!is_valid) return;
  ASSERT(!resolved.empty(), "an empty list would allow everything to everybody");
  for (const tree::Acl& acl : resolved) tree::MaskDigestId(acl.identity.id);
  std::vector<tree::Acl> again;
  ASSERT(tree::ResolveAcl(resolved, {}, &again), "a stored list is valid");
  ASSERT(again.size() <= resolved.size(), "it loses only duplicate entries");
}

}  // namespace quorate::fuzz
