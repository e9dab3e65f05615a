// SPDX-License-Identifier: Apache-2.0

#include "tools/administration/member_command.h"

#include <catch2/catch.hpp>

namespace quorate::tools {
namespace {

TEST_CASE("the report of a change says its state and the reason") {
  v1::MemberChange change;
  CHECK(ChangeReport(change) == "No change of the members was begun since this leader leads.\n");
  change.set_state(v1::MEMBER_CHANGE_STATE_RUNNING);
  change.set_what("member 3 is removed");
  CHECK(ChangeReport(change) == "Running: member 3 is removed.\n");
  change.set_detail("a majority of the voters has to acknowledge it");
  CHECK(ChangeReport(change) ==
        "Running: member 3 is removed.\nWaits: a majority of the voters has to acknowledge it.\n");
  change.set_state(v1::MEMBER_CHANGE_STATE_DONE);
  CHECK(ChangeReport(change) == "Done: member 3 is removed.\n");
  change.set_state(v1::MEMBER_CHANGE_STATE_FAILED);
  change.set_detail("too few voters");
  CHECK(ChangeReport(change) == "Failed: member 3 is removed.\nWhy: too few voters.\n");
}

}  // namespace
}  // namespace quorate::tools
