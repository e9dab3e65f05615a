// SPDX-License-Identifier: Apache-2.0

#include "tools/cli/defaults.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace quorate::tools {
namespace {

// A program with options like those of quorate.
struct Program {
  Program() {
    app.add_option("--server", server)->envname("DEFAULTS_TEST_SERVER");
    app.add_flag("--json", json);
    CLI::App* shell = app.add_subcommand("shell", "");
    shell->add_option("--timeout", timeout)->check(CLI::Range(1, 60));
    CLI::App* dump = app.add_subcommand("log", "")->add_subcommand("dump", "");
    dump->add_flag("--data", data);
  }
  std::string Message(const std::string& text) {
    return std::string(ApplyDefaultsText("conf", text, &app).message());
  }

  CLI::App app;
  std::string server;
  bool json = false;
  int timeout = 15;
  bool data = false;
};

TEST_CASE("files set defaults of options of the program and of its commands") {
  Program program;
  REQUIRE(program.Message("# comment\n\nserver = a:1,b:1\njson=true\n shell.timeout = 3 \r\n"
                          "log.dump.data = true") == "");
  program.app.parse("shell", false);
  CHECK(program.server == "a:1,b:1");
  CHECK(program.json);
  CHECK(program.timeout == 3);
  CHECK(program.data);
}

TEST_CASE("the command line overrides the environment, and the environment overrides files") {
  Program program;
  REQUIRE(program.Message("server = file:1\nshell.timeout = 3") == "");
  SECTION("command line") {
    program.app.parse("--server given:1 shell --timeout 4", false);
    CHECK(program.server == "given:1");
    CHECK(program.timeout == 4);
  }
  SECTION("environment") {
    setenv("DEFAULTS_TEST_SERVER", "environment:1", 1);
    program.app.parse("shell", false);
    unsetenv("DEFAULTS_TEST_SERVER");
    CHECK(program.server == "environment:1");
  }
}

TEST_CASE("an error in a file is reported with its line") {
  Program program;
  CHECK(program.Message("\nsever = a:1") ==
        "conf:2: sever: there is no such option; did you mean server?");
  CHECK(program.Message("help = true").find("conf:1: help: there is no such option") == 0);
  CHECK(program.Message("server a:1") == "conf:1: \"server a:1\" is not key = value");
  CHECK(program.Message("shell.timeout = 0").find("conf:1: shell.timeout: \"0\" is refused") == 0);
  CHECK(program.Message("json = perhaps").find("conf:1: json: \"perhaps\" is refused") == 0);
}

TEST_CASE("a file that QUORATE_CONFIG names must exist, another file need not") {
  Program program;
  CHECK(ApplyDefaults({"/none/config", false}, &program.app).ok());
  CHECK(ApplyDefaults({"/none/config", true}, &program.app).message() ==
        "/none/config: the defaults of options cannot be read: No such file or directory; "
        "QUORATE_CONFIG names that file");
}

}  // namespace
}  // namespace quorate::tools
