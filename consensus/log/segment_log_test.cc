#include "consensus/log/segment_log.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "consensus/log/fault_env.h"
#include "consensus/log/log_test_util.h"
#include "consensus/log/record.h"
#include "consensus/log/segment.h"

namespace quorate::consensus {
namespace {

const std::string kPath = "/d/log";
// Room for a header and some ten small records.
constexpr SegmentLogOptions kSmall{kSegmentHeaderBytes + 1500};
constexpr Index kUnknown{0};

std::unique_ptr<SegmentLog> Open(Env* env, Index durable = kUnknown,
                                 SegmentLogOptions options = kSmall) {
  return Require(SegmentLog::Open(env, kPath, options, durable));
}

absl::Status OpenError(Env* env, Index durable = kUnknown) {
  return SegmentLog::Open(env, kPath, kSmall, durable).status();
}

void AppendSynced(SegmentLog* log, const std::vector<Entry>& entries) {
  Require(log->Append(entries));
  Require(log->Sync());
}

// Offsets of the records of a segment file, and where they end.
std::vector<uint64_t> RecordOffsets(Env* env, const std::string& path) {
  auto file = Require(env->OpenFile(path, /*create=*/false));
  std::string bytes(Require(file->Size()), '\0');
  Require(file->ReadAt(0, bytes.size(), bytes.data()));
  const SegmentName name = *ParseSegmentFileName(path.substr(path.rfind('/') + 1));
  std::vector<uint64_t> offsets{kSegmentHeaderBytes};
  for (;;) {
    const uint64_t at = offsets.back();
    const RecordView record =
        ParseRecord(std::string_view(bytes).substr(at), {name.generation, at});
    if (record.state != RecordView::State::kValid) return offsets;
    offsets.push_back(at + record.size);
  }
}

void WriteRaw(Env* env, const std::string& path, uint64_t offset, std::string_view bytes) {
  auto file = Require(env->OpenFile(path, /*create=*/false));
  Require(file->WriteAt(offset, {&bytes, 1}));
  Require(file->Sync());
}

TEST_CASE("a new log is empty") {
  FaultEnv env;
  auto log = Open(&env);
  CHECK(log->first_index() == Index{1});
  CHECK(log->last_index() == Index{0});
  CHECK(log->term_runs().empty());
  CHECK(absl::IsOutOfRange(log->Read(Index{1}, Index{1}, 100).status()));
  log.reset();
  CHECK(Open(&env)->last_index() == Index{0});
  CHECK(SegmentFiles(&env, kPath).size() == 1);
}

TEST_CASE("entries of all sizes come back, before and after a restart") {
  FaultEnv env;
  std::vector<Entry> expected;
  auto log = Open(&env);
  uint64_t index = 0;
  for (size_t size : {0, 1, 100, 4095, 4096, 4097, 20000, 3, 1400, 1500, 0, 50000}) {
    ++index;
    expected.push_back(TestEntry(index, 1 + index / 4, size));
  }
  Require(log->Append(std::span(expected).first(4)));
  AppendSynced(log.get(), {expected.begin() + 4, expected.end()});
  CHECK(ReadAll(*log) == expected);
  const std::vector<TermRun> runs = log->term_runs();
  REQUIRE(runs.size() == 4);
  CHECK(runs[1].first == Index{4});
  CHECK(runs[1].term == Term{2});
  log.reset();

  log = Open(&env, Index{12});
  CHECK(log->last_index() == Index{12});
  CHECK(ReadAll(*log) == expected);
  CHECK(log->term_runs().size() == 4);
  CHECK(log->term_runs()[3].first == Index{12});
}

TEST_CASE("segments fill, follow one another and are cut to what they hold") {
  FaultEnv env;
  auto log = Open(&env);
  for (uint64_t i = 1; i <= 100; ++i) AppendSynced(log.get(), {TestEntry(i, 1, 100)});
  const std::vector<std::string> files = SegmentFiles(&env, kPath);
  CHECK(files.size() == 10);  // 11 records of 136 bytes in each
  for (const std::string& file : files) {
    const bool is_last = file == files.back();
    CHECK(FileSize(&env, file) == kSegmentHeaderBytes + (is_last ? 1500 : 11 * 136));
  }
  CHECK(ReadAll(*log) == TestEntries(1, 100, 1, 100));
  log.reset();
  CHECK(ReadAll(*Open(&env)) == TestEntries(1, 100, 1, 100));
}

TEST_CASE("one batch is one write, and one sync makes many batches durable") {
  FaultEnv env;
  auto log = Open(&env, kUnknown, {1u << 20});
  const uint64_t writes = env.writes();
  const uint64_t syncs = env.syncs();
  std::vector<Entry> batch = TestEntries(1, 50, 1, 100);
  batch.push_back(TestEntry(51, 1, 10000));
  batch.push_back(TestEntry(52, 1, 10));
  Require(log->Append(batch));
  CHECK(env.writes() == writes + 1);
  Require(log->Append(TestEntries(53, 60, 1, 100)));
  CHECK(env.syncs() == syncs);
  Require(log->Sync());
  CHECK(env.syncs() == syncs + 1);
  const uint64_t operations = env.operations();
  Require(log->Sync());
  CHECK(env.operations() == operations);
}

TEST_CASE("a read stops at the size asked for, but returns one entry") {
  FaultEnv env;
  auto log = Open(&env, kUnknown, {1u << 20});
  AppendSynced(log.get(), TestEntries(1, 500, 1, 60));  // 100 bytes each, as they count
  CHECK(Require(log->Read(Index{1}, Index{500}, 0)).size() == 1);
  CHECK(Require(log->Read(Index{1}, Index{500}, 1000)).size() == 10);
  CHECK(Require(log->Read(Index{1}, Index{500}, 20000)).size() == 200);
  CHECK(Require(log->Read(Index{3}, Index{5}, 1000000)) == TestEntries(3, 5, 1, 60));
  CHECK(Require(log->Read(Index{400}, Index{9999}, 1000000)) == TestEntries(400, 500, 1, 60));
  CHECK(absl::IsOutOfRange(log->Read(Index{501}, Index{501}, 100).status()));
  CHECK(absl::IsOutOfRange(log->Read(Index{0}, Index{5}, 100).status()));
}

TEST_CASE("payloads of one read share one buffer") {
  FaultEnv env;
  auto log = Open(&env, kUnknown, {1u << 20});
  AppendSynced(log.get(), TestEntries(1, 3, 1, 96));
  const std::vector<Entry> entries = Require(log->Read(Index{1}, Index{3}, 10000));
  CHECK(entries[1].payload.data() - entries[0].payload.data() == 128);
  CHECK(entries[2].payload.data() - entries[1].payload.data() == 128);
}

TEST_CASE("a truncation cuts at any index, and the log goes on from there") {
  constexpr uint64_t kLast = 40;
  for (uint64_t keep = 0; keep <= kLast; ++keep) {
    CAPTURE(keep);
    FaultEnv env;
    auto log = Open(&env);
    AppendSynced(log.get(), TestEntries(1, 20, 1, 100));
    AppendSynced(log.get(), TestEntries(21, kLast, 2, 100));
    Require(log->TruncateAfter(Index{keep}));
    CHECK(log->last_index() == Index{keep});
    std::vector<Entry> expected = TestEntries(1, std::min<uint64_t>(keep, 20), 1, 100);
    for (const Entry& entry : TestEntries(21, keep, 2, 100)) expected.push_back(entry);
    CHECK(ReadAll(*log) == expected);
    CHECK(absl::IsOutOfRange(log->Read(Index{keep + 1}, Index{keep + 1}, 100).status()));
    const size_t runs = keep == 0 ? 0 : keep <= 20 ? 1 : 2;
    CHECK(log->term_runs().size() == runs);

    // New entries of the same sizes: stale ones would fit exactly behind them.
    expected.push_back(TestEntry(keep + 1, 3, 100));
    AppendSynced(log.get(), {expected.back()});
    log.reset();
    env.Crash(keep);
    log = Open(&env, Index{keep + 1});
    CHECK(ReadAll(*log) == expected);
    expected.push_back(TestEntry(keep + 2, 3, 100));
    AppendSynced(log.get(), {expected.back()});
    CHECK(ReadAll(*log) == expected);
  }
}

TEST_CASE("truncations can follow one another") {
  FaultEnv env;
  auto log = Open(&env);
  AppendSynced(log.get(), TestEntries(1, 30, 1, 100));
  Require(log->TruncateAfter(Index{25}));
  Require(log->Append(TestEntries(26, 28, 2, 100)));
  Require(log->TruncateAfter(Index{26}));
  Require(log->TruncateAfter(Index{26}));
  Require(log->TruncateAfter(Index{3}));
  Require(log->TruncateAfter(Index{2}));
  AppendSynced(log.get(), TestEntries(3, 20, 4, 100));
  std::vector<Entry> expected = TestEntries(1, 2, 1, 100);
  for (const Entry& entry : TestEntries(3, 20, 4, 100)) expected.push_back(entry);
  CHECK(ReadAll(*log) == expected);
  log.reset();
  CHECK(ReadAll(*Open(&env, Index{20})) == expected);
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
  env.FlipBit(file, (offsets[5] + 50) * 8);  // entry 6; 7 and 8 stay valid, and prove only 4
  log = Open(&env, Index{4});
  CHECK(log->last_index() == Index{5});
  AppendSynced(log.get(), {TestEntry(6, 2, 100)});
  log.reset();
  env.Crash(1);
  log = Open(&env, Index{6});
  CHECK(log->last_index() == Index{6});
  CHECK(RecordOffsets(&env, file).size() == 7);
}

TEST_CASE("damage at or below the durable mark is data loss, and says where") {
  // Entries 1 to 20 in two segments, in five batches of four; then one more, whose record knows
  // that 20 were durable.
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
  // With `knows` the caller does; else only the last record does.
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
        CHECK(Contains(error, "To rejoin: stop this member"));
      }
    }
  }
  CHECK(index >= 20);
}

