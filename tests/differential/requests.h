// SPDX-License-Identifier: Apache-2.0

// Encodes requests, each with a description for reports. Their xids are not set yet.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpc/zookeeper/wire/wire.h"
#include "tests/differential/operation.h"

namespace quorate::differential {

// nullopt is null, which the protocol distinguishes from an empty string.
using Text = std::optional<std::string>;

struct AclEntry {
  int32_t perms = 31;
  std::string scheme = "world";
  std::string id = "anyone";
};
using AclEntries = std::optional<std::vector<AclEntry>>;

// `op` is one of the creates.
Request MakeCreate(wire::OpCode op, const Text& path, const Text& data, const AclEntries& acl,
                   int32_t flags, int64_t ttl_ms = 0);
// delete, check.
Request MakeVersioned(wire::OpCode op, const Text& path, int32_t version);
Request MakeSetData(const Text& path, const Text& data, int32_t version);
Request MakeSetAcl(const Text& path, const AclEntries& acl, int32_t version);
// exists, getData, getChildren, getChildren2.
Request MakeRead(wire::OpCode op, const Text& path, bool watch);
// getACL, sync, getEphemerals, getAllChildrenNumber.
Request MakePathOnly(wire::OpCode op, const Text& path);
// addWatch, with a mode; checkWatches and removeWatches, with a type.
Request MakeWatch(wire::OpCode op, const Text& path, int32_t mode_or_type);
Request MakeAuth(const Text& scheme, const Text& credentials);
// setWatches (three lists), setWatches2 (five). `relative_zxid`: nullopt for the last zxid that the
// client has seen.
Request MakeSetWatches(wire::OpCode op, std::optional<int64_t> relative_zxid,
                       const std::vector<std::vector<std::string>>& lists);
// multi, multiRead.
Request MakeMulti(wire::OpCode op, const std::vector<Request>& items);
Request MakeReconfig(const Text& joining, const Text& leaving, const Text& members,
                     int64_t configuration);
// ping, whoAmI, closeSession, and unknown operations.
Request MakeEmpty(wire::OpCode op);

}  // namespace quorate::differential
