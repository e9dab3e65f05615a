// SPDX-License-Identifier: Apache-2.0

#include "consensus/log/testing/fault_env.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

namespace quorate::consensus {
namespace {

void Write(File& file, uint64_t offset, std::string_view bytes) {
  REQUIRE(file.WriteAt(offset, {&bytes, 1}).ok());
}

std::string Content(FaultEnv* env, const std::string& path) {
  auto file = env->OpenFile(path, /*create=*/false);
  if (!file.ok()) return "missing";
  std::string bytes(*(*file)->Size(), '\0');
  REQUIRE(*(*file)->ReadAt(0, bytes.size(), bytes.data()) == bytes.size());
  return bytes;
}

// Makes a synced file "f" in a synced directory "/d".
std::unique_ptr<File> MakeFile(FaultEnv* env, std::string_view content) {
  REQUIRE(env->CreateDirectories("/d").ok());
  auto file = env->OpenFile("/d/f", /*create=*/true);
  REQUIRE(file.ok());
  Write(**file, 0, content);
  REQUIRE((*file)->Sync().ok());
  REQUIRE(env->SyncDirectory("/d").ok());
  return *std::move(file);
}

TEST_CASE("what was synced survives every crash") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    FaultEnv env;
    MakeFile(&env, "synced");
    env.Crash(seed);
    CHECK(Content(&env, "/d/f") == "synced");
  }
}

TEST_CASE("unsynced writes are lost, kept and torn by sectors") {
  constexpr uint64_t kSector = kSectorBytes;
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    FaultEnv env;
    auto file = MakeFile(&env, std::string(3 * kSector, 'o'));
    Write(*file, 0, std::string(3 * kSector, 'n'));
    env.Crash(seed);
    const std::string content = Content(&env, "/d/f");
    REQUIRE(content.size() == 3 * kSector);
    std::string sectors;
    for (uint64_t i = 0; i < 3; ++i) {
      const char first = content[i * kSector];
      REQUIRE(content.substr(i * kSector, kSector) == std::string(kSector, first));
      sectors += first;
    }
    seen.insert(sectors);
  }
  CHECK(seen == std::set<std::string>{"ooo", "oon", "ono", "onn", "noo", "non", "nno", "nnn"});
}

TEST_CASE("a later write can survive an earlier one that does not") {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    FaultEnv env;
    auto file = MakeFile(&env, std::string(2 * kSectorBytes, '.'));
    Write(*file, 0, "1");
    Write(*file, kSectorBytes, "2");
    env.Crash(seed);
    const std::string content = Content(&env, "/d/f");
    seen.insert({content[0], content[kSectorBytes]});
  }
  CHECK(seen == std::set<std::string>{"..", "1.", ".2", "12"});
}

TEST_CASE("unsynced creations, renames and removals may be lost") {
  std::set<std::string> created, renamed, removed;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    FaultEnv env;
    MakeFile(&env, "old");
    auto file = env.OpenFile("/d/new", /*create=*/true);
    REQUIRE(file.ok());
    Write(**file, 0, "new");
    REQUIRE((*file)->Sync().ok());
    env.Crash(seed);
    created.insert(Content(&env, "/d/new"));

    FaultEnv second;
    MakeFile(&second, "old");
    REQUIRE(second.Rename("/d/f", "/d/g").ok());
    CHECK(Content(&second, "/d/g") == "old");
    second.Crash(seed);
    renamed.insert(Content(&second, "/d/f") + " " + Content(&second, "/d/g"));

    FaultEnv third;
    MakeFile(&third, "old");
    REQUIRE(third.Remove("/d/f").ok());
    CHECK_FALSE(third.Exists("/d/f"));
    third.Crash(seed);
    removed.insert(Content(&third, "/d/f"));
  }
  CHECK(created == std::set<std::string>{"missing", "new"});
  CHECK(renamed == std::set<std::string>{"old missing", "missing old"});
  CHECK(removed == std::set<std::string>{"missing", "old"});
}