TEST_CASE("damage to the last record, which nothing proves, is taken for a torn write") {
  FaultEnv env;
  auto log = Open(&env);
  AppendSynced(log.get(), TestEntries(1, 4, 1, 100));
  log.reset();
  const std::string file = SegmentFiles(&env, kPath).front();
  env.FlipBit(file, (RecordOffsets(&env, file)[3] + 60) * 8);
  SECTION("if the caller knows no better") { CHECK(Open(&env)->last_index() == Index{3}); }
  SECTION("but not if the caller does") { CHECK(absl::IsDataLoss(OpenError(&env, Index{4}))); }
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
  env.FlipBit(file, (RecordOffsets(&env, file)[4] + 60) * 8);  // entry 5
  const SegmentName name = GENERATE(SegmentName{Index{6}, 2}, SegmentName{Index{5}, 2});
  Require(env.OpenFile(absl::StrCat(kPath, "/", ToFileName(name)), /*create=*/true));
  // Of a truncation after 4, it proves no more than that.
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
    WriteRaw(&env, file, at, record + std::string(entry.payload.view()));
    const absl::Status error = OpenError(&env);
    CHECK(absl::IsFailedPrecondition(error));
    CHECK(Contains(error, "entry 3"));
    CHECK(Contains(error, "kind 9"));
  }
  SECTION("another format") {
    std::string header = EncodeSegmentHeader({Index{1}, 1}, Term{0});
    header[8] = 2;
    StoreInt<std::endian::little>(header.data() + header.size() - 4,
                                  Crc32c(std::string_view(header).substr(0, header.size() - 4)));
    WriteRaw(&env, file, 0, header);
    const absl::Status error = OpenError(&env);
    CHECK(absl::IsFailedPrecondition(error));
    CHECK(Contains(error, "version 2"));
  }
}

