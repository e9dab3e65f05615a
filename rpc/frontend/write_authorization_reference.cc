// SPDX-License-Identifier: Apache-2.0

// Writes docs/reference/authorization.md, which is generated from the table of operations
// (authorization.h), to the source tree from which Bazel runs this program.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "rpc/frontend/authorization.h"

int main() {
  const char* root = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  if (root == nullptr) {
    std::fprintf(stderr, "run this program as: %s\n", quorate::rpc::kWriteAuthorizationReference);
    return 2;
  }
  const std::string path = std::string(root) + "/" + quorate::rpc::kAuthorizationPagePath;
  std::ofstream file(path, std::ios::binary);
  file << quorate::rpc::AuthorizationPage() << std::flush;
  if (!file) std::fprintf(stderr, "%s cannot be written\n", path.c_str());
  return file.good() ? 0 : 1;
}
