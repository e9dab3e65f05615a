// SPDX-License-Identifier: Apache-2.0

// Paths of znodes.
#include "tree/path.h"

#include <string>

#include "base/assert.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {

void Run(Input input) {
  const bool sequential = input.Take<uint8_t>() % 2 == 1;
  const std::string_view path = input.rest();
  if (!tree::IsValidPath(path, sequential)) return;
  ASSERT(path.front() == '/');
  ASSERT(!sequential || tree::IsValidPath(std::string(path) + "0000000001"));
  if (sequential || path == "/") return;
  const std::string_view parent = tree::ParentPath(path);
  const std::string_view name = tree::LastSegment(path);
  ASSERT(tree::IsValidPath(parent));
  ASSERT(!name.empty());
  ASSERT(name.find('/') == std::string_view::npos);
  ASSERT((parent == "/" ? "" : std::string(parent)) + "/" + std::string(name) == path);
}

}  // namespace quorate::fuzz
