// SPDX-License-Identifier: Apache-2.0

#include "tools/administration/sessions_command.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace quorate::tools {
namespace {

v1::Session SessionOf(int64_t id, int64_t attach_zxid, const std::string& address = "") {
  v1::Session session;
  session.set_id(id);
  session.set_attach_zxid(attach_zxid);
  if (!address.empty()) session.mutable_client()->set_address(address);
  return session;
}

TEST_CASE("the id of a session is hexadecimal, also a negative one") {
  CHECK(*ParseSessionId("0x1f") == 31);
  CHECK(*ParseSessionId("10") == 16);
  CHECK(*ParseSessionId("0XFFFFFFFFFFFFFFFF") == -1);
  for (const char* text : {"", "0x", "-1", "0x1g", " 1", "0x10000000000000000", "session"}) {
    CHECK(ParseSessionId(text).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("clients are taken from the member that serves them") {
  std::vector<v1::Session> sessions = {SessionOf(-5, 1), SessionOf(2, 10, "old"), SessionOf(9, 3)};
  AddClients(
      {SessionOf(-5, 1, "a"), SessionOf(2, 11, "new"), SessionOf(3, 1, "other"), SessionOf(9, 3)},
      &sessions);
  AddClients({SessionOf(2, 10, "old")}, &sessions);
  REQUIRE(sessions.size() == 3);
  CHECK(sessions[0].client().address() == "a");
  CHECK(sessions[1].client().address() == "new");
  CHECK_FALSE(sessions[2].has_client());
}

}  // namespace
}  // namespace quorate::tools
