// The examples of locks and elections run.

#include <catch2/catch.hpp>
#include <cstdio>
#include <sstream>
#include <string>

#include "client/recipes/lock_testing.h"

namespace quorate {
namespace {

// What it prints, with its errors.
std::string OutputOf(const std::string& example) {
  const std::string command =
      "client/examples/" + example + " --servers " + Servers().servers() + " 2>&1";
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

// What follows `beginning` in the lines that begin with it.
std::string LinesOf(const std::string& beginning, const std::string& text) {
  std::istringstream lines(text);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(beginning, 0) == 0) found += line.substr(beginning.size() + 1) + " ";
  }
  return found;
}

}  // namespace

TEST_CASE("mutex: all writes are taken") { CHECK(CountOf(" writes, ", OutputOf("mutex")) == 4); }

TEST_CASE("read_write_lock: everybody reads or writes") {
  const std::string output = OutputOf("read_write_lock");
  CAPTURE(output);
  CHECK(CountOf("reading: ", output) == 3);
  CHECK(CountOf("written: ", output) == 3);
}

TEST_CASE("leader_election: one leads after the other") {
  const std::string output = OutputOf("leader_election");
  CAPTURE(output);
  // Each has its own thread: only what one says is in a certain order.
  CHECK(LinesOf("anna:", output) == "START OFFER DETERMINE ELECTED FAILED ");
  CHECK(LinesOf("bert:", output) == "START OFFER DETERMINE READY DETERMINE ELECTED FAILED ");
  CHECK(LinesOf("cleo:", output) == "START OFFER DETERMINE READY DETERMINE ELECTED STOPPED ");
  CHECK(LinesOf("now", output) == "bert leads cleo leads ");
}

}  // namespace quorate
