// SPDX-License-Identifier: Apache-2.0

#include "consensus/log/data_dir.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "consensus/core/membership.h"
#include "consensus/log/hard_state_file.h"
#include "consensus/log/testing/fault_env.h"
#include "consensus/log/testing/log_test_util.h"

namespace quorate::consensus {
namespace {

constexpr MemberId kMember{2};
constexpr uint64_t kEpoch = 1700;
const std::optional<SnapshotMeta> kNoCheckpoint;
const std::string kPath = "/srv/quorate";
const std::string kClusterId = "0123456789abcdef";
const std::string kOtherClusterId = "fedcba9876543210";

std::unique_ptr<DataDir> Open(Env* env, MemberId member = kMember) {
  return Require(DataDir::Open(env, kPath, member, {16384}, kEpoch));
}

absl::Status OpenError(Env* env, MemberId member = kMember) {
  return DataDir::Open(env, kPath, member, {16384}, kEpoch).status();
}

void MakeFile(Env* env, const std::string& name, std::string_view content = "x") {
  Require(env->CreateDirectories(kPath));
  auto file = Require(env->OpenFile(absl::StrCat(kPath, "/", name), /*create=*/true));
  Require(file->Truncate(0));
  Require(file->WriteAt(0, {&content, 1}));
  Require(file->Sync());
  Require(env->SyncDirectory(kPath));
}

std::string ReadFile(Env* env, const std::string& path) {
  auto file = Require(env->OpenFile(path, /*create=*/false));
  std::string bytes(Require(file->Size()), '\0');
  Require(file->ReadAt(0, bytes.size(), bytes.data()));
  return bytes;
}

TEST_CASE("a new directory is formatted, and keeps what it was given") {
  FaultEnv env;
  {
    auto dir = Open(&env);
    CHECK(dir->path() == kPath);
    CHECK(dir->cluster_id().empty());
    CHECK(dir->hard_state() == HardState{Term{0}, kNoMember, Index{0}, MemberState::kNew});
    CHECK(dir->initial_state(kNoCheckpoint).last_index == Index{0});
    CHECK(dir->initial_state(kNoCheckpoint).term_runs.empty());
    const HardState state{Term{5}, MemberId{3}, Index{9}};
    Require(dir->WriteHardState(state, Index{0}));
    Require(dir->log().Append(TestEntries(1, 3, 4, 10)));
    Require(dir->log().Sync());
    Require(dir->SetClusterId(kClusterId));
  }
  env.Crash(0);
  auto dir = Open(&env);
  CHECK(dir->cluster_id() == kClusterId);
  CHECK(dir->hard_state() == HardState{Term{5}, MemberId{3}, Index{9}});
  const InitialState initial = dir->initial_state(kNoCheckpoint);
  CHECK(initial.hard_state.term == Term{5});
  CHECK(initial.hard_state.vote == MemberId{3});
  CHECK(initial.hard_state.commit == Index{3});  // the hint is above the last entry
  CHECK(initial.last_index == Index{3});
  REQUIRE(initial.term_runs.size() == 1);
  CHECK(initial.term_runs[0].term == Term{4});
  CHECK(ReadAll(dir->log()) == TestEntries(1, 3, 4, 10));
}

TEST_CASE("a directory keeps the directory epoch that it was formatted with") {
  FaultEnv env;
  CHECK(Open(&env)->directory_epoch() == kEpoch);
  auto dir = Require(DataDir::Open(&env, kPath, kMember, {16384}, kEpoch + 1));
  CHECK(dir->directory_epoch() == kEpoch);
  Require(dir->SetClusterId(kClusterId));
  dir.reset();
  CHECK(Open(&env)->directory_epoch() == kEpoch);
}

TEST_CASE("a directory epoch that is chosen later is kept, and needs no space on a full disk") {
  FaultEnv env;
  auto dir = Open(&env);
  Require(dir->SetClusterId(kClusterId));
  env.SetCapacity(env.used_bytes());
  Require(dir->SetDirectoryEpoch(uint64_t{1} << 63));
  dir.reset();
  env.SetCapacity(~uint64_t{0});
  env.Crash(0);
  dir = Open(&env);
  CHECK(dir->directory_epoch() == uint64_t{1} << 63);
  CHECK(dir->cluster_id() == kClusterId);
}

Membership Members(std::initializer_list<uint32_t> voters,
                   std::initializer_list<uint32_t> learners = {}) {
  Membership membership;
  for (uint32_t id : voters) membership.voters.emplace_back(id);
  for (uint32_t id : learners) membership.learners.emplace_back(id);
  return membership;
}

// Calls SettleMembership. If `is_full`, then writes a hard state in which the member is normal and
// has voted.
absl::StatusOr<Membership> Settle(Env* env, const Membership& configured, bool is_full = true) {
  auto dir = Open(env);
  auto settled = dir->SettleMembership(configured, kNoCheckpoint);
  if (settled.ok() && is_full && dir->hard_state().term == Term{0}) {
    Require(dir->WriteHardState({Term{1}, kMember, Index{0}}, Index{0}));
  }
  return settled;
}

TEST_CASE("the membership with which a member was started is kept from its first vote on") {
  FaultEnv env;
  const Membership bootstrap = Members({1, 2, 3}, {4});
  CHECK(Require(Settle(&env, bootstrap)) == bootstrap);
  env.Crash(0);
  for (const Membership& other : {Members({1, 2}, {4}), Members({1, 2, 3}), Members({1, 2, 3, 4}),
                                  Members({2, 3, 4}, {1}), Members({2})}) {
    const absl::Status refused = Settle(&env, other).status();
    CHECK(absl::IsFailedPrecondition(refused));
    using Catch::Matchers::Contains;
    CHECK_THAT(std::string(refused.message()), Contains(kPath) &&
                                                   Contains("voters 1, 2, 3 and observers 4") &&
                                                   Contains("Restore those lines"));
  }
  // Different addresses are accepted.
  Membership moved = bootstrap;
  moved.addresses[MemberId{1}] = "elsewhere:2888";
  CHECK(Settle(&env, moved).ok());
}

TEST_CASE("until its first vote a member may be started with other members") {
  FaultEnv env;
  Require(Settle(&env, Members({1, 2}), /*is_full=*/false).status());
  Require(Settle(&env, Members({1, 2, 3})).status());
  CHECK(absl::IsFailedPrecondition(Settle(&env, Members({1, 2})).status()));
}

TEST_CASE("what the log says of the membership takes the place of what is kept") {
  FaultEnv env;
  Require(Settle(&env, Members({1, 2, 3})).status());
  const auto append = [&](uint64_t index, const Membership& membership) {
    auto dir = Open(&env);
    const Entry entry{Index{index}, Term{1}, EntryKind::kMembership,
                      Slice(EncodeMembership(membership))};
    Require(dir->log().Append(std::vector<Entry>{entry}));
    Require(dir->log().Sync());
  };
  Membership joint = Members({2, 3, 4});
  joint.outgoing = Members({1, 2, 3}).voters;
  append(1, joint);
  // The membership in the log is not known to be committed.
  CHECK(Settle(&env, Members({2, 3, 4})).ok());
  // The membership before that entry stays as it was.
  CHECK(Require(Settle(&env, Members({1, 2, 3}))) == Members({1, 2, 3}));
  CHECK(absl::IsFailedPrecondition(Settle(&env, Members({1, 2, 3, 4})).status()));
  append(2, Members({2, 3, 4}));
  Require(Open(&env)->WriteHardState({Term{1}, kMember, Index{2}}, Index{2}));
  CHECK(Settle(&env, Members({2, 3, 4})).ok());
  CHECK(absl::IsFailedPrecondition(Settle(&env, Members({1, 2, 3})).status()));
  // A removed member is not refused.
  append(3, Members({3, 4}));
  Require(Open(&env)->WriteHardState({Term{1}, kMember, Index{3}}, Index{3}));
  CHECK(Settle(&env, Members({2, 3, 4})).ok());
}

TEST_CASE("what a checkpoint says of the membership takes the place of what is kept") {
  FaultEnv env;
  Require(Settle(&env, Members({1, 2, 3})).status());
  const SnapshotMeta checkpoint{Index{9}, Term{1}, Members({1, 2, 3, 4, 5})};
  auto dir = Open(&env);
  CHECK(dir->SettleMembership(Members({1, 2, 3, 4, 5}), checkpoint).ok());
  CHECK(absl::IsFailedPrecondition(dir->SettleMembership(Members({1, 2, 3}), checkpoint).status()));
}

TEST_CASE(
    "once the log has addresses, a start takes no notice of the members of the configuration") {
  FaultEnv env;
  Require(Settle(&env, Members({1, 2, 3})).status());
  SnapshotMeta checkpoint{Index{9}, Term{1}, Members({1, 2, 3, 4, 5})};
  auto dir = Open(&env);
  CHECK_FALSE(dir->SettleMembership(Members({1, 2, 3}), checkpoint).ok());
  for (const MemberId member : checkpoint.membership.Members()) {
    checkpoint.membership.addresses[member] = "a";
  }
  CHECK(dir->SettleMembership(Members({1, 2, 3}), checkpoint).ok());
  // A server that is to run alone is no member of that cluster.
  Membership alone;
  alone.voters = {kMember};
  CHECK_FALSE(dir->SettleMembership(alone, checkpoint, /*runs_alone=*/true).ok());
  // One whose file names only itself may have grown since.
  CHECK(dir->SettleMembership(alone, checkpoint).ok());
}

TEST_CASE("a directory of a version that kept no membership takes it from the configuration once") {
  FaultEnv env;
  {
    auto dir = Open(&env);
    Require(dir->WriteHardState({Term{4}, MemberId{3}, Index{2}}, Index{0}));
    Require(dir->log().Append(TestEntries(1, 3, 4, 10)));
    Require(dir->log().Sync());
  }
  REQUIRE_FALSE(env.Exists(kPath + "/membership"));
  SECTION("whom it voted for must be a voter") {
    const absl::Status refused = Settle(&env, Members({1, 2, 4})).status();
    CHECK(absl::IsFailedPrecondition(refused));
    CHECK_FALSE(env.Exists(kPath + "/membership"));
  }
  SECTION("a full disk does not keep it from starting") {
    env.SetCapacity(env.used_bytes());
    CHECK(Settle(&env, Members({1, 2, 3})).ok());
    env.SetCapacity(~uint64_t{0});
  }
  Require(Settle(&env, Members({1, 2, 3})).status());
  env.Crash(0);
  CHECK(absl::IsFailedPrecondition(Settle(&env, Members({1, 2, 3, 4, 5})).status()));
}

TEST_CASE("a membership that is damaged is not guessed") {
  FaultEnv env;
  Require(Settle(&env, Members({1, 2, 3})).status());
  const std::string whole = ReadFile(&env, kPath + "/membership");
  for (size_t i = 0; i < whole.size(); ++i) {
    CAPTURE(i);
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ 1);
    MakeFile(&env, "membership", bytes);
    CHECK_FALSE(Settle(&env, Members({1, 2, 3})).ok());
  }
  MakeFile(&env, "membership", whole.substr(0, whole.size() - 1));
  CHECK(absl::IsDataLoss(Settle(&env, Members({1, 2, 3})).status()));
}

TEST_CASE(
    "a directory of format version 1 is opened as the oldest of all, and in the normal state") {
  FaultEnv env;
  {
    auto dir = Open(&env);
    Require(dir->WriteHardState({Term{1}, kMember, Index{0}}, Index{0}));
  }
  // The hard state of a normal member has format version 1 anyway.
  CHECK(ReadFile(&env, kPath + "/hard_state")[8] == 1);
  std::string bytes = ReadFile(&env, kPath + "/identity");
  bytes.resize(bytes.size() - 12);
  bytes[8] = 1;
  LittleEndianWriter(&bytes).Int(Crc32c(bytes));
  MakeFile(&env, "identity", bytes);
  auto dir = Open(&env);
  CHECK(dir->directory_epoch() == 1);
  CHECK(dir->hard_state() == HardState{Term{1}, kMember, Index{0}, MemberState::kNormal});
  Require(dir->SetClusterId(kClusterId));
  dir.reset();
  CHECK(Open(&env)->directory_epoch() == 1);
}

TEST_CASE("the member state is part of the hard state") {
  FaultEnv env;
  for (MemberState member_state :
       {MemberState::kNew, MemberState::kRecovering, MemberState::kNormal}) {
    const HardState state{Term{3}, kNoMember, Index{0}, member_state};
    Require(Open(&env)->WriteHardState(state, Index{0}));
    env.Crash(0);
    CHECK(Open(&env)->hard_state() == state);
  }
}

// Opens a directory in term 4 with entries 1 to 20 of term 3, which are known to be durable.
std::unique_ptr<DataDir> OpenFilled(Env* env) {
  auto dir = Open(env);
  Require(dir->WriteHardState({Term{4}, MemberId{3}, Index{10}}, Index{0}));
  Require(dir->log().Append(TestEntries(1, 20, 3, 1000)));
  Require(dir->log().Sync());
  Require(dir->WriteHardState({Term{4}, MemberId{3}, Index{10}}, Index{20}));
  return dir;
}

TEST_CASE("a log that holds the checkpoint's entry is left alone") {
  FaultEnv env;
  auto dir = OpenFilled(&env);
  const uint64_t operations = env.operations();
  Require(dir->AlignLog(Index{0}, Term{0}));
  Require(dir->AlignLog(Index{20}, Term{3}));
  Require(dir->AlignLog(Index{15}, Term{3}));
  CHECK(env.operations() == operations);
  const SnapshotMeta checkpoint{Index{15}, Term{3}, {{kMember}, {}, {}, {}}, 2};
  const InitialState initial = dir->initial_state(checkpoint);
  CHECK(initial.hard_state == HardState{Term{4}, MemberId{3}, Index{15}});
  CHECK(initial.applied == Index{15});
  CHECK(initial.checkpoint == checkpoint);
  CHECK(initial.base_index == Index{0});
  CHECK(initial.last_index == Index{20});
}

TEST_CASE("a log that does not hold the checkpoint's entry is reset behind it, durably") {
  FaultEnv env;
  auto dir = OpenFilled(&env);
  SnapshotMeta checkpoint{Index{50}, Term{4}, {{kMember}, {}, {}, {}}, 2};
  SECTION("it ends before") {}
  SECTION("it has another one") { checkpoint.index = Index{12}; }
  SECTION("the checkpoint is of a term that the hard state does not know") {
    checkpoint.term = Term{6};
  }
  Require(dir->AlignLog(checkpoint.index, checkpoint.term));
  for (int life = 0; life < 2; ++life) {
    const InitialState initial = dir->initial_state(checkpoint);
    CHECK(initial.hard_state.term == checkpoint.term);
    CHECK(initial.hard_state.vote == (checkpoint.term == Term{4} ? MemberId{3} : kNoMember));
    CHECK(initial.hard_state.commit == checkpoint.index);
    CHECK(initial.base_index == checkpoint.index);
    CHECK(initial.base_term == checkpoint.term);
    CHECK(initial.last_index == checkpoint.index);
    CHECK(initial.applied == checkpoint.index);
    CHECK(initial.term_runs.empty());
    dir.reset();
    env.Crash(0);
    dir = Open(&env);
    Require(dir->AlignLog(checkpoint.index, checkpoint.term));
  }
  const uint64_t next = checkpoint.index.value() + 1;
  Require(dir->log().Append(TestEntries(next, next, checkpoint.term.value(), 10)));
  Require(dir->log().Sync());
  dir.reset();
  CHECK(Open(&env)->log().last_index() == Index{next});
}

TEST_CASE("a log that begins behind the checkpoint is data loss") {
  FaultEnv env;
  auto dir = OpenFilled(&env);
  Require(dir->log().CompactTo(Index{20}));
  const Index base = dir->log().base_index();
  REQUIRE(base > Index{5});
  Require(dir->AlignLog(base, Term{3}));
  std::string found;
  absl::Status error;
  SECTION("the checkpoint is an old one") {
    error = dir->AlignLog(base - 1, Term{3});
    found = absl::StrCat("ends with entry ", base.value() - 1);
  }
  SECTION("there is none") {
    error = dir->AlignLog(Index{0}, Term{0});
    found = "checkpoint of the state machine is missing";
  }
  SECTION("it is of another history") {
    error = dir->AlignLog(base, Term{4});
    found = "of term 4";
  }
  CAPTURE(error.ToString());
  CHECK(absl::IsDataLoss(error));
  CHECK(Contains(error, kPath + "/log"));
  CHECK(Contains(error, found));
  CHECK(Contains(error, absl::StrCat("begins behind entry ", base.value(), " of term 3")));
  CHECK(Contains(error, "quorate rebuild"));
}

TEST_CASE("a directory in use is refused") {
  FaultEnv env;
  auto dir = Open(&env);
  const absl::Status error = OpenError(&env);
  CHECK(absl::IsFailedPrecondition(error));
  CHECK(Contains(error, kPath));
  CHECK(Contains(error, "in use by a running server"));
  dir.reset();
  CHECK(OpenError(&env).ok());
}

TEST_CASE("another member's directory is refused, naming both") {
  FaultEnv env;
  Open(&env);
  const absl::Status error = OpenError(&env, MemberId{3});
  CHECK(absl::IsFailedPrecondition(error));
  CHECK(Contains(error, kPath));
  CHECK(Contains(error, "belongs to member 2"));
  CHECK(Contains(error, "this server is member 3"));
  CHECK(OpenError(&env).ok());
}

TEST_CASE("a directory is bound to one cluster") {
  FaultEnv env;
  auto dir = Open(&env);
  CHECK(absl::IsInvalidArgument(dir->SetClusterId("short")));
  Require(dir->SetClusterId(kClusterId));
  const uint64_t operations = env.operations();
  Require(dir->SetClusterId(kClusterId));
  CHECK(env.operations() == operations);
  const absl::Status error = dir->SetClusterId(kOtherClusterId);
  CHECK(absl::IsFailedPrecondition(error));
  CHECK(Contains(error, "30313233343536373839616263646566"));
  CHECK(Contains(error, "66656463626139383736353433323130"));
  CHECK(dir->cluster_id() == kClusterId);
}

TEST_CASE("what others leave in a data directory does not stop formatting") {
  FaultEnv env;
  for (const char* name : {"myid", "zoo.cfg", "zoo.cfg.dynamic", "server.log"}) {
    MakeFile(&env, name);
  }
  Require(env.CreateDirectories(kPath + "/lost+found"));
  Open(&env);
  CHECK(ReadFile(&env, kPath + "/myid") == "x");
}

TEST_CASE("a directory that is somebody else's is refused and left alone") {
  FaultEnv env;
  std::string named;
  SECTION("ZooKeeper's") {
    Require(env.CreateDirectories(kPath + "/version-2"));
    named = "ZooKeeper data directory";
  }
  SECTION("any other") {
    MakeFile(&env, "photos");
    named = "photos";
  }
  SECTION("with a log of its own") {
    Require(env.CreateDirectories(kPath + "/log"));
    named = "it holds log";
  }
  const std::vector<std::string> before = Require(env.List(kPath));
  const absl::Status error = OpenError(&env);
  CHECK(absl::IsFailedPrecondition(error));
  CHECK(Contains(error, named));
  CHECK(Contains(error, "empty directory"));
  CHECK(Require(env.List(kPath)) == before);
}

TEST_CASE("a newer format is refused by its version, a damaged identity as damage") {
  FaultEnv env;
  Open(&env);
  std::string bytes = ReadFile(&env, kPath + "/identity");
  SECTION("newer") {
    bytes.resize(bytes.size() - 4);
    bytes[8] = static_cast<char>(kDataDirFormatVersion + 1);
    bytes += "unknown";
    LittleEndianWriter(&bytes).Int(Crc32c(bytes));
    MakeFile(&env, "identity", bytes);
    const absl::Status error = OpenError(&env);
    CHECK(absl::IsFailedPrecondition(error));
    CHECK(Contains(error, "format version 3, this program knows up to 2"));
  }
  SECTION("damaged") {
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      env.FlipBit(kPath + "/identity", bit);
      const absl::Status error = OpenError(&env);
      CAPTURE(bit, error.ToString());
      REQUIRE(absl::IsDataLoss(error));
      REQUIRE(Contains(error, kPath + "/identity"));
      env.FlipBit(kPath + "/identity", bit);
    }
    CHECK(OpenError(&env).ok());
  }
  SECTION("empty") {
    MakeFile(&env, "identity", "");
    CHECK(absl::IsDataLoss(OpenError(&env)));
  }
}