TEST_CASE("the first error is final") {
  FaultEnv env;
  auto log = Open(&env);
  AppendSynced(log.get(), TestEntries(1, 5, 1, 100));
  std::string first;
  SECTION("of a write") {
    env.FailAfter(0, absl::InternalError("bad write"));
    first = "bad write";
    CHECK(Contains(log->Append(TestEntries(6, 7, 1, 100)), first));
    CHECK(log->last_index() == Index{5});
  }
  SECTION("of a sync") {
    Require(log->Append(TestEntries(6, 7, 1, 100)));
    env.FailSyncAfter(0, absl::InternalError("bad sync"));
    first = "bad sync";
    CHECK(Contains(log->Sync(), first));
  }
  SECTION("of a truncation") {
    env.FailAfter(2, absl::InternalError("bad write"));
    first = "bad write";
    CHECK(Contains(log->TruncateAfter(Index{2}), first));
  }
  SECTION("of a read") {
    env.FailReads(1, absl::InternalError("bad read"));
    first = "bad read";
    CHECK(Contains(log->Read(Index{1}, Index{1}, 100).status(), first));
  }
  SECTION("for want of space") {
    env.SetCapacity(kSegmentHeaderBytes + 1500);
    first = "no space";
    const absl::Status full = log->Append(TestEntries(6, 30, 1, 100));
    CHECK(absl::IsResourceExhausted(full));
  }
  REQUIRE(!first.empty());
  env.FailAfter(100, absl::InternalError("another"));
  CHECK(Contains(log->Append({}), first));
  CHECK(Contains(log->Sync(), first));
  CHECK(Contains(log->TruncateAfter(Index{1}), first));
  CHECK(Contains(log->Read(Index{1}, Index{1}, 100).status(), first));
}

