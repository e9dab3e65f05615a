// Subtrees, read by many requests at a time.
//
// Thread-safety: functions without state; they block.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "client/client.h"

namespace quorate::tools::shell {

// Calls `visit` for `path` and each znode below it, level by level, names in order. It is no
// view of one moment: what is deleted or created meanwhile may or may not be seen. NO_NODE:
// there is no `path`; other errors name the znode whose children could not be read.
absl::Status WalkSubtree(Client& client, const std::string& path,
                         const std::function<void(const std::string&)>& visit);

// "/a/b"; of "/" and "b", "/b".
std::string ChildPath(const std::string& parent, const std::string& name);
// "/a" of "/a/b", "/" of "/a".
std::string ParentPath(const std::string& path);

}  // namespace quorate::tools::shell
