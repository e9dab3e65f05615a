// SPDX-License-Identifier: Apache-2.0

#include "rpc/config/config_reference.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>

#include "rpc/config/config_keys.h"

namespace quorate::rpc {
namespace {

absl::StatusOr<std::string> NoFile(const std::string& path) { return absl::NotFoundError(path); }

std::string Contents(const char* path) {
  std::ifstream file(path, std::ios::binary);
  INFO(path);
  REQUIRE(file);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

TEST_CASE("the page and the sample agree with the table of keys") {
  const std::string page = Contents(kConfigPagePath);
  const std::string sample = Contents(kConfigSamplePath);
  const absl::StatusOr<std::string> updated = UpdatedConfigPage(page);
  INFO(updated.status().message());
  REQUIRE(updated.ok());
  INFO("the files differ from rpc/config/config_keys.cc; run\n" << kWriteConfigReference);
  // Does not use CHECK(page == *updated), which would show both files as a whole.
  const bool is_page_current = page == *updated;
  const bool is_sample_current = sample == SampleConfig();
  CHECK(is_page_current);
  CHECK(is_sample_current);
}

TEST_CASE("a page without the line above its tables is an error") {
  const absl::Status status = UpdatedConfigPage("# Configuration keys\n").status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(status.message()).find("docs/reference/configuration.md: there is no line") ==
        0);
}

TEST_CASE("the sample is a configuration of one server") {
  const absl::StatusOr<Config> config = ParseConfig("zoo.cfg", SampleConfig(), NoFile);
  INFO(config.status().message());
  REQUIRE(config.ok());
  CHECK(config->standalone());
  CHECK(config->data_dir == "/var/lib/quorate");
  CHECK(config->ClientEndpoint() == "*:2181");
  CHECK(config->warnings.empty());
}

TEST_CASE("each commented-out key of the sample is valid") {
  const std::string sample = SampleConfig();
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.is_required) continue;
    const std::string name(key.name == kServerKey ? "server.1" : key.name);
    const size_t begin = sample.find("\n#" + name + "=");
    INFO(name);
    REQUIRE(begin != std::string::npos);
    const std::string line = sample.substr(begin + 2, sample.find('\n', begin + 2) - begin - 1);
    // A port with TLS needs stores.
    const std::string stores =
        name.starts_with("ssl.") ? "" : "ssl.keyStore.location=/k\nssl.trustStore.location=/t\n";
    const std::string port =
        name == "secureClientPortAddress" ? "secureClientPort=2\n" : "";  // no effect without
    const auto members = [](const std::string&) -> absl::StatusOr<std::string> {
      return std::string("server.1=a:1:2\n");
    };
    const absl::StatusOr<Config> config =
        ParseConfig("zoo.cfg", "dataDir=/d\nclientPort=1\n" + stores + port + line, members);
    INFO(config.status().message());
    REQUIRE(config.ok());
    CHECK(config->warnings.empty());
  }
}

TEST_CASE("a default that the table does not state is that of a Config, with its unit") {
  const std::string page = *UpdatedConfigPage("<!-- generated -->\n");
  for (const std::string row : {"| `tickTime` | 3000 ms | 1 ms to 1 h | the unit ",
                                "| `minSessionTimeout` | 2 ticks | -1 to 2^31-1 ms | ",
                                "| `eventHistoryBytes` | 8 MiB | 0 to 1 GiB | ",
                                "| `jute.maxbuffer` | 1,048,575 bytes | 1 KiB to 60 MiB | ",
                                "| `diskReserveMb` | two log files | 0 to 2^20 MiB | ",
                                "| `staleReadLimitMs` | `syncLimit` ticks; 5 ticks without a "
                                "`syncLimit` | 1 ms to 24 h, or "
                                "-1 | ",
                                "| `skipACL` | no | yes, no | ", "[:participant\\|:observer]"}) {
    INFO(row);
    CHECK(page.find(row) != std::string::npos);
  }
}

}  // namespace
}  // namespace quorate::rpc
