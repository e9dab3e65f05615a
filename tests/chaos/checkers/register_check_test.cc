// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/checkers/register_check.h"

#include <catch2/catch.hpp>

#include "tests/chaos/checkers/script.h"

namespace quorate::chaos {
namespace {

constexpr char kLinearizable[] = "a register is linearizable";
constexpr char kWritten[] = "every read value was written";

// A register "/r" with the value "i", and two clients.
class Registers : public Script {
 public:
  explicit Registers(const std::string& workload = "register") : Script(workload) {
    Connect(1, 100);
    Connect(2, 200);
    Do(1, Create("/r", "i"), Created("/r", 1));
    Refused(Invoke(2, Create("/r", "i")), "NodeExists");
  }
  void Write(int32_t client, const std::string& value, int32_t version, int32_t expected = -1) {
    Do(client, Set("/r", value, expected), Changed(version + 1, version));
  }
  void Read(int32_t client, const std::string& value, int32_t version) {
    Do(client, Linearizable(Get("/r")), Found(value, version + 1, version));
  }
  void ReadLocally(int32_t client, const std::string& value, int32_t version) {
    Do(client, Get("/r"), Found(value, version + 1, version));
  }
  std::string Check() { return Broken(CheckRegisters(run())); }
};

TEST_CASE("Registers: correct histories are accepted") {
  Registers script;
  SECTION("writes and reads, one after another; local reads may be stale") {
    script.Write(1, "a", 1);
    script.ReadLocally(2, "i", 0);
    script.Read(2, "a", 1);
    script.Write(2, "b", 2, 1);
    script.Refused(script.Invoke(1, Set("/r", "c", 1)), "BadVersion");
    script.ReadLocally(1, "a", 1);
    script.Read(1, "b", 2);
  }
  SECTION("concurrent operations in either order") {
    const int64_t first = script.Invoke(1, Set("/r", "a"));
    const int64_t second = script.Invoke(2, Set("/r", "b"));
    script.Ok(first, Changed(3, 2));
    script.Ok(second, Changed(2, 1));
    script.Read(1, "a", 2);
  }
  SECTION("an unknown write takes effect late, while its session exists") {
    script.Unknown(script.Invoke(1, Set("/r", "a")));
    script.Read(2, "i", 0);
    script.Read(2, "a", 1);
  }
  SECTION("an unknown write that no client reads, but the version shows") {
    script.Unknown(script.Invoke(1, Set("/r", "a")));
    script.Write(2, "b", 2);
    script.Read(2, "b", 2);
  }
  SECTION("a write whose process was killed") {
    script.Invoke(1, Set("/r", "a"));
    script.Read(2, "i", 0);
    script.Read(2, "a", 1);
  }
  CHECK(script.Check() == "");
}

TEST_CASE("Registers: wrong histories are found") {
  Registers script;
  std::string broken = kLinearizable;
  SECTION("a linearizable read is stale") {
    script.Write(1, "a", 1);
    script.Read(2, "i", 0);
  }
  SECTION("the new value is read before the old one, while the write is under way") {
    const int64_t write = script.Invoke(1, Set("/r", "a"));
    script.Read(2, "a", 1);
    script.Read(2, "i", 0);
    script.Ok(write, Changed(2, 1));
  }
  SECTION("an acknowledged write is lost") {
    broken = std::string(kLinearizable) + "; " + kWritten;
    script.Write(1, "a", 1);
    script.Write(2, "b", 1);
    script.Read(2, "b", 1);
  }
  SECTION("both of two swaps succeed") {
    script.Write(1, "a", 1, 0);
    script.Write(2, "b", 2, 0);
  }
  SECTION("a write took effect twice") {
    script.Write(1, "a", 1);
    script.Write(2, "b", 3);
  }
  SECTION("a write is refused although the version is right") {
    script.Refused(script.Invoke(1, Set("/r", "a", 0)), "BadVersion");
  }
  SECTION("an unknown write takes effect after a later operation of its session") {
    script.Unknown(script.Invoke(1, Set("/r", "a")));
    script.End(1, What::kDisconnected, 100);
    script.Connect(1, 100);
    script.ReadLocally(1, "i", 0);
    script.Read(2, "i", 0);
    script.Read(2, "a", 1);
  }
  SECTION("an unknown write takes effect after its session ended") {
    script.Unknown(script.Invoke(1, Set("/r", "a")));
    script.End(1, What::kExpired, 100);
    script.Read(2, "i", 0);
    script.Read(2, "a", 1);
  }
  SECTION("a refused value is read") {
    broken = std::string(kLinearizable) + "; " + kWritten;
    script.Write(1, "b", 1);
    script.Refused(script.Invoke(1, Set("/r", "a", 0)), "BadVersion");
    script.Read(2, "a", 2);
  }
  SECTION("a local read shows a refused value") {
    broken = kWritten;
    script.Refused(script.Invoke(1, Set("/r", "a", 7)), "BadVersion");
    script.ReadLocally(2, "a", 1);
  }
  SECTION("a local read shows a value that was never written") {
    broken = kWritten;
    script.ReadLocally(2, "a", 1);
  }
  SECTION("a local read shows the right data with the wrong version") {
    broken = kWritten;
    script.Write(1, "a", 1);
    script.Write(1, "b", 2);
    script.ReadLocally(2, "a", 2);
  }
  SECTION("a local read shows a value that is written later") {
    broken = kWritten;
    script.ReadLocally(2, "a", 1);
    script.Write(1, "a", 1);
  }
  CHECK(script.Check() == broken);
}

TEST_CASE("Registers: the window has the two operations that contradict each other") {
  Registers script;
  script.Write(1, "a", 1);
  script.Write(1, "b", 2);
  script.Read(1, "b", 2);
  script.Read(2, "a", 1);
  script.Write(1, "c", 3);
  const Verdicts verdicts = CheckRegisters(script.run());
  REQUIRE(verdicts.violations().size() == 1);
  CHECK(verdicts.violations()[0].details ==
        "/r: version 2 was read and answered before the read of version 1 began: time goes back");
  const std::string text = verdicts.Print();
  CHECK(text.find("\"data\":\"a\",\"stat\"") != std::string::npos);
  CHECK(text.find("\"data\":\"b\",\"stat\"") != std::string::npos);
  CHECK(text.find("\"data\":\"c\"") == std::string::npos);
}

TEST_CASE("Registers: a search that is too hard is reported as undecided") {
  Registers script;
  script.Write(1, "a", 1);
  script.Write(1, "b", 2);
  const Verdicts verdicts = CheckRegisters(script.run(), 1);
  CHECK(verdicts.good());
  REQUIRE(verdicts.undecided().size() == 1);
}

TEST_CASE("Registers: logs are registers, too; deleted nodes are not") {
  Registers log("append");
  log.Write(1, "a", 1);
  log.Read(2, "i", 0);
  CHECK(log.Check() == kLinearizable);
  Registers other("watch");
  other.Write(1, "a", 1);
  other.Read(2, "i", 0);
  CHECK(other.Check() == "");
  Registers deleted;
  deleted.Write(1, "a", 1);
  deleted.Do(1, Delete("/r"), At(9));
  deleted.Read(2, "i", 0);
  CHECK(deleted.Check() == "");
}

}  // namespace
}  // namespace quorate::chaos
