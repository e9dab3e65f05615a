// SPDX-License-Identifier: Apache-2.0

#include "tools/administration/sessions_command.h"

#include <catch2/catch.hpp>
#include <map>
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

TEST_CASE("a list ends where the page of a member ends that may know more clients") {
  const std::vector<v1::Session> all = {SessionOf(1, 1), SessionOf(2, 1), SessionOf(3, 1)};
  v1::ListSessionsResponse page;
  *page.add_sessions() = SessionOf(1, 1, "a");
  *page.add_sessions() = SessionOf(2, 1);
  std::vector<v1::Session> sessions = all;
  CHECK(CutTo(page, &sessions));
  CHECK(sessions.size() == 2);
  CHECK_FALSE(CutTo(page, &sessions));
  CHECK(sessions.size() == 2);
  CHECK_FALSE(CutTo({}, &sessions));
  // A page that ends before the first one tells nothing.
  page.Clear();
  *page.add_sessions() = SessionOf(-9, 1);
  CHECK_FALSE(CutTo(page, &sessions));
  CHECK(sessions.size() == 2);
}

TEST_CASE(
    "a session is closed at the first server that serves, and success means that it was closed") {
  std::map<std::string, absl::StatusOr<bool>> answers;
  std::vector<std::string> asked;
  const auto close = [&] {
    asked.clear();
    return CloseAtAny({"a", "b", "c"}, 31, [&](const std::string& address) {
      asked.push_back(address);
      return answers.at(address);
    });
  };
  answers = {{"a", absl::UnavailableError("a: down")},
             {"b", absl::DeadlineExceededError("b: late")},
             {"c", true}};
  CHECK(close().ok());
  CHECK(asked == std::vector<std::string>{"a", "b", "c"});
  answers.at("c") = false;
  const absl::Status unknown = close();
  CHECK(absl::IsNotFound(unknown));
  CHECK(unknown.message() ==
        "there is no session 0x1f; it is not known whether this command has closed it: b: late");
  answers.at("c") = absl::ResourceExhaustedError("c: full");
  CHECK(close().message() == "c: full");
  answers.at("a") = false;
  CHECK(close().message() == "there is no session 0x1f");
  CHECK(asked == std::vector<std::string>{"a"});
  answers.at("a") = absl::PermissionDeniedError("a: no");
  CHECK(absl::IsPermissionDenied(close()));
  CHECK(asked == std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace quorate::tools
