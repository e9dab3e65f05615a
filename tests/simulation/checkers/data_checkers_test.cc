// SPDX-License-Identifier: Apache-2.0

// The checkers that look at replies only: accounts, sequence numbers, registers.
#include "tests/simulation/checkers/bank_checker.h"
#include "tests/simulation/checkers/checker_test_util.h"
#include "tests/simulation/checkers/register_checker.h"
#include "tests/simulation/checkers/sequence_checker.h"

namespace quorate::simulation {
namespace {

// --- Accounts ------------------------------------------------------------------------------------

constexpr char kSum[] = "a multi is applied as a whole: the sum of the accounts stays the same";

class Bank : public Script {
 public:
  std::string Read(const std::string& account, int64_t zxid, int64_t mzxid, int64_t balance) {
    const OperationId read = Ask(link, MakeRead(OperationKind::kGetData, account));
    return Broken([&] { AnswerData(read, zxid, std::to_string(balance), MakeStat(1, mzxid, 0)); });
  }
  BankChecker checker{&history, {"/bank/0", "/bank/1"}, 200};
  LinkId link = Open(1);
};

TEST_CASE("The sum of the accounts stays the same") {
  Bank script;
  CHECK(script.Read("/bank/0", 10, 3, 100) == "");
  CHECK(script.checker.sums_taken() == 0);
  CHECK(script.Read("/bank/1", 12, 3, 100) == "");
  CHECK(script.checker.sums_taken() > 0);
  // A transfer at 15: one account was read before it and one after it, so no sum can be taken.
  const size_t before = script.checker.sums_taken();
  CHECK(script.Read("/bank/0", 16, 15, 70) == "");
  CHECK(script.checker.sums_taken() == before);
  CHECK(script.Read("/bank/1", 17, 15, 130) == "");
  CHECK(script.checker.sums_taken() > before);
}

TEST_CASE("Half a transfer is found") {
  Bank script;
  script.Read("/bank/0", 10, 3, 100);
  script.Read("/bank/1", 12, 3, 100);
  script.Read("/bank/0", 16, 15, 70);
  SECTION("by a reply that overlaps") { CHECK(script.Read("/bank/1", 16, 3, 100) == kSum); }
  SECTION("by a later reply that covers the time in between") {
    CHECK(script.Read("/bank/1", 20, 14, 100) == kSum);
  }
  SECTION("by two balances of one change") { CHECK(script.Read("/bank/0", 17, 15, 71) == kSum); }
}

// --- Sequence numbers ----------------------------------------------------------------------------

class Queue : public Script {
 public:
  OperationId Put() {
    return Ask(link, MakeCreate("/queue/item-", "", tree::CreateMode::kPersistentSequential));
  }
  std::string Got(OperationId operation, const std::string& path, int64_t czxid) {
    return Broken([&] { AnswerStep(operation, czxid, path, MakeStat(czxid, czxid, 0)); });
  }
  SequenceChecker checker{&history, {"/queue"}};
  LinkId link = Open(1);
};

TEST_CASE("Sequence numbers are unique and grow") {
  Queue script;
  const OperationId first = script.Put();
  const OperationId second = script.Put();
  CHECK(script.Got(second, "/queue/item-0000000005", 9) == "");
  CHECK(script.Got(first, "/queue/item-0000000002", 4) == "");
  const OperationId third = script.Put();
  SECTION("a greater number is accepted") {
    CHECK(script.Got(third, "/queue/item-0000000006", 10) == "");
  }
  SECTION("a number was given before") {
    CHECK(script.Got(third, "/queue/item-0000000005", 10) == "a sequence number is given once");
  }
  SECTION("a number is less than one given before the create began") {
    CHECK(script.Got(third, "/queue/item-0000000004", 10) == "sequence numbers grow");
  }
  SECTION("numbers are not in the order of zxids") {
    CHECK(script.Got(third, "/queue/item-0000000006", 8) == "sequence numbers grow");
  }
  SECTION("a name has no number") {
    CHECK(script.Got(third, "/queue/item-", 10) == "a sequential node has a number of ten digits");
  }
}

// --- Registers -----------------------------------------------------------------------------------

RegisterOperation Write(int64_t call, int64_t end, std::string_view value, int32_t version,
                        int32_t expected = tree::kAnyVersion) {
  RegisterOperation operation;
  operation.call_time = call;
  operation.return_time = end;
  operation.write = true;
  operation.value = value;
  operation.version = version;
  operation.expected_version = expected;
  return operation;
}
RegisterOperation Refused(int64_t call, int64_t end, int32_t expected) {
  RegisterOperation operation = Write(call, end, "refused", 0, expected);
  operation.refused = true;
  return operation;
}
RegisterOperation Lost(int64_t call, std::string_view value, int32_t expected = tree::kAnyVersion,
                       int64_t end = INT64_MAX) {
  RegisterOperation operation = Write(call, end, value, 0, expected);
  operation.lost = true;
  return operation;
}
RegisterOperation Read(int64_t call, int64_t end, std::string_view value, int32_t version) {
  RegisterOperation operation = Write(call, end, value, version);
  operation.write = false;
  return operation;
}

Verdict VerdictOn(const std::vector<RegisterOperation>& operations) {
  return CheckRegister(operations, "i", 10'000);
}

TEST_CASE("A register history that has a linearizable order is accepted") {
  CHECK(VerdictOn({}) == Verdict::kLinearizable);
  CHECK(VerdictOn({Read(1, 2, "i", 0)}) == Verdict::kLinearizable);
  CHECK(VerdictOn({Write(1, 2, "a", 1), Read(3, 4, "a", 1)}) == Verdict::kLinearizable);
  // Concurrent operations may have either order.
  CHECK(VerdictOn({Write(1, 9, "a", 1), Read(2, 3, "i", 0), Read(4, 5, "a", 1)}) ==
        Verdict::kLinearizable);
  CHECK(VerdictOn({Write(1, 9, "a", 2), Write(1, 9, "b", 1), Read(10, 11, "a", 2)}) ==
        Verdict::kLinearizable);
  CHECK(VerdictOn({Write(1, 2, "a", 1, 0), Refused(3, 4, 0), Write(5, 6, "b", 2, 1)}) ==
        Verdict::kLinearizable);
  // A lost write that happened late, and one that never happened.
  CHECK(VerdictOn({Lost(1, "a"), Read(5, 6, "i", 0), Read(7, 8, "a", 1)}) ==
        Verdict::kLinearizable);
  CHECK(VerdictOn({Lost(1, "a"), Write(5, 6, "b", 1), Read(7, 8, "b", 1)}) ==
        Verdict::kLinearizable);
  CHECK(VerdictOn({Lost(1, "a"), Write(5, 6, "b", 2), Read(7, 8, "b", 2)}) ==
        Verdict::kLinearizable);
  CHECK(VerdictOn({Lost(1, "a", 0), Refused(2, 3, 0)}) == Verdict::kLinearizable);
  // Lost writes that nobody read fill the versions, each before its return time.
  CHECK(VerdictOn({Lost(1, "a"), Lost(2, "b", tree::kAnyVersion, 6), Read(3, 4, "i", 0),
                   Read(7, 8, "b", 1), Write(9, 10, "c", 3)}) == Verdict::kLinearizable);
  CHECK(VerdictOn({Lost(1, "a", 3), Lost(2, "b", 0), Lost(3, "c", 1), Write(4, 5, "d", 3),
                   Write(6, 7, "e", 5)}) == Verdict::kLinearizable);
  // A refusal does not prove that the lost write before it in time was over.
  CHECK(VerdictOn({Lost(1, "a", tree::kAnyVersion, 5), Refused(6, 20, 7), Read(7, 8, "a", 1)}) ==
        Verdict::kLinearizable);
}

TEST_CASE("A register history without a linearizable order is rejected") {
  // A stale read.
  CHECK(VerdictOn({Write(1, 2, "a", 1), Read(3, 4, "i", 0)}) == Verdict::kNotLinearizable);
  // A read of a value that was not written yet.
  CHECK(VerdictOn({Read(1, 2, "a", 1), Write(3, 4, "a", 1)}) == Verdict::kNotLinearizable);
  // A read of the new value, then one of the old value.
  CHECK(VerdictOn({Write(1, 9, "a", 1), Read(2, 3, "a", 1), Read(4, 5, "i", 0)}) ==
        Verdict::kNotLinearizable);
  // A lost update: both swaps succeed.
  CHECK(VerdictOn({Write(1, 2, "a", 1, 0), Write(3, 4, "b", 1, 0)}) == Verdict::kNotLinearizable);
  // An acknowledged write is lost.
  CHECK(VerdictOn({Write(1, 2, "a", 1), Write(3, 4, "b", 1)}) == Verdict::kNotLinearizable);
  // A write that took effect twice.
  CHECK(VerdictOn({Write(1, 2, "a", 1), Read(3, 4, "a", 2)}) == Verdict::kNotLinearizable);
  // A write is refused although the version is right.
  CHECK(VerdictOn({Refused(1, 2, 0)}) == Verdict::kNotLinearizable);
  // A lost write takes effect before it was called.
  CHECK(VerdictOn({Read(1, 2, "a", 1), Lost(3, "a")}) == Verdict::kNotLinearizable);
  // A lost write takes effect after its return time.
  CHECK(VerdictOn({Lost(1, "a", tree::kAnyVersion, 4), Read(5, 6, "i", 0), Read(7, 8, "a", 1)}) ==
        Verdict::kNotLinearizable);
  // One lost write cannot make two versions.
  CHECK(VerdictOn({Lost(1, "a"), Write(5, 6, "b", 3)}) == Verdict::kNotLinearizable);
  // Two values of one version.
  CHECK(VerdictOn({Write(1, 9, "a", 1), Read(2, 9, "b", 1)}) == Verdict::kNotLinearizable);
}

TEST_CASE("A search that finds no order reports how far it came") {
  RegisterStuck stuck;
  CHECK(CheckRegister({Write(1, 2, "a", 1), Write(3, 4, "b", 2), Read(5, 6, "a", 1)}, "i", 100,
                      &stuck) == Verdict::kNotLinearizable);
  CHECK(stuck.version == 1);
  CHECK(stuck.operation == 1);  // has to be next by time, but then the read would be wrong
}

TEST_CASE("Long histories are searched quickly") {
  std::vector<std::string> values;
  for (int i = 0; i <= 10'000; ++i) values.push_back("v" + std::to_string(i));
  std::vector<RegisterOperation> operations;
  for (int i = 1; i <= 10'000; ++i) {
    if (i % 10 == 0) {
      operations.push_back(Lost(i * 10, values[static_cast<size_t>(i)]));
    } else {
      operations.push_back(Write(i * 10, i * 10 + 40, values[static_cast<size_t>(i)], i));
    }
    operations.push_back(Read(i * 10 + 5, i * 10 + 35, values[static_cast<size_t>(i)], i));
  }
  operations.push_back(Read(1, 200'000, "v8000", 8'000));  // keeps the window open
  CHECK(CheckRegister(operations, "i", 200'000) == Verdict::kLinearizable);
  operations.push_back(Read(95'000, 95'001, "v9000", 9'000));
  CHECK(CheckRegister(operations, "i", 200'000) == Verdict::kNotLinearizable);
}

TEST_CASE("A search that is too hard is given up") {
  std::vector<RegisterOperation> operations;
  const std::vector<std::string> values{"a", "b", "c", "d", "e", "f", "g", "h", "j", "k"};
  // None of them is preferable to another.
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t rank = static_cast<int64_t>(i);
    operations.push_back(Lost(rank, values[i], tree::kAnyVersion, 300 - rank));
  }
  operations.push_back(Read(100, 101, "never written", 7));
  CHECK(CheckRegister(operations, "i", 100) == Verdict::kTooHard);
}

TEST_CASE("Register operations are collected from the history") {
  Script script;
  RegisterChecker checker(&script.history, "/reg/", "i");
  const LinkId link = script.Open(1);
  const auto write = [&](const std::string& value, int32_t version) {
    const OperationId operation = script.Ask(link, MakeSetData("/reg/0", value));
    script.AnswerStep(operation, version, "", MakeStat(1, version, version));
  };
  const auto read = [&](const std::string& value, int32_t version) {
    const OperationId operation = script.Ask(link, MakeRead(OperationKind::kGetData, "/reg/0"));
    script.AnswerData(operation, version, value, MakeStat(1, version, version));
  };
  const auto sync = [&] { script.Answer(script.Ask(link, MakeSync("/reg/0")), 1); };
  write("a", 1);
  write("b", 2);
  script.Ask(link, MakeSetData("/reg/0", "lost"));
  // Without sync a read may be old, and does not count.
  const OperationId old_read = script.Ask(link, MakeRead(OperationKind::kGetData, "/reg/0"));
  script.AnswerData(old_read, 1, "a", MakeStat(1, 1, 1));
  CHECK(checker.size("/reg/0") == 2);
  sync();
  SECTION("the operations are linearizable") {
    read("b", 2);
    script.history.CloseLink(link);
    CHECK(checker.size("/reg/0") == 4);
    CHECK(Broken([&] { checker.CheckFinal(); }) == "");
    CHECK(script.environment.counts().at("checker: a register was checked") == 1);
  }
  SECTION("the operations are not linearizable") {
    read("a", 1);
    CHECK(Broken([&] { checker.CheckFinal(); }) == "a register is linearizable");
  }
}

}  // namespace
}  // namespace quorate::simulation
