// SPDX-License-Identifier: Apache-2.0

// Tests the checks of sets, sequences, accounts, counters and logs.
#include <catch2/catch.hpp>

#include "tests/chaos/checkers/append_check.h"
#include "tests/chaos/checkers/bank_check.h"
#include "tests/chaos/checkers/children_check.h"
#include "tests/chaos/checkers/counter_check.h"
#include "tests/chaos/checkers/script.h"
#include "tests/chaos/checkers/sequence_check.h"

namespace quorate::chaos {
namespace {

class TwoClients : public Script {
 public:
  explicit TwoClients(const std::string& workload) : Script(workload) {
    Connect(1, 100);
    Connect(2, 200);
  }
  void Move(int32_t client) {
    End(client, What::kDisconnected, client * 100);
    Connect(client, client * 100);
  }
};

// --- Sets ----------------------------------------------------------------------------------------

class Names : public TwoClients {
 public:
  Names() : TwoClients("set") { Make("a", 2); }
  void Make(const std::string& name, int64_t zxid) {
    Do(1, chaos::Create("/s/" + name, name), Created("/s/" + name, zxid));
  }
  // Begins a multi that creates two names.
  int64_t BeginMulti(const std::string& a, const std::string& b) {
    Line multi = Call("multi", "");
    multi.steps = {{"create", "/s/" + a, a, -1, "persistent"},
                   {"create", "/s/" + b, b, -1, "persistent"}};
    return Invoke(1, std::move(multi));
  }
  void MakeBoth(const std::string& a, const std::string& b, int64_t zxid) {
    const int64_t multi = BeginMulti(a, b);
    Line answer = At(zxid);
    answer.results = {{"/s/" + a, "", MakeStat(zxid, zxid, 0), ""},
                      {"/s/" + b, "", MakeStat(zxid, zxid, 0), ""}};
    Ok(multi, std::move(answer));
  }
  void ListAll(int32_t client, std::vector<std::string> names, int64_t zxid) {
    Do(client, Linearizable(List("/s")), Children(std::move(names), zxid));
  }
  void ListLocally(int32_t client, std::vector<std::string> names, int64_t zxid) {
    Do(client, List("/s"), Children(std::move(names), zxid));
  }
  std::string Check() { return Broken(CheckChildren(run())); }
};

TEST_CASE("Sets: correct histories are accepted") {
  Names script;
  SECTION("stale lists, and unknown creations that took effect or not") {
    script.Unknown(script.Invoke(1, Create("/s/b", "b")));
    script.Unknown(script.Invoke(1, Create("/s/c", "c")));
    script.ListLocally(2, {}, 1);
    script.ListAll(2, {"a", "c"}, 4);
  }
  SECTION("a creation that is tried again") {
    script.Unknown(script.Invoke(1, Create("/s/b", "b")));
    script.Refused(script.Invoke(1, Create("/s/b", "b")), "NodeExists");
    script.ListAll(2, {"a", "b"}, 4);
  }
  SECTION("a list has a name whose creation is under way") {
    const int64_t create = script.Invoke(1, Create("/s/b", "b"));
    script.ListAll(2, {"a", "b"}, 3);
    script.Ok(create, Created("/s/b", 3));
  }
  SECTION("names are deleted") {
    script.Unknown(script.Invoke(1, Delete("/s/a")));
    script.ListAll(2, {"a"}, 3);
    script.Do(1, Delete("/s/a"), At(4));
    script.ListLocally(2, {"a"}, 3);
    script.ListAll(2, {}, 4);
  }
  SECTION("multis create names") {
    script.MakeBoth("b", "c", 5);
    script.Refused(script.BeginMulti("d", "e"), "BadVersion");
    script.Unknown(script.BeginMulti("f", "g"));
    script.Unknown(script.BeginMulti("h", "i"));
    script.ListLocally(2, {"a"}, 4);
    script.ListAll(2, {"a", "b", "c", "h", "i"}, 7);
  }
  CHECK(script.Check() == "");
}

TEST_CASE("Sets: wrong histories are found") {
  Names script;
  std::string broken;
  SECTION("an acknowledged creation is lost") {
    broken = "created nodes exist";
    script.ListAll(2, {}, 1);
  }
  SECTION("a session does not see its own creation") {
    broken = "created nodes exist";
    script.Move(1);
    script.ListLocally(1, {}, 1);
  }
  SECTION("a member has lost a name") {
    broken = "created nodes exist";
    script.ListLocally(2, {}, 7);
  }
  SECTION("a name with an unknown creation existed and is lost") {
    broken = "created nodes exist";
    script.Unknown(script.Invoke(1, Create("/s/b", "b")));
    script.ListLocally(2, {"a", "b"}, 5);
    script.ListLocally(1, {"a"}, 6);
  }
  SECTION("a name is in a list twice") {
    broken = "each name exists once";
    script.ListAll(2, {"a", "a"}, 2);
  }
  SECTION("a name is created twice") {
    broken = "each name exists once";
    script.Make("a", 3);
  }
  SECTION("a refused creation took effect") {
    broken = "every existing node was created";
    script.Refused(script.Invoke(1, Create("/s/b", "b")), "NoAuth");
    script.ListAll(2, {"a", "b"}, 4);
  }
  SECTION("a name exists that no client created") {
    broken = "every existing node was created";
    script.ListAll(2, {"a", "z"}, 4);
  }
  SECTION("a name created by a multi is lost") {
    broken = "created nodes exist";
    script.MakeBoth("b", "c", 5);
    script.ListAll(2, {"a"}, 6);
  }
  SECTION("half of an acknowledged multi is in a list") {
    broken = "a multi is applied as a whole; created nodes exist";
    script.MakeBoth("b", "c", 5);
    script.ListAll(2, {"a", "b"}, 6);
  }
  SECTION("half of a multi with an unknown outcome is in a list") {
    broken = "a multi is applied as a whole";
    script.Unknown(script.BeginMulti("b", "c"));
    script.ListLocally(2, {"a", "c"}, 6);
  }
  SECTION("half of a refused multi is in a list") {
    broken = "every existing node was created";
    script.Refused(script.BeginMulti("b", "c"), "BadVersion");
    script.ListAll(2, {"a", "b"}, 6);
  }
  SECTION("a deleted name exists again") {
    broken = "deleted nodes do not exist";
    script.Do(1, Delete("/s/a"), At(4));
    script.ListAll(2, {"a"}, 5);
  }
  CHECK(script.Check() == broken);
}

TEST_CASE("Sets: creations after the last list are not decided") {
  Names script;
  script.ListAll(2, {"a"}, 2);
  script.Make("b", 3);
  CHECK(CheckChildren(script.run()).undecided().size() == 1);
}

// --- Sequences -----------------------------------------------------------------------------------

class Sequence : public TwoClients {
 public:
  Sequence() : TwoClients("sequence") {}
  static std::string Name(int number, const std::string& prefix = "n-") {
    const std::string digits = std::to_string(number);
    return prefix + std::string(10 - digits.size(), '0') + digits;
  }
  int64_t Begin(int32_t client, const std::string& prefix = "n-") {
    return Invoke(client, Create("/q/" + prefix, "x", "sequential"));
  }
  void Give(int64_t operation, int number, int64_t zxid) {
    Ok(operation, Created("/q/" + Name(number), zxid));
  }
  std::string Check() { return Broken(CheckSequences(run())); }
};

TEST_CASE("Sequences: correct histories are accepted") {
  Sequence script;
  const int64_t first = script.Begin(1);
  const int64_t second = script.Begin(2);
  script.Give(first, 1, 3);
  script.Give(second, 0, 2);
  script.Unknown(script.Begin(1));
  script.Give(script.Begin(2), 3, 9);
  script.Do(
      2, Linearizable(List("/q")),
      Children({Sequence::Name(0), Sequence::Name(1), Sequence::Name(2), Sequence::Name(3)}, 9));
  CHECK(script.Check() == "");
  CHECK(Broken(CheckChildren(script.run())) == "");
}

TEST_CASE("Sequences: wrong histories are found") {
  Sequence script;
  std::string broken;
  SECTION("a number is given twice") {
    broken = "a sequence number is given once";
    const int64_t first = script.Begin(1);
    const int64_t second = script.Begin(2);
    script.Give(first, 1, 3);
    script.Give(second, 1, 4);
  }
  SECTION("numbers do not grow in time") {
    broken = "sequence numbers grow";
    script.Give(script.Begin(1), 4, 0);
    script.Give(script.Begin(2), 3, 0);
  }
  SECTION("numbers do not grow with zxids") {
    broken = "sequence numbers grow";
    const int64_t first = script.Begin(1);
    const int64_t second = script.Begin(2);
    script.Give(first, 1, 3);
    script.Give(second, 2, 2);
  }
  SECTION("a name has no number") {
    broken = "a sequential node has a number of ten digits";
    script.Ok(script.Begin(1), Created("/q/n-12", 3));
  }
  SECTION("one creation makes two nodes") {
    broken = "each creation makes one node";
    script.Unknown(script.Begin(1));
    script.Do(2, List("/q"), Children({Sequence::Name(0), Sequence::Name(1)}, 9));
  }
  SECTION("one creation makes two nodes, and another one has an unknown outcome") {
    broken = "each creation makes one node";
    script.Unknown(script.Begin(1, "m-"));
    script.Give(script.Begin(1), 0, 2);
    script.Do(2, List("/q"), Children({Sequence::Name(0), Sequence::Name(1)}, 9));
  }
  SECTION("two names have the same number") {
    broken = "each creation makes one node";
    script.Give(script.Begin(1), 0, 2);
    script.Do(2, List("/q"), Children({Sequence::Name(0), Sequence::Name(0, "m-")}, 9));
  }
  SECTION("a refused creation makes a node") {
    broken = "each creation makes one node";
    script.Refused(script.Begin(1), "NoAuth");
    script.Do(2, List("/q"), Children({Sequence::Name(0)}, 9));
  }
  CHECK(script.Check() == broken);
}

// --- Accounts ------------------------------------------------------------------------------------

class Bank : public TwoClients {
 public:
  Bank() : TwoClients("bank") {
    Do(1, Create("/b", ""), Created("/b", 1));
    Do(1, Create("/b/0", "100"), Created("/b/0", 2));
    Do(1, Create("/b/1", "100"), Created("/b/1", 3));
  }
  void Look(int32_t client, const std::string& a, int32_t a_version, const std::string& b,
            int32_t b_version) {
    Line read = Call("multi-get", "");
    read.paths = {"/b/0", "/b/1"};
    Line answer = At(50);
    answer.results = {{"", a, MakeStat(2, 2 + a_version, a_version), ""},
                      {"", b, MakeStat(3, 3 + b_version, b_version), ""}};
    Do(client, std::move(read), std::move(answer));
  }
  std::string Check() { return Broken(CheckBank(run())); }
};

TEST_CASE("Accounts: reads show a constant sum and one history") {
  Bank script;
  script.Look(1, "100", 0, "100", 0);
  std::string broken;
  SECTION("a correct history is accepted") {
    script.Look(1, "70 1.1", 1, "130 1.1", 1);
    script.Look(2, "100", 0, "100", 0);
  }
  SECTION("half of a transfer is seen") {
    broken = "the sum of all accounts stays the same";
    script.Look(1, "70 1.1", 1, "100", 0);
  }
  SECTION("halves of two transfers are seen, and the sum is right by chance") {
    broken = "multi-gets are views of one history";
    script.Look(1, "90 1.1", 1, "110 2.1", 0);
    script.Look(2, "90 2.1", 0, "110 1.1", 1);
  }
  SECTION("an account is not a number") {
    broken = "the sum of all accounts stays the same";
    script.Look(1, "", 1, "200", 1);
  }
  CHECK(script.Check() == broken);
}

// --- Counters ------------------------------------------------------------------------------------

class Counters : public TwoClients {
 public:
  Counters() : TwoClients("counter") { Do(1, Create("/c", "0"), Created("/c", 1)); }
  void Add(int32_t client, int64_t value) { Finish(Begin(client), value); }
  int64_t Begin(int32_t client) {
    Line add = Call("add", "/c");
    add.delta = 1;
    return Invoke(client, add);
  }
  void Finish(int64_t operation, int64_t value) {
    Line answer;
    answer.value = value;
    Ok(operation, answer);
  }
  void Swap(int32_t client, int64_t value) {
    Do(client, Set("/c", std::to_string(value) + " t", static_cast<int32_t>(value) - 1),
       Changed(10 + value, static_cast<int32_t>(value)));
  }
  void Read(int32_t client, int64_t value, bool linearizable = true) {
    Line get = Get("/c");
    get.linearizable = linearizable;
    Do(client, get, Found(std::to_string(value) + " t", 10 + value, static_cast<int32_t>(value)));
  }
  std::string Check() { return Broken(CheckCounters(run())); }
};

TEST_CASE("Counters: correct histories are accepted") {
  Counters script;
  script.Add(1, 1);
  script.Swap(2, 2);
  script.Refused(script.Invoke(1, Set("/c", "2 u", 1)), "BadVersion");
  script.Unknown(script.Begin(1));
  script.Read(2, 2);
  script.Read(1, 1, false);
  script.Read(2, 3);
  script.Unknown(script.Invoke(1, Set("/c", "4 v", 3)));
  script.Unknown(script.Invoke(1, Set("/c", "9 w", 3)));
  script.Swap(2, 5);
  script.Read(2, 5);
  CHECK(script.Check() == "");
  CHECK(CheckCounters(script.run()).undecided().empty());
}

TEST_CASE("Counters: wrong histories are found") {
  Counters script;
  std::string broken = "each addition counts once";
  SECTION("an addition is lost") {
    script.Add(1, 1);
    script.Add(2, 2);
    script.Read(1, 1);
  }
  SECTION("an addition counts twice") {
    script.Add(1, 1);
    script.Read(1, 2);
  }
  SECTION("a refused addition counts, in place of an unknown one") {
    script.Unknown(script.Begin(1));
    script.Refused(script.Invoke(2, Set("/c", "1 t", 0)), "NoAuth");
    script.Read(1, 1);
  }
  SECTION("an unknown addition counts twice") {
    script.Unknown(script.Begin(1));
    script.Read(1, 2);
  }
  SECTION("an addition counts twice, in place of an unknown one that leads to another value") {
    script.Unknown(script.Invoke(1, Set("/c", "1 u", 0)));
    script.Swap(1, 1);
    script.Read(2, 2);
  }
  SECTION("an addition counts twice, before an unknown one began") {
    script.Add(1, 1);
    const int64_t read = script.Invoke(2, Get("/c"));
    script.Unknown(script.Invoke(1, Set("/c", "9 w", 3)));
    script.Ok(read, Found("2 t", 12, 2));
    script.Unknown(script.Begin(1));
  }
  SECTION("two additions lead to the same value") {
    const int64_t first = script.Begin(1);
    const int64_t second = script.Begin(2);
    script.Finish(first, 1);
    script.Finish(second, 1);
  }
  SECTION("a local read goes back") {
    broken = "no session sees a counter go down";
    script.Add(1, 1);
    script.Add(1, 2);
    script.Move(1);
    script.Read(1, 1, false);
    script.Read(2, 2);
  }
  CHECK(script.Check() == broken);
}

// --- Logs ----------------------------------------------------------------------------------------

class Logs : public TwoClients {
 public:
  Logs() : TwoClients("append") { Do(1, Create("/l", ""), Created("/l", 1)); }
  void Append(int32_t client, const std::string& data, int32_t version) {
    Do(client, Set("/l", data, version - 1), Changed(version + 1, version));
  }
  void Read(int32_t client, const std::string& data, int32_t version) {
    Do(client, Get("/l"), Found(data, version + 1, version));
  }
  std::string Check() { return Broken(CheckLogs(run())); }
};

TEST_CASE("Logs: correct histories are accepted") {
  Logs script;
  script.Append(1, "a", 1);
  script.Unknown(script.Invoke(2, Set("/l", "a b", 1)));
  script.Append(1, "a b c", 3);
  script.Refused(script.Invoke(2, Set("/l", "a b d", 2)), "BadVersion");
  script.Read(2, "a", 1);
  script.Read(2, "a b c", 3);
  CHECK(script.Check() == "");
}

TEST_CASE("Logs: wrong histories are found") {
  Logs script;
  constexpr char kEntry[] = "each acknowledged entry is in the log once, and no other";
  constexpr char kBeginning[] = "all readers see prefixes of one log";
  std::string broken = kEntry;
  script.Append(1, "a", 1);
  SECTION("an acknowledged entry is lost") {
    broken = std::string(kBeginning) + "; " + kEntry;
    script.Append(2, "b", 2);
  }
  SECTION("an entry is in the log twice") {
    script.Append(2, "a b", 2);
    script.Read(1, "a b b", 3);
  }
  SECTION("a refused entry is in the log") {
    script.Refused(script.Invoke(2, Set("/l", "a b", 0)), "BadVersion");
    script.Read(1, "a b", 2);
  }
  SECTION("an entry is in the log that no client appended") { script.Read(1, "a z", 2); }
  SECTION("two readers see different logs") {
    broken = std::string(kBeginning) + "; " + kEntry;
    script.Append(1, "a b", 2);
    script.Unknown(script.Invoke(2, Set("/l", "a c", 1)));
    script.Read(2, "a c", 2);
  }
  CHECK(script.Check() == broken);
}

}  // namespace
}  // namespace quorate::chaos