TEST_CASE(
    "a file that was made and removed, neither durably, may come back, without what it lost") {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    FaultEnv env;
    MakeFile(&env, "old");
    auto file = env.OpenFile("/d/new", /*create=*/true);
    REQUIRE(file.ok());
    Write(**file, 0, "new");
    REQUIRE(env.Remove("/d/new").ok());
    env.Crash(seed);
    seen.insert(Content(&env, "/d/new"));
    const std::string before = Content(&env, "/d/new");
    env.Crash(seed + 1);
    REQUIRE(Content(&env, "/d/new") == before);
  }
  CHECK(seen == std::set<std::string>{"missing", "", "new"});
}

TEST_CASE("an unsynced truncation is kept or undone as a whole") {
  const std::string old(3 * 4096, 'o');
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    FaultEnv env;
    auto file = MakeFile(&env, old);
    REQUIRE(file->Truncate(5000).ok());
    env.Crash(seed);
    seen.insert(Content(&env, "/d/f"));
  }
  CHECK(seen == std::set<std::string>{old, old.substr(0, 5000)});
}

TEST_CASE("a crash takes every file back to its own disk, whatever was done to it") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    // One file with large gaps, so that pages come and go.
    FaultEnv env;
    auto file = MakeFile(&env, std::string(9000, 'o'));
    auto other = env.OpenFile("/d/g", /*create=*/true);
    REQUIRE(other.ok());
    Write(**other, 0, "other");
    REQUIRE((*other)->Sync().ok());
    REQUIRE(env.SyncDirectory("/d").ok());
    uint64_t state = seed;
    auto below = [&](uint64_t bound) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return (state >> 33) % bound;
    };
    std::string durable = Content(&env, "/d/f");
    bool failed = false;
    for (int i = 0; i < 12; ++i) {
      const uint64_t dice = below(8);
      if (dice < 4) {
        Write(*file, below(30000), std::string(1 + below(6000), static_cast<char>('a' + i)));
      } else if (dice < 6) {
        REQUIRE(file->Truncate(below(20000)).ok());
      } else if (dice == 6) {
        REQUIRE(file->Preallocate(below(40000)).ok());
      } else if (below(4) == 0) {
        env.FailSyncAfter(0, absl::InternalError("lost"));
        CHECK_FALSE(file->Sync().ok());
        failed = true;
      } else {
        REQUIRE(file->Sync().ok());
        if (!failed) durable = Content(&env, "/d/f");
      }
    }
    REQUIRE(file->Sync().ok());
    if (!failed) durable = Content(&env, "/d/f");
    env.Crash(seed);
    const std::string after = Content(&env, "/d/f");
    if (!failed) REQUIRE(after == durable);
    CHECK(Content(&env, "/d/g") == "other");
    // Reads return the content of the disk: a second crash changes nothing.
    env.Crash(seed + 1);
    REQUIRE(Content(&env, "/d/f") == after);
  }
}

TEST_CASE("faults of one file leave the others alone") {
  FaultEnv env;
  auto file = MakeFile(&env, "old");
  auto second = env.OpenFile("/d/f", /*create=*/false);  // the same file, opened twice
  auto other = env.OpenFile("/d/g", /*create=*/true);
  REQUIRE(second.ok());
  REQUIRE(other.ok());
  REQUIRE(env.SyncDirectory("/d").ok());
  Write(*file, 0, "new");
  Write(**other, 0, "other");
  SECTION("a failed sync loses what that file waited for") {
    env.FailSyncAfter(1, absl::InternalError("lost"));
    REQUIRE((*other)->Sync().ok());
    CHECK_FALSE(file->Sync().ok());
    env.Crash(1);
    CHECK(Content(&env, "/d/f") == "old");
    CHECK(Content(&env, "/d/g") == "other");
  }
  SECTION("a sync through either of two descriptors is one of the file") {
    REQUIRE((*second)->Sync().ok());
    env.Crash(0);
    CHECK(Content(&env, "/d/f") == "new");
  }
  SECTION("a full disk counts all of them") {
    env.SetCapacity(10);
    const std::string_view bytes = "0123456789";
    CHECK(absl::IsResourceExhausted((*other)->WriteAt(0, {&bytes, 1})));
    CHECK(Content(&env, "/d/g") == "0123456");
    CHECK(Content(&env, "/d/f") == "new");
  }
  SECTION("the power goes off for all of them") {
    env.PowerOffAfter(0);
    CHECK_FALSE((*other)->Sync().ok());
    CHECK_FALSE(file->Sync().ok());
    CHECK_FALSE((*second)->Size().ok());
  }
  SECTION("a flipped bit is in that file only") {
    env.FlipBit("/d/g", 0);
    CHECK(Content(&env, "/d/f") == "new");
    CHECK(Content(&env, "/d/g") == "nther");
  }
}

