#include "consensus/log/fault_env.h"

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

// A synced file "f" in a synced directory "/d".
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
  constexpr uint64_t kSector = FaultEnv::kSectorBytes;
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
    auto file = MakeFile(&env, std::string(2 * FaultEnv::kSectorBytes, '.'));
    Write(*file, 0, "1");
    Write(*file, FaultEnv::kSectorBytes, "2");
    env.Crash(seed);
    const std::string content = Content(&env, "/d/f");
    seen.insert({content[0], content[FaultEnv::kSectorBytes]});
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

}  // namespace
}  // namespace quorate::consensus
