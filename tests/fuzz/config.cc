// SPDX-License-Identifier: Apache-2.0

// The text of a configuration file.
#include "rpc/config/config.h"

#include <string>

#include "absl/status/statusor.h"
#include "base/assert.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {

void Run(Input input) {
  const auto config = rpc::ParseConfig(
      "zoo.cfg", input.rest(),
      [](const std::string&) -> absl::StatusOr<std::string> { return std::string("1\n"); });
  if (!config.ok()) {
    ASSERT(!config.status().message().empty());
    return;
  }
  ASSERT(config->min_session_timeout_ms > 0);
  ASSERT(config->min_session_timeout_ms <= config->max_session_timeout_ms);
  ASSERT(config->standalone() || config->servers.contains(config->my_id));
}

}  // namespace quorate::fuzz