TEST_CASE("equal seeds give equal disks") {
  auto run = [](uint64_t seed) {
    FaultEnv env;
    auto file = MakeFile(&env, std::string(8192, 'o'));
    for (int i = 0; i < 8; ++i) Write(*file, static_cast<uint64_t>(i) * 700, std::string(900, 'a'));
    env.Crash(seed);
    return Content(&env, "/d/f");
  };
  std::set<std::string> all;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CHECK(run(seed) == run(seed));
    all.insert(run(seed));
  }
  CHECK(all.size() > 5);
}

TEST_CASE("after a kill nothing is lost, but what was open is dead") {
  FaultEnv env;
  auto file = MakeFile(&env, "old");
  auto lock = env.LockDirectory("/d");
  REQUIRE(lock.ok());
  CHECK(env.LockDirectory("/d").status().code() == absl::StatusCode::kFailedPrecondition);
  Write(*file, 0, "new");
  env.Kill();
  CHECK(Content(&env, "/d/f") == "new");
  CHECK_FALSE(file->Sync().ok());
  CHECK(env.LockDirectory("/d").ok());
}

TEST_CASE("the power goes off in the middle of the chosen operation") {
  FaultEnv env;
  auto file = MakeFile(&env, "old");
  env.PowerOffAfter(1);
  Write(*file, 0, "one");
  const std::string_view two = "two";
  CHECK_FALSE(file->WriteAt(0, {&two, 1}).ok());
  CHECK(env.powered_off());
  char byte;
  CHECK_FALSE(file->ReadAt(0, 1, &byte).ok());
  CHECK_FALSE(env.SyncDirectory("/d").ok());
  env.Crash(1);
  CHECK_FALSE(env.powered_off());
  CHECK(Content(&env, "/d/f").size() == 3);
}

TEST_CASE("the chosen operation fails, once") {
  FaultEnv env;
  auto file = MakeFile(&env, "old");
  env.FailAfter(1, absl::InternalError("bad sector"));
  Write(*file, 0, "new");
  const absl::Status failed = file->Truncate(0);
  CHECK(failed.code() == absl::StatusCode::kInternal);
  CHECK(failed.message() == "/d/f: bad sector");
  CHECK(Content(&env, "/d/f") == "new");
  CHECK(file->Truncate(0).ok());
  env.FailReads(1, absl::InternalError("bad sector"));
  char byte;
  CHECK_FALSE(file->ReadAt(0, 1, &byte).ok());
  CHECK(file->ReadAt(0, 1, &byte).ok());
}

TEST_CASE("what a failed sync should have written is never written") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    FaultEnv env;
    auto file = MakeFile(&env, "old");
    Write(*file, 0, "new");
    env.FailSyncAfter(0, absl::InternalError("lost"));
    CHECK_FALSE(file->Sync().ok());
    CHECK(Content(&env, "/d/f") == "new");
    CHECK(file->Sync().ok());
    env.Crash(seed);
    CHECK(Content(&env, "/d/f") == "old");
  }
}

TEST_CASE("a full disk takes what fits and refuses the rest") {
  FaultEnv env;
  auto file = MakeFile(&env, "old");
  env.SetCapacity(5);
  const std::string_view bytes = "newer!!";
  CHECK(file->WriteAt(0, {&bytes, 1}).code() == absl::StatusCode::kResourceExhausted);
  CHECK(Content(&env, "/d/f") == "newer");
  CHECK(file->Preallocate(6).code() == absl::StatusCode::kResourceExhausted);
  Write(*file, 0, "fits!");
}

