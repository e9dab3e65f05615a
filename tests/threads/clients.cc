// SPDX-License-Identifier: Apache-2.0

#include "tests/threads/clients.h"

#include <cstdio>

namespace quorate::threads {

void Load::Wrong(const std::string& what) {
  wrong.fetch_add(1);
  std::fprintf(stderr, "WRONG %s\n", what.c_str());
}

std::string NodePath(int number) { return "/n" + std::to_string(number); }

}  // namespace quorate::threads