TEST_CASE("a log on a full disk opens again, with all that was durable") {
  FaultEnv env;
  auto log = Open(&env);
  env.SetCapacity(kSegmentHeaderBytes + 2000);
  uint64_t durable = 0;
  while (log->Append(TestEntries(durable + 1, durable + 1, 1, 100)).ok() && log->Sync().ok()) {
    ++durable;
  }
  CHECK(durable == 11);
  log.reset();
  env.Crash(3);
  log = Open(&env, Index{durable});
  CHECK(log->last_index() == Index{durable});
  CHECK(absl::IsResourceExhausted(log->Append(TestEntries(durable + 1, durable + 1, 1, 100))));
  log.reset();
  env.SetCapacity(1u << 20);
  log = Open(&env, Index{durable});
  AppendSynced(log.get(), {TestEntry(durable + 1, 1, 100)});
  CHECK(log->last_index() == Index{durable + 1});
}

TEST_CASE("what a failed sync left in the cache only is written again before it counts") {
  FaultEnv env;
  auto log = Open(&env);
  AppendSynced(log.get(), TestEntries(1, 5, 1, 100));
  Require(log->Append(TestEntries(6, 8, 1, 100)));
  env.FailSyncAfter(0, absl::InternalError("bad sync"));
  CHECK_FALSE(log->Sync().ok());
  log.reset();
  env.Kill();
  // A new process finds the entries in the cache, and says that they are durable.
  CHECK(Open(&env, Index{5})->last_index() == Index{8});
  env.Crash(0);
  CHECK(ReadAll(*Open(&env, Index{8})) == TestEntries(1, 8, 1, 100));
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

// An Env that does something of the test's choice before a file is read.
class HookedEnv : public Env {
 public:
  explicit HookedEnv(Env* env) : env_(*env) {}
  std::function<void()> before_read;
  std::function<void(const std::string&)> before_open;
  mutable int open_files = 0;

  absl::StatusOr<std::unique_ptr<File>> OpenFile(const std::string& path, bool create) override {
    if (before_open) before_open(path);
    auto file = env_.OpenFile(path, create);
    if (!file.ok()) return file.status();
    return std::make_unique<HookedFile>(*this, *std::move(file));
  }
  absl::Status CreateDirectories(const std::string& path) override {
    return env_.CreateDirectories(path);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return env_.List(path);
  }
  bool Exists(const std::string& path) override { return env_.Exists(path); }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return env_.Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override { return env_.Remove(path); }
  absl::Status SyncDirectory(const std::string& path) override { return env_.SyncDirectory(path); }
  absl::StatusOr<std::unique_ptr<DirectoryLock>> LockDirectory(const std::string& path) override {
    return env_.LockDirectory(path);
  }

 private:
  class HookedFile : public File {
   public:
    HookedFile(const HookedEnv& env, std::unique_ptr<File> file)
        : env_(env), file_(std::move(file)) {
      ++env_.open_files;
    }
    ~HookedFile() override { --env_.open_files; }
    absl::Status WriteAt(uint64_t offset, std::span<const std::string_view> pieces) override {
      return file_->WriteAt(offset, pieces);
    }
    absl::StatusOr<size_t> ReadAt(uint64_t offset, size_t size, char* to) const override {
      if (env_.before_read) env_.before_read();
      return file_->ReadAt(offset, size, to);
    }
    absl::Status Preallocate(uint64_t size) override { return file_->Preallocate(size); }
    absl::Status Truncate(uint64_t size) override { return file_->Truncate(size); }
    absl::Status Sync() override { return file_->Sync(); }
    absl::StatusOr<uint64_t> Size() const override { return file_->Size(); }

   private:
    const HookedEnv& env_;
    const std::unique_ptr<File> file_;
  };

  Env& env_;
};

// A log of 40 entries in segments that begin with 1, 12, 23 and 34; terms 1 to 20, 2 from there on.
std::unique_ptr<SegmentLog> OpenFilled(Env* env) {
  auto log = Open(env);
  AppendSynced(log.get(), TestEntries(1, 20, 1, 100));
  AppendSynced(log.get(), TestEntries(21, 40, 2, 100));
  return log;
}

std::vector<Entry> FilledFrom(uint64_t first) {
  std::vector<Entry> entries = TestEntries(first, 20, 1, 100);
  for (const Entry& entry : TestEntries(std::max<uint64_t>(first, 21), 40, 2, 100)) {
    entries.push_back(entry);
  }
  return entries;
}

TEST_CASE("compaction removes whole segments, and the log remembers what was before") {
  for (uint64_t index = 0; index <= 40; ++index) {
    CAPTURE(index);
    FaultEnv env;
    auto log = OpenFilled(&env);
    Require(log->CompactTo(Index{index}));
    const uint64_t base = index < 11 ? 0 : index < 22 ? 11 : index < 33 ? 22 : 33;
    const Term term{base == 0 ? 0u : base <= 20 ? 1u : 2u};
    auto check = [&] {
      CHECK(log->base_index() == Index{base});
      CHECK(log->base_term() == term);
      CHECK(log->first_index() == Index{base + 1});
      CHECK(log->last_index() == Index{40});
      CHECK(log->TermAt(Index{base}) == term);
      CHECK(log->TermAt(Index{40}) == Term{2});
      CHECK_FALSE(log->TermAt(Index{41}).has_value());
      if (base > 0) CHECK_FALSE(log->TermAt(Index{base - 1}).has_value());
      CHECK(log->term_runs().size() == (base < 20 ? 2 : 1));
      CHECK(log->term_runs().front().first == Index{base + 1});
      CHECK(ReadAll(*log) == FilledFrom(base + 1));
      CHECK(absl::IsOutOfRange(log->Read(Index{base}, Index{40}, 100).status()));
      CHECK(SegmentFiles(&env, kPath).size() == 4 - base / 11);
    };
    check();
    log.reset();
    env.Crash(index);  // the removals were not durable
    log = Open(&env, Index{40});
    check();
    AppendSynced(log.get(), TestEntries(41, 60, 3, 100));
    Require(log->CompactTo(Index{60}));
    log.reset();
    CHECK(Open(&env)->last_index() == Index{60});
  }
}

TEST_CASE("a compaction that removes nothing touches nothing") {
  FaultEnv env;
  auto log = OpenFilled(&env);
  Require(log->CompactTo(Index{23}));
  Require(log->Sync());
  const uint64_t operations = env.operations();
  Require(log->CompactTo(Index{0}));
  Require(log->CompactTo(Index{23}));
  Require(log->CompactTo(Index{32}));
  Require(log->Sync());
  CHECK(env.operations() == operations);
}

TEST_CASE("a log can be compacted until it is empty, and go on") {
  FaultEnv env;
  auto log = OpenFilled(&env);
  Require(log->TruncateAfter(Index{30}));  // which begins a segment
  Require(log->CompactTo(Index{30}));
  for (int round = 0; round < 2; ++round) {
    CHECK(log->base_index() == Index{30});
    CHECK(log->base_term() == Term{2});
    CHECK(log->last_index() == Index{30});
    CHECK(log->term_runs().empty());
    log = nullptr;
    log = Open(&env, Index{30});
  }
  AppendSynced(log.get(), {TestEntry(31, 2, 100)});
  Require(log->TruncateAfter(Index{30}));
  AppendSynced(log.get(), {TestEntry(31, 3, 100)});
  log.reset();
  log = Open(&env, Index{31});
  CHECK(log->base_index() == Index{30});
  CHECK(ReadAll(*log) == TestEntries(31, 31, 3, 100));
}

TEST_CASE("a segment that is missing after a compaction is data loss, with the way out") {
  FaultEnv env;
  auto log = OpenFilled(&env);
  Require(log->CompactTo(Index{15}));
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
  CHECK(Contains(error, "To rejoin"));
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
    }
    Require(log->Sync());
    AppendSynced(log.get(), {TestEntry(41, 2, 100)});  // knows that 40 was durable
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

TEST_CASE("a reset log begins behind any entry, and forgets the rest") {
  for (uint64_t index : {0, 1, 11, 15, 39, 40, 41, 1000}) {
    CAPTURE(index);
    FaultEnv env;
    auto log = OpenFilled(&env);
    Require(log->Append(TestEntries(41, 43, 2, 100)));  // not synced
    const Term term{index == 0 ? 0u : 7u};
    Require(log->Reset(Index{index}, term));
    Require(log->Sync());
    auto check = [&](uint64_t last) {
      CHECK(log->base_index() == Index{index});
      CHECK(log->base_term() == term);
      CHECK(log->last_index() == Index{last});
      CHECK(ReadAll(*log) == TestEntries(index + 1, last, 7, 100));
      CHECK(absl::IsOutOfRange(log->Read(Index{index}, Index{index}, 100).status()));
      CHECK(absl::IsOutOfRange(log->Read(Index{last + 1}, Index{last + 1}, 100).status()));
      CHECK(log->term_runs().size() == (last > index ? 1 : 0));
    };
    check(index);
    log.reset();
    env.Crash(index);
    log = Open(&env, Index{index});
    check(index);
    AppendSynced(log.get(), TestEntries(index + 1, index + 30, 7, 100));
    check(index + 30);
    log.reset();
    env.Crash(index);
    log = Open(&env, Index{index + 30});
    check(index + 30);
  }
}

TEST_CASE("a reset below a durable mark that was not lowered is data loss") {
  FaultEnv env;
  Require(OpenFilled(&env)->Reset(Index{15}, Term{3}));
  CHECK(absl::IsDataLoss(OpenError(&env, Index{40})));
  CHECK(Open(&env, Index{15})->last_index() == Index{15});
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

TEST_CASE("control entries are found at open, and dropped with the others") {
  FaultEnv env;
  auto log = Open(&env);
  std::vector<Entry> control;
  for (uint64_t i = 1; i <= 40; ++i) {
    const size_t size = i % 5 != 0 ? 100 : i % 2 == 0 ? kMembershipBytes : kVersionBytes;
    const Entry entry = TestEntry(i, 1, size);
    if (IsControl(entry.kind)) control.push_back(entry);
    AppendSynced(log.get(), {entry});
  }
  CHECK(log->control_entries().empty());
  log.reset();
  log = Open(&env);
  REQUIRE(control.size() == 8);
  CHECK(log->control_entries() == control);
  Require(log->TruncateAfter(Index{39}));
  control.pop_back();
  CHECK(log->control_entries() == control);
  Require(log->CompactTo(Index{20}));
  const Index base = log->base_index();
  REQUIRE(base > Index{5});
  std::erase_if(control, [&](const Entry& entry) { return entry.index <= base; });
  CHECK(log->control_entries() == control);
  log.reset();
  log = Open(&env);
  CHECK(log->control_entries() == control);
  Require(log->Reset(Index{30}, Term{1}));
  CHECK(log->control_entries().empty());
}

TEST_CASE("a read whose entries are truncated meanwhile returns those that stay") {
  FaultEnv disk;
  HookedEnv env(&disk);
  auto log = Open(&env);
  AppendSynced(log.get(), TestEntries(1, 30, 1, 100));
  env.before_read = [&] {
    env.before_read = nullptr;
    Require(log->TruncateAfter(Index{4}));
  };
  SECTION("the first one among them") {
    CHECK(Require(log->Read(Index{2}, Index{9}, 10000)) == TestEntries(2, 4, 1, 100));
  }
  SECTION("the first one not") {
    CHECK(absl::IsOutOfRange(log->Read(Index{6}, Index{9}, 10000).status()));
  }
  AppendSynced(log.get(), TestEntries(5, 6, 2, 100));
  CHECK(log->last_index() == Index{6});
}

TEST_CASE("a read whose entries are dropped meanwhile returns them, or says that they are gone") {
  FaultEnv disk;
  HookedEnv env(&disk);
  auto log = Require(SegmentLog::Open(&env, kPath, {kSmall.segment_bytes, 1}, kUnknown));
  AppendSynced(log.get(), TestEntries(1, 40, 1, 100));
  auto drop = [&] {
    env.before_read = nullptr;
    env.before_open = nullptr;
    // Elsewhere, because the lock is held in which files are opened.
    std::thread([&] {
      if (log->last_index() == Index{40}) Require(log->Reset(Index{100}, Term{2}));
    }).join();
  };
  SECTION("the file was open already") {
    env.before_read = drop;
    CHECK(Require(log->Read(Index{15}, Index{16}, 10000)) == TestEntries(15, 16, 1, 100));
  }
  SECTION("the file was to be opened again") {
    Require(log->Read(Index{1}, Index{1}, 1));  // closes the others
    env.before_read = drop;                     // while the first of two segments is read
    CHECK(absl::IsOutOfRange(log->Read(Index{11}, Index{40}, 10000).status()));
  }
  CHECK(log->base_index() == Index{100});
}

TEST_CASE("however many segments there are, few files are open") {
  FaultEnv disk;
  HookedEnv env(&disk);
  constexpr SegmentLogOptions kFew{kSmall.segment_bytes, 8};
  auto log = Require(SegmentLog::Open(&env, kPath, kFew, kUnknown));
  int most = 0;
  auto note = [&] { most = std::max(most, env.open_files); };
  for (uint64_t i = 1; i <= 1100; ++i) {
    AppendSynced(log.get(), {TestEntry(i, 1, 100)});
    note();
  }
  env.before_open = [&](const std::string&) { note(); };
  env.before_read = note;
  CHECK(SegmentFiles(&disk, kPath).size() == 100);
  for (int round = 0; round < 2; ++round) {
    CHECK(ReadAll(*log) == TestEntries(1, 1100, 1, 100));
    for (uint64_t i = 1; i <= 2000; ++i) {
      const uint64_t index = i * 7919 % 1100 + 1;
      REQUIRE(Require(log->Read(Index{index}, Index{index}, 1)).front() ==
              TestEntry(index, 1, 100));
    }
    CHECK(most <= 10);
    log.reset();
    CHECK(env.open_files == 0);
    log = Require(SegmentLog::Open(&env, kPath, kFew, Index{1100}));
    CHECK(most <= 10);
  }
  Require(log->CompactTo(Index{1000}));
  Require(log->TruncateAfter(Index{1050}));
  CHECK(ReadAll(*log) == TestEntries(991, 1050, 1, 100));
  CHECK(env.open_files <= 9);
}

TEST_CASE("reads run beside compactions and resets") {
  const char* temporary = std::getenv("TEST_TMPDIR");
  REQUIRE(temporary != nullptr);
  const std::string path = absl::StrCat(temporary, "/compacting");
  // So few open files that readers open them again all the time.
  auto log =
      Require(SegmentLog::Open(Env::Posix(), path, {kSegmentHeaderBytes + 3000, 2}, kUnknown));
  AppendSynced(log.get(), TestEntries(1, 200, 1, 100));
  std::atomic<uint64_t> durable{200};
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0};
  std::atomic<int> reads{0};
  auto reader = [&](uint64_t seed) {
    while (!stop) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      const uint64_t last = durable;
      const uint64_t first = last - (seed >> 33) % std::min<uint64_t>(last, 300);
      auto entries = log->Read(Index{first}, Index{first + 50}, (seed >> 20) % 5000);
      if (!entries.ok()) {
        // Only of what was dropped by now.
        if (!absl::IsOutOfRange(entries.status()) || Index{first} > log->base_index()) ++failures;
        continue;
      }
      for (const Entry& entry : *entries) {
        if (entry != TestEntry(entry.index.value(), 1, 100)) ++failures;
      }
      ++reads;
    }
  };
  std::thread one(reader, 1);
  std::thread two(reader, 2);
  for (int round = 0; round < 200 || reads < 100; ++round) {
    const uint64_t next = log->last_index().value() + 1;
    AppendSynced(log.get(), TestEntries(next, next + 20, 1, 100));
    durable = next + 20;
    if (round % 50 == 49) {
      Require(log->Reset(Index{next + 300}, Term{1}));
      AppendSynced(log.get(), TestEntries(next + 301, next + 310, 1, 100));
      durable = next + 310;
    } else if (round % 3 == 0) {
      Require(log->CompactTo(Index{next - std::min<uint64_t>(next, next / 8 % 100)}));
    }
    if (failures > 0) break;
  }
  stop = true;
  one.join();
  two.join();
  CHECK(failures == 0);
  const Index last = log->last_index();
  const Index first = log->first_index();
  log.reset();
  log = Require(SegmentLog::Open(Env::Posix(), path, {1u << 20}, last));
  CHECK(log->first_index() == first);
  CHECK(ReadAll(*log) == TestEntries(first.value(), last.value(), 1, 100));
}