TEST_CASE("a flipped bit stays flipped after a crash") {
  FaultEnv env;
  MakeFile(&env, "abc");
  env.FlipBit("/d/f", 8);
  CHECK(Content(&env, "/d/f") == "acc");
  env.Crash(0);
  CHECK(Content(&env, "/d/f") == "acc");
}

TEST_CASE("lengths, holes and listings are those of a file system") {
  FaultEnv env;
  auto file = MakeFile(&env, "abc");
  Write(*file, 5000, "x");
  CHECK(*file->Size() == 5001);
  REQUIRE(file->Truncate(2).ok());
  REQUIRE(file->Preallocate(4).ok());
  CHECK(Content(&env, "/d/f") == std::string("ab\0\0", 4));
  REQUIRE(file->Preallocate(1).ok());
  CHECK(*file->Size() == 4);
  REQUIRE(env.CreateDirectories("/d/sub/deep").ok());
  CHECK(*env.List("/d") == std::vector<std::string>{"f", "sub"});
  CHECK(*env.List("/") == std::vector<std::string>{"d"});
  CHECK(absl::IsNotFound(env.OpenFile("/d/missing", false).status()));
  CHECK(absl::IsNotFound(env.List("/missing").status()));
}

TEST_CASE("an operation that a kill cuts short is in the cache, and all before it") {
  FaultEnv env;
  auto file = MakeFile(&env, "....");
  env.PowerOffAfter(1);
  Write(*file, 0, "1");
  CHECK_FALSE(file->WriteAt(1, std::vector<std::string_view>{"2"}).ok());
  CHECK_FALSE(file->WriteAt(2, std::vector<std::string_view>{"3"}).ok());
  env.Kill();
  CHECK_FALSE(env.powered_off());
  CHECK(Content(&env, "/d/f") == "12..");
}

TEST_CASE("a failure that was asked for waits until it has happened") {
  FaultEnv env;
  auto file = MakeFile(&env, "....");
  CHECK_FALSE(env.will_fail());
  env.FailAfter(1, absl::UnavailableError("no"));
  Write(*file, 0, "1");
  CHECK(env.will_fail());
  CHECK_FALSE(file->Sync().ok());
  CHECK_FALSE(env.will_fail());
  env.FailReads(1, absl::UnavailableError("no"));
  CHECK(env.will_fail());
  char byte = 0;
  CHECK_FALSE(file->ReadAt(0, 1, &byte).ok());
  CHECK_FALSE(env.will_fail());
  env.FailSyncAfter(1, absl::UnavailableError("no"));
  CHECK(file->Sync().ok());
  CHECK(env.will_fail());
  CHECK_FALSE(file->Sync().ok());
  CHECK_FALSE(env.will_fail());
}

TEST_CASE("what a disk has lied about is there for reads, and lost by some crash") {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    FaultEnv env;
    auto file = MakeFile(&env, "old");
    env.LieAboutSyncs("/d/");
    Write(*file, 0, "new");
    REQUIRE(file->Sync().ok());
    CHECK(Content(&env, "/d/f") == "new");
    env.Crash(seed);
    seen.insert(Content(&env, "/d/f"));
  }
  CHECK(seen == std::set<std::string>{"old", "new"});
}

TEST_CASE("a disk that no longer lies holds what it had lied about") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    FaultEnv env;
    auto file = MakeFile(&env, "old");
    env.LieAboutSyncs("/d/");
    Write(*file, 0, "new");
    REQUIRE(file->Sync().ok());
    env.EndLies();
    env.Crash(seed);
    CHECK(Content(&env, "/d/f") == "new");
  }
}

TEST_CASE("a disk lies about the files that were named only") {
  FaultEnv env;
  auto file = MakeFile(&env, "old");
  env.LieAboutSyncs("/other/");
  Write(*file, 0, "new");
  REQUIRE(file->Sync().ok());
  CHECK(Content(env.CloneDurable().get(), "/d/f") == "new");
}

}  // namespace
}  // namespace quorate::consensus
