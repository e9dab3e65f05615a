// SPDX-License-Identifier: Apache-2.0

// The rules of znode paths.
#pragma once

#include <string_view>

namespace quorate::tree {

// Returns whether `path` is legal, as ZooKeeper's PathUtils.validatePath: it starts with '/', has
// no empty, "." or ".." segment, no trailing '/', and no control characters, surrogates, private
// use characters or specials. Malformed UTF-8 and characters above U+FFFF are illegal too. With
// `sequential`, a number will follow the path, so that "/a/" is legal too.
bool IsValidPath(std::string_view path, bool sequential = false);

// Returns the path without its last segment: "/a" for "/a/b", "/" for "/a". REQUIRES: path is legal
// and not "/".
std::string_view ParentPath(std::string_view path);
// Returns the last segment: "b" for "/a/b". REQUIRES: path starts with '/'.
std::string_view LastSegment(std::string_view path);

}  // namespace quorate::tree
