// SPDX-License-Identifier: Apache-2.0

#include "rpc/quorated/open_paths.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace quorate::rpc {
namespace {

std::string TestPath(const std::string& name) {
  return std::string(std::getenv("TEST_TMPDIR")) + "/" + name;
}

std::string MakeDirectory(const std::string& name, mode_t mode) {
  std::string path = TestPath(name);
  mkdir(path.c_str(), 0700);
  REQUIRE(chmod(path.c_str(), mode) == 0);
  return path;
}

std::string MakeFile(const std::string& name, mode_t mode, const std::string& text = "x") {
  std::string path = TestPath(name);
  std::ofstream(path) << text;
  REQUIRE(chmod(path.c_str(), mode) == 0);
  return path;
}

// Returns the commands that repair what is open.
std::vector<std::string> Repairs(const Config& config, const std::string& text = "") {
  std::vector<std::string> repairs;
  for (const OpenPath& open : FindOpenPaths(config, text)) repairs.push_back(open.repair);
  return repairs;
}

using Texts = std::vector<std::string>;

TEST_CASE("a directory of data that others can reach is found once, with its repair") {
  Config config;
  config.data_dir = config.log_dir = MakeDirectory("data", 0755);
  const std::vector<OpenPath> found = FindOpenPaths(config, "");
  REQUIRE(found.size() == 1);
  CHECK(found[0].path == config.data_dir);
  CHECK(found[0].mode == 0755);
  CHECK(found[0].repair == "chmod 700 " + config.data_dir);
  config.log_dir = MakeDirectory("log", 0750);
  CHECK(Repairs(config) == Texts{"chmod 700 " + config.data_dir, "chmod 700 " + config.log_dir});
  chmod(config.data_dir.c_str(), 0700);
  chmod(config.log_dir.c_str(), 0700);
  CHECK(Repairs(config).empty());
  config.log_dir = TestPath("missing");
  CHECK(Repairs(config).empty());
}

TEST_CASE("secrets that users outside the group can read are found") {
  Config config;
  config.ssl_key_store = MakeFile("server.pem", 0644);
  config.quorum_ssl_key_store = MakeFile("member.pem", 0640);
  config.member_secret_file = MakeFile("secret", 0604);
  config.jaas_file = MakeFile("jaas.conf", 0600);
  CHECK(Repairs(config) ==
        Texts{"chmod o-rwx " + config.ssl_key_store, "chmod o-rwx " + config.member_secret_file});
}

TEST_CASE("a configuration file that others can read is found if it has a password") {
  Config config;
  config.file = MakeFile("zoo.cfg", 0644);
  CHECK(Repairs(config, "dataDir=/x\nssl.keyStore.passwordPath=/y\n# password=z\n").empty());
  for (const char* text : {"dataDir=/x\n ssl.keyStore.password = z\n", "ssl.keyStore.password: z\n",
                           "ssl.keyStore.password z\n", "ssl.keyStore.pass\\\n  word=z\n",
                           "ssl.keyStore\\.password=z"}) {
    CAPTURE(text);
    CHECK(Repairs(config, text) == Texts{"chmod o-rwx " + config.file});
  }
  CHECK(Repairs(config, "dataDir=/password\n! password: z\n").empty());
  config.file = MakeFile("zoo.cfg", 0640);
  CHECK(Repairs(config, "ssl.keyStore.password=z\n").empty());
}

}  // namespace
}  // namespace quorate::rpc
