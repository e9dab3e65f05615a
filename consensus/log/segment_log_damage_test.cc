// SPDX-License-Identifier: Apache-2.0

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "consensus/log/record.h"
#include "consensus/log/segment.h"
#include "consensus/log/segment_log.h"
#include "consensus/log/testing/fault_env.h"
#include "consensus/log/testing/log_test_util.h"
#include "consensus/log/testing/segment_log_test_util.h"

namespace quorate::consensus {
namespace {

void WriteRaw(Env* env, const std::string& path, uint64_t offset, std::string_view bytes) {
  auto file = Require(env->OpenFile(path, /*create=*/false));
  Require(file->WriteAt(offset, {&bytes, 1}));
  Require(file->Sync());
}

// Sets the bytes to zero, as if a power failure had prevented their write.
void Tear(Env* env, const std::string& path, uint64_t begin, uint64_t end) {
  WriteRaw(env, path, begin, std::string(end - begin, '\0'));
}

TEST_CASE("a torn tail is cut, and no stale record behind it can come back") {
  FaultEnv env;
  auto log = Open(&env);
  AppendSynced(log.get(), TestEntries(1, 4, 1, 100));
  Require(log->Append(TestEntries(5, 8, 1, 100)));
  log.reset();
  env.Kill();
  const std::string file = SegmentFiles(&env, kPath).front();
  const std::vector<uint64_t> offsets = RecordOffsets(&env, file);
  REQUIRE(offsets.size() == 9);
  Tear(&env, file, offsets[5], offsets[6]);  // entry 6; 7 and 8 stay valid, and prove only 4
  log = Open(&env, Index{4});
  CHECK(log->last_index() == Index{5});
  REQUIRE(log->cut_at_open().has_value());
  CHECK(log->cut_at_open()->path == file);
  CHECK(log->cut_at_open()->offset == offsets[5]);
  CHECK(log->cut_at_open()->index == Index{6});
  AppendSynced(log.get(), {TestEntry(6, 2, 100)});
  log.reset();
  env.Crash(1);
  log = Open(&env, Index{6});
  CHECK(log->last_index() == Index{6});
  CHECK_FALSE(log->cut_at_open().has_value());
  CHECK(RecordOffsets(&env, file).size() == 6);
  CHECK(SegmentFiles(&env, kPath).size() == 2);
}

TEST_CASE("what was torn does not come back, also if the disk fails while it is removed") {
  constexpr SegmentLogOptions kLarge{kSegmentHeaderBytes + 8192};
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    FaultEnv env;
    AppendSynced(Open(&env, kUnknown, kLarge).get(), TestEntries(1, 4, 1, 100));
    const std::string file = SegmentFiles(&env, kPath).front();
    const uint64_t end = RecordOffsets(&env, file).back();
    WriteRaw(&env, file, end + 512, std::string(2048, 'g'));  // of a record that began at `end`
    env.Kill();
    // From now on reads return the zeros, but they are not on the disk.
    env.FailSyncAfter(0, absl::InternalError("input/output error"));
    REQUIRE_FALSE(SegmentLog::Open(&env, kPath, kLarge, Index{4}).ok());
    env.Kill();
    auto log = Open(&env, Index{4}, kLarge);
    Require(log->Append(std::vector<Entry>{TestEntry(5, 2, 2500)}));
    log.reset();
    env.Crash(seed);
    log = Open(&env, Index{4}, kLarge);
    CHECK((log->last_index() == Index{4} || log->last_index() == Index{5}));
  }
}

TEST_CASE("damage at or below the durable mark is data loss, and says where") {
  // Entries 1 to 20 in two segments, in five batches of four; then one more, whose record says that
  // 20 were durable.
  FaultEnv pristine;
  const bool knows = GENERATE(true, false);
  auto build = [&](FaultEnv* env) {
    auto log = Open(env);
    for (uint64_t i = 1; i <= 20; i += 4) AppendSynced(log.get(), TestEntries(i, i + 3, 1, 100));
    if (!knows) AppendSynced(log.get(), {TestEntry(21, 1, 100)});
  };
  build(&pristine);
  const std::vector<std::string> files = SegmentFiles(&pristine, kPath);
  REQUIRE(files.size() == 2);
  // If `knows`, the caller knows the durable index; otherwise only the last record has it.
  const Index durable = knows ? Index{20} : kUnknown;
  uint64_t index = 0;
  for (const std::string& file : files) {
    const std::vector<uint64_t> offsets = RecordOffsets(&pristine, file);
    for (size_t i = 0; i + 1 < offsets.size() && ++index <= 20; ++i) {
      for (uint64_t at : {offsets[i], offsets[i] + 9, offsets[i] + 60, offsets[i + 1] - 1}) {
        FaultEnv env;
        build(&env);
        env.FlipBit(file, at * 8 + 3);
        const absl::Status error = OpenError(&env, durable);
        CAPTURE(index, at, error.ToString());
        REQUIRE(absl::IsDataLoss(error));
        CHECK(Contains(error, file));
        CHECK(Contains(error, absl::StrCat("entry ", index, " ")));
        CHECK(Contains(error, absl::StrCat("offset ", offsets[i], " ")));
        CHECK(Contains(error, "quorate verify"));
      }
    }
  }
  CHECK(index >= 20);
}

TEST_CASE("damage to the last records is data loss, also if no mark says that they were durable") {
  FaultEnv env;
  AppendSynced(Open(&env).get(), TestEntries(1, 4, 1, 100));
  const std::string file = SegmentFiles(&env, kPath).front();
  const std::vector<uint64_t> offsets = RecordOffsets(&env, file);
  for (size_t i = 0; i < 4; ++i) {
    for (uint64_t bit = offsets[i] * 8; bit < offsets[i + 1] * 8; ++bit) {
      env.FlipBit(file, bit);
      const absl::Status error = OpenError(&env);
      env.FlipBit(file, bit);
      CAPTURE(i, bit, error.ToString());
      REQUIRE(absl::IsDataLoss(error));
      CHECK(Contains(
          error, absl::StrCat(file, ": the record of entry ", i + 1, " at offset ", offsets[i])));
    }
  }
  CHECK(Open(&env)->last_index() == Index{4});
}

TEST_CASE("a bit that turns over where nothing was written does no harm") {
  for (uint64_t bit = 0; bit < 8 * 200; ++bit) {
    FaultEnv env;
    AppendSynced(Open(&env).get(), TestEntries(1, 4, 1, 100));
    const std::string file = SegmentFiles(&env, kPath).front();
    env.FlipBit(file, RecordOffsets(&env, file).back() * 8 + bit);
    auto log = Open(&env);
    REQUIRE(log->last_index() == Index{4});
    AppendSynced(log.get(), {TestEntry(5, 1, 100)});
    log.reset();
    env.Crash(bit);
    REQUIRE(Open(&env)->last_index() == Index{5});
  }
}

TEST_CASE("a damaged header of a segment with records is data loss") {
  for (int which : {0, 1}) {
    FaultEnv env;
    AppendSynced(Open(&env).get(), TestEntries(1, 15, 1, 100));
    const std::vector<std::string> files = SegmentFiles(&env, kPath);
    REQUIRE(files.size() == 2);
    env.FlipBit(files[static_cast<size_t>(which)], 100 * 8);
    const absl::Status error = OpenError(&env);
    CHECK(absl::IsDataLoss(error));
    CHECK(Contains(error, files[static_cast<size_t>(which)]));
  }
}

TEST_CASE("a missing segment is data loss") {
  FaultEnv env;
  AppendSynced(Open(&env).get(), TestEntries(1, 40, 1, 100));
  const std::vector<std::string> files = SegmentFiles(&env, kPath);
  REQUIRE(files.size() == 4);
  const size_t which = GENERATE(0, 1, 2, 3);
  Require(env.Remove(files[which]));
  CHECK(absl::IsDataLoss(OpenError(&env, which == 3 ? Index{40} : kUnknown)));
}

TEST_CASE("a log that vanished altogether is data loss") {
  FaultEnv env;
  CHECK(absl::IsDataLoss(OpenError(&env, Index{1})));
}

TEST_CASE("a segment renamed to another's place is data loss") {
  FaultEnv env;
  AppendSynced(Open(&env).get(), TestEntries(1, 25, 1, 100));
  const std::vector<std::string> files = SegmentFiles(&env, kPath);
  REQUIRE(files.size() == 3);
  SECTION("instead of it") { Require(env.Rename(files[2], files[1])); }
  SECTION("with the same generation") {
    Require(env.Rename(files[2], kPath + "/00000000000000000023.000000000002.log"));
  }
  CHECK(absl::IsDataLoss(OpenError(&env)));
}

TEST_CASE("a segment whose creation was interrupted is removed") {
  FaultEnv env;
  AppendSynced(Open(&env).get(), TestEntries(1, 5, 1, 100));
  const std::string unfinished =
      absl::StrCat(kPath, "/", ToFileName({Index{4}, 2}));  // of a truncation after 3
  Require(Require(env.OpenFile(unfinished, /*create=*/true))->Preallocate(5000));
  SECTION("it holds nothing") {
    CHECK(ReadAll(*Open(&env, Index{3})) == TestEntries(1, 5, 1, 100));
    CHECK_FALSE(env.Exists(unfinished));
  }
  SECTION("but a durable mark at its entries says that it held them") {
    CHECK(absl::IsDataLoss(OpenError(&env, Index{5})));
    CHECK(env.Exists(unfinished));
  }
}

TEST_CASE("an unfinished segment proves that what was before it had been durable") {
  FaultEnv env;
  AppendSynced(Open(&env).get(), TestEntries(1, 5, 1, 100));
  const std::string file = SegmentFiles(&env, kPath).front();
  const std::vector<uint64_t> offsets = RecordOffsets(&env, file);
  Tear(&env, file, offsets[4], offsets[5]);  // entry 5
  const SegmentName name = GENERATE(SegmentName{Index{6}, 2}, SegmentName{Index{5}, 2});
  Require(env.OpenFile(absl::StrCat(kPath, "/", ToFileName(name)), /*create=*/true));
  // The segment of a truncation after 4 proves that entries up to 4 were durable, and no more.
  CHECK(absl::IsDataLoss(SegmentLog::Open(&env, kPath, kSmall, kUnknown).status()) ==
        (name.first == Index{6}));
}

TEST_CASE("what a newer version wrote is refused, not cut") {
  FaultEnv env;
  AppendSynced(Open(&env).get(), TestEntries(1, 2, 1, 100));
  const std::string file = SegmentFiles(&env, kPath).front();
  SECTION("another kind of entry") {
    const uint64_t at = RecordOffsets(&env, file).back();
    Entry entry = TestEntry(3, 1, 8);
    entry.kind = static_cast<EntryKind>(9);
    std::string record(kRecordHeaderBytes, '\0');
    EncodeRecordHeader(entry, Index{2}, {1, at}, record.data());
    record.append(entry.payload.view()).append(RecordPadding(entry.payload.size()));
    WriteRaw(&env, file, at, record);
    const absl::Status error = OpenError(&env);
    CHECK(absl::IsFailedPrecondition(error));
    CHECK(Contains(error, "entry 3"));
    CHECK(Contains(error, "kind 9"));
  }
  SECTION("another format") {
    std::string header = EncodeSegmentHeader({Index{1}, 1}, Term{0});
    header[8] = 3;
    StoreInt<std::endian::little>(header.data() + header.size() - 4,
                                  Crc32c(std::string_view(header).substr(0, header.size() - 4)));
    WriteRaw(&env, file, 0, header);
    const absl::Status error = OpenError(&env);
    CHECK(absl::IsFailedPrecondition(error));
    CHECK(Contains(error, "version 3"));
  }
}

TEST_CASE("a read that meets damage says so") {
  FaultEnv env;
  auto log = Open(&env);
  AppendSynced(log.get(), TestEntries(1, 5, 1, 100));
  const std::string file = SegmentFiles(&env, kPath).front();
  const uint64_t offset = RecordOffsets(&env, file)[2];
  env.FlipBit(file, (offset + 40) * 8);
  CHECK(Require(log->Read(Index{1}, Index{2}, 0)).size() == 1);
  const absl::Status error = log->Read(Index{3}, Index{3}, 0).status();
  CHECK(absl::IsDataLoss(error));
  CHECK(Contains(error, absl::StrCat(file, ": the record of entry 3 at offset ", offset)));
}

TEST_CASE("a segment that is missing after a compaction is data loss, with the way out") {
  FaultEnv env;
  auto log = OpenFilled(&env);
  Require(log->CompactTo(Index{15}));
  Require(log->DoChores());
  Require(log->Sync());
  log.reset();
  const std::vector<std::string> files = SegmentFiles(&env, kPath);
  REQUIRE(files.size() == 3);
  const size_t which = GENERATE(0, 1, 2);
  Require(env.Remove(files[which]));
  const absl::Status error = OpenError(&env, which == 2 ? Index{40} : kUnknown);
  CAPTURE(error.ToString());
  CHECK(absl::IsDataLoss(error));
  CHECK(Contains(error, "missing"));
  CHECK(Contains(error, "quorate rebuild"));
}

TEST_CASE("damage is found in a compacted and in a reset log as in any other") {
  const bool reset = GENERATE(false, true);
  auto build = [&](FaultEnv* env) {
    auto log = OpenFilled(env);
    if (reset) {
      Require(log->Reset(Index{33}, Term{2}));
      AppendSynced(log.get(), TestEntries(34, 40, 2, 100));
    } else {
      Require(log->CompactTo(Index{33}));
      Require(log->DoChores());
    }
    Require(log->Sync());
    AppendSynced(log.get(), {TestEntry(41, 2, 100)});  // its record says that 40 was durable
  };
  FaultEnv pristine;
  build(&pristine);
  const std::vector<std::string> files = SegmentFiles(&pristine, kPath);
  REQUIRE(files.size() == 1);
  const std::vector<uint64_t> offsets = RecordOffsets(&pristine, files[0]);
  REQUIRE(offsets.size() == 9);
  for (size_t i = 0; i < 7; ++i) {
    for (uint64_t at : {offsets[i], offsets[i] + 9, offsets[i] + 60, offsets[i + 1] - 1}) {
      FaultEnv env;
      build(&env);
      env.FlipBit(files[0], at * 8 + 3);
      const absl::Status error = OpenError(&env);
      CAPTURE(i, at, error.ToString());
      REQUIRE(absl::IsDataLoss(error));
      CHECK(Contains(error, absl::StrCat("entry ", 34 + i, " at offset ", offsets[i], " ")));
    }
  }
  for (uint64_t at : {0, 12, 20, 30, 100, 4095}) {
    FaultEnv env;
    build(&env);
    env.FlipBit(files[0], at * 8);
    CHECK(absl::IsDataLoss(OpenError(&env)));
  }
}

TEST_CASE("a reset log whose only header is damaged is not taken for a new one") {
  FaultEnv env;
  auto log = OpenFilled(&env);
  Require(log->Reset(Index{50}, Term{3}));
  Require(log->Sync());
  log.reset();
  env.FlipBit(SegmentFiles(&env, kPath).front(), 100);
  CHECK(absl::IsDataLoss(OpenError(&env)));
}

}  // namespace
}  // namespace quorate::consensus
