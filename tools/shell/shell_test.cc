// SPDX-License-Identifier: Apache-2.0

#include "tools/shell/shell.h"

#include <catch2/catch.hpp>

#include "base/escape.h"
#include "tools/shell/completion.h"
#include "tools/shell/printing.h"
#include "tools/shell/walk.h"

namespace quorate::tools::shell {
namespace {

using Words = std::vector<std::string>;

TEST_CASE("A line has words, quotes and backslashes") {
  CHECK(*SplitWords("  create /a  'b c' \"d 'e\" f\\ g \"\"") ==
        Words{"create", "/a", "b c", "d 'e", "f g", ""});
  CHECK(SplitWords("")->empty());
  CHECK(absl::IsInvalidArgument(SplitWords("get 'open").status()));
  CHECK(absl::IsInvalidArgument(SplitWords("get \"open").status()));
  CHECK(absl::IsInvalidArgument(SplitWords("get /a\\").status()));
  CHECK(absl::IsInvalidArgument(SplitWords("\\").status()));
  CHECK(*SplitWords("a\\\\") == Words{"a\\"});
}

TEST_CASE("Access control lists are parsed and printed") {
  auto acls = ParseAcls("world:anyone:r,digest:bob:a:b=:cdrwa,ip:10.0.0.0/8:wr,auth::c");
  REQUIRE(acls.ok());
  CHECK(*acls == std::vector<Acl>{{1, "world", "anyone"},
                                  {31, "digest", "bob:a:b="},
                                  {3, "ip", "10.0.0.0/8"},
                                  {4, "auth", ""}});
  CHECK(ToText(*acls) ==
        "'world,'anyone\n: r\n'digest,'bob:a:b=\n: cdrwa\n'ip,'10.0.0.0/8\n: rw\n'auth,'\n: c");
  for (const char* wrong : {"", "world", "world:anyone", "world:anyone:x", "a:b:r,", ",a:b:r"}) {
    INFO(wrong);
    CHECK(absl::IsInvalidArgument(ParseAcls(wrong).status()));
  }
}

TEST_CASE("an id in an access control list cannot forge another entry") {
  const Acl acl = {
      .permissions = 1, .scheme = "digest", .id = "bob\n: cdrwa\n'world,'anyone\x1b[2J"};
  CHECK(ToText({acl}) == "'digest,'bob\\n: cdrwa\\n'world,'anyone\\x1b[2J\n: r");
}

TEST_CASE("Paths are joined and split at the root, too") {
  CHECK(ChildPath("/", "a") == "/a");
  CHECK(ChildPath("/a", "b") == "/a/b");
  CHECK(ParentPath("/a/b") == "/a");
  CHECK(ParentPath("/a") == "/");
  CHECK(ParentPath("/") == "/");
}

TEST_CASE("Control characters are escaped, and text of any language is unchanged") {
  CHECK(EscapeControls("a\x1b[2J\x7f\nb\tc") == "a\\x1b[2J\\x7f\nb\tc");
  CHECK(EscapeControls("\xc3\xa4") == "\xc3\xa4");
}

TEST_CASE("Data that is not UTF-8 is base64 in JSON") {
  nlohmann::ordered_json object;
  PutData("\xc3\xa4", &object);
  PutData("\xff", &object);
  CHECK(Dump(object) == "{\"data\":\"\xc3\xa4\",\"data_base64\":\"/w==\"}");
  CHECK(Dump("\xff") == "\"\xef\xbf\xbd\"");
}

struct ShellFixture {
  Console console{false};
  Shell shell{ShellOptions{}, &console};

  absl::StatusOr<Invocation> Parse(const std::string& line) {
    const Words words = *SplitWords(line);
    return Invocation::Parse(*FindCommand(words.front()), shell, {words.begin() + 1, words.end()});
  }
  Words Candidates(const std::string& line) {
    Words words;
    for (const Candidate& candidate : Complete(shell, line).candidates) {
      words.push_back(candidate.word);
    }
    return words;
  }
};

TEST_CASE_METHOD(ShellFixture, "Options may be at any position, and combined") {
  auto create = Parse("create -se /a -t 5 data");
  REQUIRE(create.ok());
  CHECK(create->Has('s'));
  CHECK(create->Has('e'));
  CHECK(**create->Number('t') == 5);
  CHECK(create->path() == "/a");
  CHECK(create->argument(1) == "data");
  CHECK_FALSE(create->argument(2).has_value());
  CHECK(Parse("set /a -- -5")->argument(1) == "-5");
  CHECK(Parse("ls /a//")->path() == "/a");
  CHECK(Parse("ls /")->path() == "/");
  CHECK(absl::IsInvalidArgument(Parse("ls -z /a").status()));
  CHECK(absl::IsInvalidArgument(Parse("ls").status()));
  CHECK(absl::IsInvalidArgument(Parse("ls /a /b").status()));
  CHECK(absl::IsInvalidArgument(Parse("set -v x /a b")->Version().status()));
  CHECK(absl::IsInvalidArgument(Parse("set -v 3000000000 /a b")->Version().status()));
  CHECK_FALSE(Parse("set -v -1 /a b")->Version()->has_value());
}

TEST_CASE_METHOD(ShellFixture, "Words of commands and options are completed") {
  CHECK(Candidates("delet") == Words{"delete", "deleteall"});
  CHECK(Candidates("help pri") == Words{"printwatches"});
  CHECK(Candidates("ls -") == Words{"-s", "-w", "-R"});
  CHECK(Candidates("addWatch -m PERSISTENT_") == Words{"PERSISTENT_RECURSIVE"});
  CHECK(Candidates("nonsense -").empty());
  CHECK(Candidates("ls 'op").empty());
  // Without a session no paths are completed.
  CHECK(Candidates("ls /").empty());
  CHECK(Complete(shell, "get /with\\ space").word_begin == 4);
}

TEST_CASE("All commands have different names, and help") {
  CHECK(SimilarCommands("creat") == Words{"create"});
  CHECK(SimilarCommands("GETACL") == Words{"getAcl"});
  CHECK(SimilarCommands("xyzzy").empty());
  for (const Command& command : Commands()) {
    INFO(command.name);
    CHECK(FindCommand(command.name) == &command);
    CHECK(command.run != nullptr);
    CHECK_FALSE(command.summary.empty());
    CHECK_FALSE(command.example.empty());
    CHECK(command.arguments_min <= command.arguments_max);
  }
}

}  // namespace
}  // namespace quorate::tools::shell
