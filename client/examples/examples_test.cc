// SPDX-License-Identifier: Apache-2.0

// Runs the examples, and checks that they print what client/README.md shows.

#include <catch2/catch.hpp>
#include <cstdio>
#include <sstream>
#include <string>

#include "client/testing/server_fixture.h"

namespace quorate {
namespace {

// Returns the addresses of the server that all examples share. Each example uses its own paths.
const std::string& Servers() {
  static auto servers = testing::ServerFixture::Start({.members = 1});
  INFO(servers.status().ToString());
  REQUIRE(servers.ok());
  static const std::string names = (*servers)->servers();
  return names;
}

// Runs an example, and returns its standard output and errors.
std::string OutputOf(const std::string& example) {
  const std::string command = "client/examples/" + example + " " + Servers() + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  char buffer[4096];
  for (size_t read = 0; (read = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    output.append(buffer, read);
  }
  CAPTURE(command, output);
  CHECK(pclose(pipe) == 0);
  return output;
}

size_t CountOf(const std::string& what, const std::string& text) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// Finds the lines that begin with `beginning`, skips one more character in each, and returns the
// rests of the lines, with a blank after each rest.
std::string LinesOf(const std::string& beginning, const std::string& text) {
  std::istringstream lines(text);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(beginning, 0) == 0) found += line.substr(beginning.size() + 1) + " ";
  }
  return found;
}

}  // namespace

TEST_CASE("basic: creates, reads, lists, and receives events") {
  const std::string output = OutputOf("basic");
  CAPTURE(output);
  CHECK(LinesOf("read:", output) == "v1 ");
  CHECK(LinesOf("child:", output) == "config job-0000000001 worker ");
  // /app/config was set and deleted, and /app/worker created and deleted.
  CHECK(CountOf("changed: /app/config\n", output) == 2);
  CHECK(CountOf("changed: /app/worker\n", output) == 2);
}

TEST_CASE("async: calls keep their order, and a watch reports their changes") {
  const std::string output = OutputOf("async");
  CAPTURE(output);
  CHECK(LinesOf("count:", output) == "1000 ");
  CHECK(LinesOf("it is", output) == "listed ");
  CHECK(LinesOf("changed:", output) == "/count /count ");
}

TEST_CASE("queue: each job is taken once") {
  const std::string output = OutputOf("queue");
  CAPTURE(output);
  for (const char* job : {"1", "2", "3", "4", "5", "6"}) {
    CHECK(CountOf("took job " + std::string(job) + "\n", output) == 1);
  }
  CHECK(LinesOf("6 of 6", output) == "jobs were taken ");
}

TEST_CASE("two_phase_commit: all commit, or all abort") {
  const std::string output = OutputOf("two_phase_commit");
  CAPTURE(output);
  const std::string both = "\"100 from a to b\": commit \"5000 from b to a\": abort ";
  CHECK(LinesOf("bank-a:", output) == both);
  CHECK(LinesOf("bank-b:", output) == both);
  CHECK(LinesOf("coordinator:", output) == "commit abort ");
}

TEST_CASE("service_discovery: calls alternate between the registered instances") {
  const std::string output = OutputOf("service_discovery");
  CAPTURE(output);
  const size_t gone = output.find("the first one is gone\n");
  REQUIRE(gone != std::string::npos);
  const std::string before = output.substr(0, gone), after = output.substr(gone);
  CHECK(CountOf("goes to 10.0.0.1:8080\n", before) >= 1);
  CHECK(CountOf("goes to 10.0.0.2:8080\n", before) >= 1);
  CHECK(CountOf("goes to ", before) == 3);
  CHECK(CountOf("goes to 10.0.0.2:8080\n", after) == 2);
  CHECK(CountOf("goes to ", after) == 2);
}

TEST_CASE("mutex: all writes are accepted") {
  const std::string output = OutputOf("mutex");
  CAPTURE(output);
  CHECK(CountOf("a writes, for the time number ", output) == 2);
  CHECK(CountOf("b writes, for the time number ", output) == 2);
}

TEST_CASE("read_write_lock: every reader reads, and every writer writes") {
  const std::string output = OutputOf("read_write_lock");
  CAPTURE(output);
  CHECK(CountOf("reading: ", output) == 3);
  CHECK(CountOf("written: ", output) == 3);
}

TEST_CASE("leader_election: the next candidate leads when a leader fails") {
  const std::string output = OutputOf("leader_election");
  CAPTURE(output);
  // Each candidate has its own thread: only the lines of one candidate are in a certain order.
  CHECK(LinesOf("anna:", output) == "START OFFER DETERMINE ELECTED FAILED ");
  CHECK(LinesOf("bert:", output) == "START OFFER DETERMINE READY DETERMINE ELECTED FAILED ");
  CHECK(LinesOf("cleo:", output) == "START OFFER DETERMINE READY DETERMINE ELECTED STOPPED ");
  CHECK(LinesOf("now", output) == "bert leads cleo leads ");
}

}  // namespace quorate
