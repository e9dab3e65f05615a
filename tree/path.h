// The rules of znode paths.
#pragma once

#include <string_view>

namespace quorate::tree {

// Returns whether `path` is legal: starts with '/', no empty, "." or ".." segment, no trailing '/',
// no control characters, surrogates, private use or specials (ZooKeeper's PathUtils.validatePath),
// valid UTF-8 or not. With `sequential` a suffix will follow, so that "/a/" is legal too.
bool IsValidPath(std::string_view path, bool sequential = false);

// "/a/b" -> "/a", "/a" -> "/". REQUIRES: path is legal and not "/".
std::string_view ParentPath(std::string_view path);
// "/a/b" -> "b". REQUIRES: path starts with '/'.
std::string_view LastSegment(std::string_view path);

}  // namespace quorate::tree
