// SPDX-License-Identifier: Apache-2.0

// Writes the files that are generated from the table of configuration keys (config_reference.h) to
// the source tree from which Bazel runs this program.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "rpc/config/config_reference.h"

namespace {

bool Write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file) std::fprintf(stderr, "%s cannot be written\n", path.c_str());
  return file.good();
}

}  // namespace

int main() {
  const char* root = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  if (root == nullptr) {
    std::fprintf(stderr, "run this program as: %s\n", quorate::rpc::kWriteConfigReference);
    return 2;
  }
  const std::string page_path = std::string(root) + "/" + quorate::rpc::kConfigPagePath;
  std::ifstream file(page_path, std::ios::binary);
  const auto page = quorate::rpc::UpdatedConfigPage(
      std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
  if (!page.ok()) {
    std::fprintf(stderr, "%s\n", std::string(page.status().message()).c_str());
    return 1;
  }
  const std::string sample_path = std::string(root) + "/" + quorate::rpc::kConfigSamplePath;
  return Write(page_path, *page) && Write(sample_path, quorate::rpc::SampleConfig()) ? 0 : 1;
}
