// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/disk/free_space.h"

#include <catch2/catch.hpp>
#include <optional>

namespace quorate::rpc {
namespace {

TEST_CASE("free space is measured; for a missing path the result is empty") {
  CHECK(MeasureFreeBytes("/").has_value());
  CHECK(MeasureFreeBytes("/no such directory") == std::nullopt);
}

}  // namespace
}  // namespace quorate::rpc
