// SPDX-License-Identifier: Apache-2.0

#include "base/assert.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <string>

#include "base/assertion_hook.h"

namespace quorate {
namespace {

int hook_descriptor = -1;

void Hook() {
  if (write(hook_descriptor, "hook\n", 5) != 5) _exit(1);
}

struct Pipe {
  Pipe() { REQUIRE(pipe(ends.data()) == 0); }
  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }
  // Fills the pipe, so that a write of one more byte would block.
  void Fill() const {
    REQUIRE(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    while (write(ends[1], "x", 1) == 1) {
    }
    REQUIRE(fcntl(ends[1], F_SETFL, 0) == 0);
  }
  std::string Read() const {
    char bytes[4096];
    const ssize_t size = read(ends[0], bytes, sizeof(bytes));
    REQUIRE(size >= 0);
    return std::string(bytes, static_cast<size_t>(size));
  }
  std::array<int, 2> ends{};
};

// Fails an assertion in a child process whose stderr is `stderr_pipe`. Returns the number of the
// signal that ended the child.
int FailIn(const Pipe& stderr_pipe) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGABRT, SIG_DFL);
    dup2(stderr_pipe.ends[1], STDERR_FILENO);
    SetAssertionHook(Hook);
    const int one = 1;
    ASSERT(one == 2, "it never is");
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST_CASE("a failed assertion calls the hook, prints its place, and aborts") {
  const Pipe messages;
  const Pipe hook;
  hook_descriptor = hook.ends[1];
  CHECK(FailIn(messages) == SIGABRT);
  CHECK(hook.Read() == "hook\n");
  // The message has the format of a line of the program's log.
  CHECK_THAT(
      messages.Read(),
      Catch::Matches(
          R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d critical \S*assert_test\.cc:\d+: )"
          R"(assertion failed: one == 2: it never is\n)"));
}

TEST_CASE("a failed assertion aborts even if its message cannot be written") {
  const Pipe messages;
  const Pipe hook;
  hook_descriptor = hook.ends[1];
  messages.Fill();
  CHECK(FailIn(messages) == SIGABRT);
  CHECK(hook.Read() == "hook\n");
}

}  // namespace
}  // namespace quorate
