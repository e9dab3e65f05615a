// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/checkers/history_check.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/chaos/checkers/script.h"

namespace quorate::chaos {
namespace {

std::string BrokenOf(Script* script, const HistoryCheckSettings& settings) {
  std::string text;
  for (const Verdicts& verdicts : CheckHistory(script->run(), settings)) text += Broken(verdicts);
  return text;
}

TEST_CASE("A history without acknowledged operations does not pass") {
  constexpr char kSome[] = "each workload has acknowledged operations";
  Script script;
  SECTION("the history is empty") { CHECK(BrokenOf(&script, {}) == kSome); }
  SECTION("no operation is acknowledged") {
    script.Connect(1, 100);
    script.Refused(script.Invoke(1, Get("/r")), "NoNode");
    CHECK(BrokenOf(&script, {}) == kSome);
  }
  SECTION("operations are acknowledged, but none of the requested workload") {
    script.Connect(1, 100);
    script.Do(1, Create("/r", "i"), Created("/r", 1));
    CHECK(BrokenOf(&script, {}) == "");
    CHECK(BrokenOf(&script, {{"register", "set"}, {}}) == kSome);
  }
}

TEST_CASE("A violation is printed with its lines, and as JSON") {
  Script script;
  script.Connect(1, 100);
  script.Connect(2, 200);
  script.Do(1, Create("/r", "i"), Created("/r", 1));
  script.Do(1, Set("/r", "a"), Changed(2, 1));
  script.Do(2, Linearizable(Get("/r")), Found("i", 1, 0));
  const std::vector<Verdicts> all = CheckHistory(script.run(), {});
  const auto found = std::find_if(all.begin(), all.end(),
                                  [](const Verdicts& one) { return one.name() == "register"; });
  REQUIRE(found != all.end());
  const std::string text = found->Print();
  CHECK(text.find("BROKEN: a register is linearizable") != std::string::npos);
  CHECK(text.find("/r: version 1 was written and answered before the read of version 0 began") !=
        std::string::npos);
  CHECK(text.find(R"(+0.004000s  {"t":5000000,"p":1,"c":1,"e":"invoke","o":2)") !=
        std::string::npos);
  const auto json = found->Json();
  CHECK(json["ok"] == false);
  CHECK(json["wrong"] == 1);
  CHECK(json["violations"][0]["window"].size() == 4);
}

}  // namespace
}  // namespace quorate::chaos
