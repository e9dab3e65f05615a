// SPDX-License-Identifier: Apache-2.0

#include "rpc/quorated/log_format.h"

#include <catch2/catch.hpp>

namespace quorate::rpc {
namespace {

TEST_CASE("the form of the log is found as the parser of the configuration finds it") {
  CHECK_FALSE(WantsJsonLog(""));
  CHECK_FALSE(WantsJsonLog("tickTime=2000\nno setting\n"));
  CHECK(WantsJsonLog("tickTime=2000\nlog.format=json\n"));
  CHECK(WantsJsonLog("  log.format : js\\\n   on  "));
  CHECK(WantsJsonLog("log.format json"));
  CHECK_FALSE(WantsJsonLog("#log.format=json\n"));
  CHECK_FALSE(WantsJsonLog("x=\\\nlog.format=json\n"));
  CHECK_FALSE(WantsJsonLog("log.format=json\nlog.format=text\n"));
  CHECK_FALSE(WantsJsonLog("log.format=jsonl\n"));
  CHECK_FALSE(WantsJsonLog("log.format=\\u006ason\n"));
}

}  // namespace
}  // namespace quorate::rpc