TEST_CASE("reads run beside appends, syncs and truncations") {
  const char* temporary = std::getenv("TEST_TMPDIR");
  REQUIRE(temporary != nullptr);
  const std::string path = absl::StrCat(temporary, "/concurrent");
  auto log = Require(SegmentLog::Open(Env::Posix(), path, {kSegmentHeaderBytes + 20000}, kUnknown));
  constexpr uint64_t kStable = 100;  // never truncated
  AppendSynced(log.get(), TestEntries(1, kStable, 1, 100));
  std::atomic<uint64_t> durable{kStable};
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0};
  std::atomic<int> reads{0};
  auto reader = [&](uint64_t seed) {
    while (!stop) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      const uint64_t first = 1 + (seed >> 33) % durable;
      auto entries = log->Read(Index{first}, Index{first + 50}, (seed >> 20) % 5000);
      // Above the stable part, entries may have been truncated since.
      if (!entries.ok() && first > kStable && absl::IsOutOfRange(entries.status())) continue;
      if (!entries.ok()) {
        ++failures;
        return;
      }
      for (const Entry& entry : *entries) {
        if (entry != TestEntry(entry.index.value(), entry.term.value(), 100)) ++failures;
      }
      ++reads;
    }
  };
  std::thread one(reader, 1);
  std::thread two(reader, 2);
  uint64_t term = 1;
  for (int round = 0; round < 150; ++round) {
    if (round % 10 == 9) {
      const uint64_t keep = kStable + static_cast<uint64_t>(round) % 7 * 11;
      ++term;
      if (keep < log->last_index().value()) {
        durable = keep;
        Require(log->TruncateAfter(Index{keep}));
      }
    }
    const uint64_t next = log->last_index().value() + 1;
    AppendSynced(log.get(), TestEntries(next, next + 20, term, 100));
    durable = next + 20;
  }
  while (reads < 100 && failures == 0) std::this_thread::yield();
  stop = true;
  one.join();
  two.join();
  CHECK(failures == 0);
  const Index last = log->last_index();
  log.reset();
  CHECK(Require(SegmentLog::Open(Env::Posix(), path, {1u << 20}, last))->last_index() == last);
}

}  // namespace
}  // namespace quorate::consensus