TEST_CASE("parts of a used directory that vanished are data loss") {
  FaultEnv env;
  {
    auto dir = Open(&env);
    Require(dir->WriteHardState({Term{1}, kMember, Index{0}}, Index{0}));
    Require(dir->log().Append(TestEntries(1, 3, 1, 10)));
    Require(dir->log().Sync());
  }
  std::string vanished;
  SECTION("identity") { vanished = kPath + "/identity"; }
  SECTION("hard state") { vanished = kPath + "/hard_state"; }
  SECTION("log") { vanished = SegmentFiles(&env, kPath + "/log").front(); }
  Require(env.Remove(vanished));
  const absl::Status error = OpenError(&env);
  CHECK(absl::IsDataLoss(error));
  CHECK(Contains(error, "is missing"));
  CHECK(Contains(error, "quorate rebuild"));
}

TEST_CASE("damage to the log below the mark in the hard state is data loss") {
  FaultEnv env;
  {
    auto dir = Open(&env);
    Require(dir->WriteHardState({Term{1}, kMember, Index{0}}, Index{0}));
    Require(dir->log().Append(TestEntries(1, 3, 1, 10)));
    Require(dir->log().Sync());
    Require(dir->WriteHardState({Term{1}, kMember, Index{0}}, Index{3}));
  }
  env.FlipBit(SegmentFiles(&env, kPath + "/log").front(), (4096 + 2 * 48 + 4) * 8);
  const absl::Status error = OpenError(&env);
  CHECK(absl::IsDataLoss(error));
  CHECK(Contains(error, "entry 3 at offset 4192"));
}

