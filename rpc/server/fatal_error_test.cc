#include "rpc/server/fatal_error.h"

#include <catch2/catch.hpp>

namespace quorate::rpc {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

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
       {"/d: No space left on device. The disk is full. Make room on the disks of /d",
        "zoo.cfg:2: clinetPort: not a key that this server knows"}) {
    CHECK(WithAdvice(message) == message);
  }
}

}  // namespace
}  // namespace quorate::rpc
