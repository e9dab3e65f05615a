// SPDX-License-Identifier: Apache-2.0

#include "tools/cli/command_line.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <functional>
#include <string>

#include "absl/status/status.h"

namespace quorate::tools {
namespace {

// Returns what `function` writes to standard error.
std::string ErrorsOf(const std::function<void()>& function) {
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  std::fflush(stderr);
  const int original = dup(STDERR_FILENO);
  REQUIRE(dup2(fileno(file), STDERR_FILENO) >= 0);
  function();
  std::fflush(stderr);
  REQUIRE(dup2(original, STDERR_FILENO) >= 0);
  close(original);
  std::rewind(file);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

}  // namespace

TEST_CASE("control sequences in an error message are escaped") {
  CommandLine command_line;
  command_line.Add(command_line.root(), "fail", "Fails", [] {
    // An example is the id of a lock's holder. This one has a terminal title, a C1 character and a
    // byte that is not UTF-8.
    return absl::FailedPreconditionError("held by \x1b]0;owned\x07 \xc2\x9b\x31m \x9b\x31m\nnext");
  });
  const char* const arguments[] = {"quorate", "fail"};
  int status = 0;
  const std::string errors = ErrorsOf([&] { status = command_line.Run(2, arguments); });
  CHECK(status == 1);
  CHECK(errors == "quorate fail: held by \\x1b]0;owned\\x07 \\xc2\\x9b1m \\x9b1m\nnext\n");
}

TEST_CASE("the message about an unknown command escapes control characters") {
  CommandLine command_line;
  const char* const arguments[] = {"quorate", "\x1b[31m"};
  const std::string errors = ErrorsOf([&] { command_line.Run(2, arguments); });
  CHECK(errors.find('\x1b') == std::string::npos);
}

}  // namespace quorate::tools