TEST_CASE("a hard state that is older than the log is data loss") {
  FaultEnv env;
  auto dir = Open(&env);
  Require(dir->WriteHardState({Term{1}, kMember, Index{0}}, Index{0}));
  const std::string old = ReadFile(&env, kPath + "/hard_state");
  Require(dir->WriteHardState({Term{2}, kMember, Index{0}}, Index{0}));
  Require(dir->log().Append(TestEntries(1, 1, 2, 10)));
  Require(dir->log().Sync());
  dir.reset();
  MakeFile(&env, "hard_state", old);
  const absl::Status error = OpenError(&env);
  CHECK(absl::IsDataLoss(error));
  CHECK(Contains(error, "knows terms up to 1 only"));
}

TEST_CASE("damage to either copy of the hard state loses nothing") {
  // Damage to the newer copy is tested, too: both hold the last state after a write.
  for (uint64_t writes = 1; writes <= 4; ++writes) {
    for (size_t copy : {0, 1}) {
      CAPTURE(writes, copy);
      FaultEnv env;
      HardState state;
      {
        auto dir = Open(&env);
        for (uint64_t i = 1; i <= writes; ++i) {
          state = {Term{i}, MemberId{static_cast<uint32_t>(i)}, Index{i}};
          Require(dir->WriteHardState(state, Index{0}));
        }
      }
      env.Kill();
      const std::string path = kPath + "/hard_state";
      env.FlipBit(path, (copy * kHardStateCopyBytes + 20) * 8);
      CHECK(Open(&env)->hard_state() == state);
      // Open made both copies whole again.
      env.FlipBit(path, ((1 - copy) * kHardStateCopyBytes + 20) * 8);
      CHECK(Open(&env)->hard_state() == state);
      env.FlipBit(path, 20 * 8);
      env.FlipBit(path, (kHardStateCopyBytes + 20) * 8);
      const absl::Status error = OpenError(&env);
      CHECK(absl::IsDataLoss(error));
      CHECK(Contains(error, path));
      CHECK(Contains(error, "both copies"));
    }
  }
}

