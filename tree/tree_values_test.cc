// SPDX-License-Identifier: Apache-2.0

// The data before and after a change, which a listener gets if it wants them.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tree/testing/tree_test_util.h"
#include "tree/tree.h"

namespace quorate::tree {
namespace {

using Strings = std::vector<std::string>;

TEST_CASE("a listener that wants them gets the data before and after each event") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/a", "0"));
  CHECK(server.listener().values.empty());
  server.wants_values = true;
  server.Do(MakeCreate("/a/b", "1"));
  CHECK(server.listener().values == Strings{"none -> 1"});
  server.Do(MakeSetData("/a/b", "2"));
  CHECK(server.listener().values == Strings{"1 -> 2"});
  server.Do(MakeDelete("/a/b"));
  CHECK(server.listener().values == Strings{"2 -> none"});
  // The data before each change, and the data after the whole command.
  server.DoMulti({MakeSetData("/a", "x"), MakeCreate("/c", "y"), MakeSetData("/a", ""),
                  MakeSetData("/c", "z")});
  CHECK(server.events() == Strings{"changed /a", "created /c", "changed /a", "changed /c"});
  CHECK(server.listener().values == Strings{"0 -> ", "none -> z", "x -> ", "y -> z"});
  // A command that fails has no events.
  server.DoMulti({MakeSetData("/a", "lost"), MakeCheck("/none")});
  CHECK(server.listener().values.empty());
  CHECK(server.events().empty());
}

TEST_CASE("data that a command deletes with a session or a subtree are previous data") {
  Server server;
  const Zxid attached = server.OpenSession().zxid;
  server.wants_values = true;
  server.Do(MakeCreate("/e", "of the session", CreateMode::kEphemeral));
  server.EndSession(CommandKind::kCloseSession, kSession, attached);
  CHECK(server.listener().values == Strings{"of the session -> none"});
  server.OpenSession();
  server.DoMulti({MakeCreate("/t", "top"), MakeCreate("/t/a", "A"), MakeCreate("/t/b", "B")});
  Op op = MakeDelete("/t");
  op.kind = OpKind::kDeleteRecursive;
  server.Do(op);
  CHECK(server.events() == Strings{"deleted /t/a", "deleted /t/b", "deleted /t"});
  CHECK(server.listener().values == Strings{"A -> none", "B -> none", "top -> none"});
}

TEST_CASE("a command that changes an ACL says so with the data of all its events") {
  Server server;
  server.OpenSession();
  server.wants_values = true;
  server.Do(MakeCreate("/a", "secret"));
  server.DoMulti({MakeSetAcl("/a", {MakeAcl(1, "world", "anyone"), MakeAcl(31, "digest", "u:p")}),
                  MakeCreate("/b", "open")});
  CHECK(server.listener().values == Strings{"none -> open, with an ACL"});
  server.DoMulti({MakeSetData("/b", "2"), MakeSetAcl("/b", OpenAcl())});
  CHECK(server.listener().values == Strings{"open -> 2, with an ACL"});
  server.Do(MakeSetData("/b", "3"));
  CHECK(server.listener().values == Strings{"2 -> 3"});
}

}  // namespace
}  // namespace quorate::tree
