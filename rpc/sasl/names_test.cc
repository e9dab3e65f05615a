// SPDX-License-Identifier: Apache-2.0

#include "rpc/sasl/names.h"

#include <catch2/catch.hpp>
#include <string>

namespace quorate::rpc::sasl {
namespace {

constexpr char kRealm[] = "EXAMPLE.COM";

NameRules Rules(const std::string& text) {
  absl::StatusOr<NameRules> rules = NameRules::Parse(text, kRealm);
  INFO(rules.status().message());
  REQUIRE(rules.ok());
  return *std::move(rules);
}

// Returns the short name, or the text of the error in angle brackets.
std::string Short(const std::string& rules, const std::string& name) {
  const auto parsed = ParseKerberosName(name);
  REQUIRE(parsed.has_value());
  const absl::StatusOr<std::string> found = Rules(rules).ShortName(*parsed);
  return found.ok() ? *found : "<" + std::string(found.status().message()) + ">";
}

TEST_CASE("the parts of Kerberos names") {
  struct Case {
    std::string name, service, host, realm;  // "-": there is none
  };
  for (const Case& one : {Case{"bob", "bob", "-", "-"},
                          {"bob@R", "bob", "-", "R"},
                          {"zk/h.example.com@R", "zk", "h.example.com", "R"},
                          {"a/b/c", "a/b/c", "-", "-"},  // without a realm all is the service
                          {"/@", "", "", ""},
                          {"@R", "", "-", "R"},
                          {"bob@", "bob", "-", ""},
                          {"", "", "-", "-"}}) {
    CAPTURE(one.name);
    const auto parsed = ParseKerberosName(one.name);
    REQUIRE(parsed.has_value());
    CHECK(parsed->service == one.service);
    CHECK(parsed->host.value_or("-") == one.host);
    CHECK(parsed->realm.value_or("-") == one.realm);
  }
  for (const std::string name : {"a@b@c", "a/b/c@R", "a@R/x", "a@@"}) {
    CAPTURE(name);
    CHECK_FALSE(ParseKerberosName(name).has_value());
  }
}

TEST_CASE("rules of auth_to_local give short names") {
  struct Case {
    std::string rules, name, wanted;
  };
  const std::string none = "<no rule applies>";
  const std::string bad = "<a rule gives a name with / or @>";
  for (const Case& one : {
           Case{"DEFAULT", "bob@EXAMPLE.COM", "bob"},
           {"DEFAULT", "zk/host@EXAMPLE.COM", "zk"},
           {"DEFAULT", "bob@OTHER", none},
           {"DEFAULT", "bob", "bob"},
           {"", "bob@EXAMPLE.COM", none},
           {"RULE:[1:$1]", "bob@OTHER", "bob"},
           {"RULE:[1:$1]", "zk/host@OTHER", none},
           {"RULE:[2:$1]", "zk/host@OTHER", "zk"},
           {"RULE:[2:$1;$2;$0]", "zk/host@OTHER", "zk;host;OTHER"},
           {"RULE:[1:$1@$0](.*@OTHER)s/@.*//", "bob@OTHER", "bob"},
           {"RULE:[1:$1@$0](.*@OTHER)s/@.*//", "bob@THIRD", none},
           {"RULE:[1:$1@$0](OTHER)s/@.*//", "bob@OTHER", none},  // has to match the whole text
           {"RULE:[2:$1](nn)s/.*/hdfs/ RULE:[1:$1] DEFAULT", "nn/h@X", "hdfs"},
           {"RULE:[2:$1](nn)s/.*/hdfs/\nRULE:[2:$1]DEFAULT", "dn/h@X", "dn"},
           {"RULE:[1:$1]s/o/0/", "foo@X", "f0o"},
           {"RULE:[1:$1]s/o/0/g", "foo@X", "f00"},
           {"RULE:[1:$1]s/(f)(o)/$2$1/", "foo@X", "ofo"},
           {"RULE:[1:$1]s/f/\\$1/", "foo@X", "$1oo"},
           {"RULE:[1:$1]s/(f)/$12/", "foo@X", "f2oo"},  // group 1, and a digit
           {"RULE:[1:$1@$0]", "bob@OTHER", bad},
           {"RULE:[1:$1@$0] RULE:[1:$1]", "bob@OTHER", bad},  // the rules after it do not count
           {"RULE:[1:x]", "bob@OTHER", "x"},
       }) {
    CAPTURE(one.rules, one.name);
    CHECK(Short(one.rules, one.name) == one.wanted);
  }
}

TEST_CASE("rules that are not valid are refused with the reason") {
  for (const std::string text : {"default",
                                 "RULE",
                                 "RULE:[1:$1",
                                 "RULE:[x:$1]",
                                 "RULE:[:$1]",
                                 "RULE:[1:$2]",
                                 "RULE:[1:$]",
                                 "RULE:[1:$1](a",
                                 "RULE:[1:$1](*)",
                                 "RULE:[1:$1]s/a",
                                 "RULE:[1:$1]s/a/b",
                                 "RULE:[1:$1]s/(/b/",
                                 "RULE:[1:$1]s/a/$1/",
                                 "RULE:[1:$1]s/a/$x/",
                                 "RULE:[1:$1]s/a/b\\",
                                 "RULE:[1:$1]/L",
                                 "DEFAULT x",
                                 "RULE:[1:$1](a(?=b))",
                                 "RULE:[-1:x]",
                                 "RULE:[99999999999:x]"}) {
    CAPTURE(text);
    const absl::StatusOr<NameRules> rules = NameRules::Parse(text, kRealm);
    CHECK(rules.status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("ids have the host and the realm unless they are removed") {
  struct Case {
    bool host, realm;
    std::string name, wanted;
  };
  for (const Case& one : {Case{false, false, "zk/h@EXAMPLE.COM", "zk/h@EXAMPLE.COM"},
                          {true, false, "zk/h@EXAMPLE.COM", "zk@EXAMPLE.COM"},
                          {false, true, "zk/h@EXAMPLE.COM", "zk/h"},
                          {true, true, "zk/h@EXAMPLE.COM", "zk"},
                          {true, true, "bob", "bob"},
                          {false, false, "bob", "bob"},
                          {true, true, "zk/h@OTHER", "zk/h@OTHER"}}) {  // no rule applies
    CAPTURE(one.name, one.host, one.realm);
    const IdMapping ids(Rules("DEFAULT"), one.host, one.realm);
    CHECK(ids.IdOf(one.name, "").value_or("") == one.wanted);
  }
}

TEST_CASE("a client does not choose its id by the name that it wants to act as") {
  const IdMapping ids(Rules("DEFAULT"), /*removes_host=*/false, /*removes_realm=*/false);
  CHECK(ids.IdOf("bob", "super").value_or("") == "bob");
  CHECK(ids.IdOf("bob@EXAMPLE.COM", "super").value_or("") == "bob@EXAMPLE.COM");
  CHECK(ids.IdOf("eve@OTHER", "eve@OTHER").value_or("") == "eve@OTHER");
  CHECK(absl::IsUnauthenticated(ids.IdOf("eve@OTHER", "super").status()));
  CHECK(absl::IsUnauthenticated(ids.IdOf("a@b@c", "").status()));
}

TEST_CASE("long names and patterns that could backtrack take no time") {
  const std::string name = std::string(60'000, 'a') + "!@OTHER";
  CHECK(Short("RULE:[1:$1](a*a*a*a*b) RULE:[1:$1]s/(a*)*[!]/ok/", name) == "ok");
}

}  // namespace
}  // namespace quorate::rpc::sasl
