// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/fatal_error.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>

namespace quorate::rpc {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

// Runs `function` in a child process. Returns its status, as waitpid reports it.
int EndOf(const std::function<void()>& function) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGABRT, SIG_DFL);  // Catch handles it
    function();
    std::_Exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

TEST_CASE("an abort ends a process with status 1 only while aborts are reported") {
  const auto is_reported = [](int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 1; };
  const auto is_aborted = [](int status) {
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  };
  CHECK(is_reported(EndOf([] {
    const ReportedAborts reported("a library gave up");
    std::abort();
  })));
  CHECK(is_aborted(EndOf([] {
    { const ReportedAborts reported("a library gave up"); }
    std::abort();
  })));
  CHECK(is_aborted(EndOf([] {
    const ReportedAborts reported("a library gave up");
    DoNotReportAbort();
    std::abort();
  })));
}

TEST_CASE("an error of the system is reported with what to do about it") {
  const std::string files = WithAdvice("/d/identity: cannot open: Too many open files");
  CHECK_THAT(files, StartsWith("/d/identity: cannot open: Too many open files; raise the limit"));
  CHECK_THAT(WithAdvice("/d/log: cannot open: Permission denied"),
             Contains("run the server as the user that owns its files"));
  CHECK_THAT(WithAdvice("IO error: While fsync: a directory: Input/output error"),
             Contains("dmesg"));
}

TEST_CASE("a port that may not be used is told apart from a file") {
  CHECK_THAT(WithAdvice("cannot listen for clients on *:21: Permission denied"),
             Contains("CAP_NET_BIND_SERVICE"));
}

TEST_CASE("a message that has advice for its reason, or no reason of the system, stays as it is") {
  for (const std::string message :
       {"/d: No space left on device. The disk is full. Free some space on the disks of /d",
        "zoo.cfg:2: clinetPort: not a key that this server knows"}) {
    CHECK(WithAdvice(message) == message);
  }
}

}  // namespace
}  // namespace quorate::rpc
