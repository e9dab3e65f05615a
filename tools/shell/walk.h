// SPDX-License-Identifier: Apache-2.0

// Walks over subtrees, with many requests outstanding at a time.
//
// Thread-safety: functions without state; they block.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "client/client.h"

namespace quorate::tools::shell {

// Calls `visit` for `path` and each znode below it, level by level, names in order. The result is
// not a snapshot: znodes that are created or deleted meanwhile may or may not be visited. NO_NODE:
// `path` does not exist; other errors name the znode whose children could not be read.
absl::Status WalkSubtree(Client& client, const std::string& path,
                         const std::function<void(const std::string&)>& visit);

// Returns the path of a child: "/a/b"; for "/" and "b", "/b".
std::string ChildPath(const std::string& parent, const std::string& name);
// Returns the path of the parent: "/a" of "/a/b", "/" of "/a".
std::string ParentPath(const std::string& path);

}  // namespace quorate::tools::shell
