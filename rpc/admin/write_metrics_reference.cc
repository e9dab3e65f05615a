// SPDX-License-Identifier: Apache-2.0

// Writes docs/reference/metrics.md, which is generated from the tables of metrics, to the source tree
// from which Bazel runs this program.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "rpc/admin/metrics_reference.h"

int main() {
  using quorate::rpc::admin::kMetricsReferencePath;
  const char* root = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  if (root == nullptr) {
    std::fprintf(stderr, "run this program as: %s\n", quorate::rpc::admin::kWriteMetricsReference);
    return 2;
  }
  const std::string path = std::string(root) + "/" + kMetricsReferencePath;
  std::ofstream file(path, std::ios::binary);
  file << quorate::rpc::admin::MetricsReference() << std::flush;
  if (!file) std::fprintf(stderr, "%s cannot be written\n", path.c_str());
  return file.good() ? 0 : 1;
}