TEST_CASE("each write of the hard state is one sync, and an error in it is final") {
  FaultEnv env;
  auto dir = Open(&env);
  const uint64_t syncs = env.syncs();
  Require(dir->WriteHardState({Term{1}, kMember, Index{0}}, Index{0}));
  CHECK(env.syncs() == syncs + 1);
  env.FailSyncAfter(0, absl::InternalError("bad sync"));
  CHECK(Contains(dir->WriteHardState({Term{2}, kMember, Index{0}}, Index{0}), "bad sync"));
  CHECK(Contains(dir->WriteHardState({Term{3}, kMember, Index{0}}, Index{0}), "bad sync"));
  CHECK(dir->hard_state().term == Term{1});
}

TEST_CASE("a hard state of a newer version is refused") {
  FaultEnv env;
  Open(&env);
  std::string bytes = ReadFile(&env, kPath + "/hard_state");
  for (size_t copy : {0, 1}) {
    char* page = bytes.data() + copy * kHardStateCopyBytes;
    page[8] = 3;
    StoreInt<std::endian::little>(page + kHardStateCopyBytes - 4,
                                  Crc32c({page, kHardStateCopyBytes - 4}));
  }
  MakeFile(&env, "hard_state", bytes);
  const absl::Status error = OpenError(&env);
  CHECK(absl::IsFailedPrecondition(error));
  CHECK(Contains(error, "format version 3"));
}

}  // namespace
}  // namespace quorate::consensus
