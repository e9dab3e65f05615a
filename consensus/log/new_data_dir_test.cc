// SPDX-License-Identifier: Apache-2.0

#include "consensus/log/new_data_dir.h"

#include <catch2/catch.hpp>

#include "consensus/log/data_dir.h"
#include "consensus/log/testing/fault_env.h"
#include "consensus/log/testing/log_test_util.h"

namespace quorate::consensus {
namespace {

const std::string kPath = "/srv/quorate";
const std::string kClusterId = "0123456789abcdef";
constexpr Index kIndex{0x500000123};
constexpr Term kTerm{7};
const Identity kIdentity{MemberId{2}, kClusterId, 1700};

absl::Status Make(Env* env) {
  auto dir = NewDataDir::Create(env, kPath);
  if (!dir.ok()) return dir.status();
  return (*dir)->Finish(kIdentity, kIndex, kTerm);
}

absl::StatusOr<std::unique_ptr<DataDir>> Open(Env* env) {
  return DataDir::Open(env, kPath, kIdentity.member, {16384}, /*directory_epoch_if_new=*/1800);
}

void MakeFile(Env* env, const std::string& name) {
  Require(env->CreateDirectories(kPath));
  Require(env->OpenFile(kPath + "/" + name, /*create=*/true));
}

TEST_CASE("a directory that was made behind an entry goes on there") {
  FaultEnv env;
  MakeFile(&env, "myid");
  MakeFile(&env, "zoo.cfg");
  Require(Make(&env));
  // A zxid of ZooKeeper is large, but the log takes no space for the entries before it.
  CHECK(env.used_bytes() < 65536);
  env.Crash(0);
  auto dir = Require(Open(&env));
  CHECK(dir->cluster_id() == kClusterId);
  CHECK(dir->directory_epoch() == 1700);
  CHECK(dir->hard_state() == HardState{kTerm, kNoMember, kIndex, MemberState::kNormal});
  CHECK(dir->log().base_index() == kIndex);
  CHECK(dir->log().base_term() == kTerm);
  CHECK(dir->log().last_index() == kIndex);
  Require(dir->AlignLog(kIndex, kTerm));
  Require(
      dir->log().Append(TestEntries(kIndex.value() + 1, kIndex.value() + 3, kTerm.value(), 10)));
  Require(dir->log().Sync());
  dir.reset();
  CHECK(Require(Open(&env))->log().last_index() == kIndex + 3);
}

TEST_CASE("a directory with something in it is not touched") {
  FaultEnv env;
  MakeFile(&env, "notes");
  const absl::Status status = Make(&env);
  CHECK(absl::IsFailedPrecondition(status));
  CHECK_THAT(std::string(status.message()),
             Catch::Contains(kPath) && Catch::Contains("notes") && Catch::Contains("empty"));
  CHECK(Require(env.List(kPath)) == std::vector<std::string>{"notes"});
}

TEST_CASE("a directory is not made twice, nor over one of a server") {
  FaultEnv env;
  Require(Make(&env));
  CHECK(absl::IsFailedPrecondition(Make(&env)));
  FaultEnv other;
  Require(Open(&other));
  CHECK(absl::IsFailedPrecondition(Make(&other)));
}

TEST_CASE("one that is incomplete is made again, but what is in it for another reason is kept") {
  FaultEnv env;
  constexpr std::string_view kLeftovers[] = {"tree"};
  for (int i = 0; i < 2; ++i) {
    MakeFile(&env, "tree");
    MakeFile(&env, "myid");
    auto dir = NewDataDir::Create(&env, kPath, kLeftovers);
    // A leftover is accepted only in a marked directory: an unmarked one may hold a user's data.
    CHECK(dir.ok() == (i == 1));
    if (i == 0) Require(NewDataDir::Mark(&env, kPath));
  }
  CHECK(env.Exists(kPath + "/tree"));
  CHECK(absl::IsFailedPrecondition(Make(&env)));
  MakeFile(&env, "notes");
  CHECK(absl::IsFailedPrecondition(NewDataDir::Create(&env, kPath, kLeftovers).status()));
  Require(env.Remove(kPath + "/notes"));
  auto dir = Require(NewDataDir::Create(&env, kPath, kLeftovers));
  CHECK(absl::IsFailedPrecondition(NewDataDir::Create(&env, kPath, kLeftovers).status()));
  Require(dir->Finish(kIdentity, kIndex, kTerm));
  CHECK_FALSE(NewDataDir::IsMarked(&env, kPath));
}

TEST_CASE("wherever the making of a directory is interrupted, it is refused or whole") {
  uint64_t refused = 0;
  for (uint64_t n = 0;; ++n) {
    bool done = false;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      CAPTURE(n, seed);
      FaultEnv env;
      env.PowerOffAfter(n);
      const absl::Status made = Make(&env);
      done = !env.powered_off();
      env.Crash(seed);
      const bool marked = env.Exists(kPath + "/unfinished");
      auto dir = Open(&env);
      if (done) {
        Require(made);
        Require(dir.status());
      }
      if (!dir.ok()) {
        ++refused;
        CHECK(absl::IsFailedPrecondition(dir.status()));
        CHECK_THAT(std::string(dir.status().message()),
                   Catch::Contains("interrupted") && Catch::Contains("unfinished"));
        Require(Make(&env));
        CHECK(Require(Open(&env))->log().base_index() == kIndex);
        continue;
      }
      CHECK_FALSE(marked);
      // The directory is either new or complete.
      if ((*dir)->hard_state().member_state == MemberState::kNew) {
        CHECK((*dir)->log().last_index() == Index{0});
        CHECK((*dir)->directory_epoch() == 1800);
      } else {
        CHECK((*dir)->log().base_index() == kIndex);
        CHECK((*dir)->cluster_id() == kClusterId);
      }
    }
    if (done) break;
  }
  CHECK(refused > 100);
}

// A mark that was removed in the page cache must not come back once the directory is in use: the
// member's data would be refused, with the advice to make the directory again.
TEST_CASE("a directory that was opened is not refused after a power failure") {
  uint64_t opened_early = 0;
  bool done = false;
  for (uint64_t n = 0; !done; ++n) {
    bool open_stopped = true;
    for (uint64_t m = 0; !done && open_stopped; ++m) {
      for (uint64_t seed = 0; seed < 6; ++seed) {
        CAPTURE(n, m, seed);
        FaultEnv env;
        env.FailAfter(n, absl::InternalError("killed"));
        done = Make(&env).ok();
        env.Kill();
        env.CancelFaults();
        env.PowerOffAfter(m);
        const bool opened = Open(&env).ok();
        open_stopped = env.powered_off();
        env.Crash((n * 100 + m) * 6 + seed);
        auto dir = Open(&env);
        if (!opened) {
          if (dir.ok()) continue;
          CHECK(absl::IsFailedPrecondition(dir.status()));
          Require(Make(&env));
          dir = Open(&env);
        }
        Require(dir.status());
        if (opened && !done) ++opened_early;
      }
    }
  }
  CHECK(opened_early > 0);
}

}  // namespace
}  // namespace quorate::consensus
