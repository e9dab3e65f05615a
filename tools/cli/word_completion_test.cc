// SPDX-License-Identifier: Apache-2.0

#include "tools/cli/word_completion.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace quorate::tools {
namespace {

using Names = std::vector<std::string>;

struct Program {
  Program() {
    app.add_option("--server", server);
    app.add_flag("--json", json);
    CLI::App* shell = app.add_subcommand("shell", "");
    shell->add_option("--timeout", timeout);
    shell->add_option("command", words);
    CLI::App* log = app.add_subcommand("log", "");
    log->add_subcommand("dump", "")->add_flag("--data", json);
    app.add_subcommand("hidden", "")->group("");
  }
  Names At(const std::string& line) const {
    const TypedWords typed = SplitTyped(line);
    return NamesAt(app, PlaceOf(app, typed.words), typed.last);
  }

  CLI::App app;
  std::string server;
  bool json = false;
  int timeout = 0;
  Names words;
};

TEST_CASE("commands are completed, except hidden ones") {
  Program program;
  CHECK(program.At("quorate ") == Names{"help", "log", "shell"});
  CHECK(program.At("quorate l") == Names{"log"});
  CHECK(program.At("quorate log ") == Names{"dump"});
  CHECK(program.At("quorate help lo") == Names{"log"});
  CHECK(program.At("quorate --server a:1 s") == Names{"shell"});
}

TEST_CASE("options of a command and of the program are completed, but not their values") {
  Program program;
  CHECK(program.At("quorate --s") == Names{"--server"});
  CHECK(program.At("quorate shell --") == Names{"--help", "--json", "--server", "--timeout"});
  CHECK(program.At("quorate log dump --d") == Names{"--data"});
  CHECK(program.At("quorate shell --timeout ").empty());
  CHECK(program.At("quorate shell --timeout=3 --ser") == Names{"--server"});
}

TEST_CASE("words behind -- or behind a command's name are arguments") {
  Program program;
  CHECK(program.At("quorate shell -- --").empty());
  const TypedWords typed = SplitTyped("quorate --json shell -- get -s '/a b");
  CHECK(typed.last == "/a b");
  const TypedPlace place = PlaceOf(program.app, typed.words);
  CHECK(place.command->get_name() == "shell");
  CHECK(place.arguments == Names{"get", "-s"});
}

}  // namespace
}  // namespace quorate::tools
