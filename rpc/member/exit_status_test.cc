// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/exit_status.h"

#include <catch2/catch.hpp>

namespace quorate::rpc {
namespace {

TEST_CASE("an exit status travels with an error, and not without one") {
  const absl::Status error = absl::NotFoundError("gone");
  CHECK(ExitStatusOf(absl::OkStatus()) == ExitStatus::kOk);
  CHECK(ExitStatusOf(error) == ExitStatus::kError);
  const absl::Status known = WithExitStatus(error, ExitStatus::kPeerPort);
  CHECK(ExitStatusOf(known) == ExitStatus::kPeerPort);
  CHECK(known.code() == error.code());
  CHECK(known.message() == error.message());
  CHECK(ExitStatusOf(WithExitStatus(absl::OkStatus(), ExitStatus::kPeerPort)) == ExitStatus::kOk);
}

}  // namespace
}  // namespace quorate::rpc
