// SPDX-License-Identifier: Apache-2.0

#include "consensus/log/segment_log.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "consensus/log/forwarding_env.h"
#include "consensus/log/segment.h"
#include "consensus/log/testing/fault_env.h"
#include "consensus/log/testing/log_test_util.h"
#include "consensus/log/testing/segment_log_test_util.h"

namespace quorate::consensus {
namespace {

// A disk that counts the writes to space of its files that nothing has been written to before. On a
// real disk each of them changes the metadata of the file.
class CountedEnv : public ForwardingEnv {
 public:
  explicit CountedEnv(FaultEnv* env) : ForwardingEnv(env) {}
  absl::StatusOr<std::unique_ptr<File>> OpenFile(const std::string& path, bool create) override {
    absl::StatusOr<std::unique_ptr<File>> file = ForwardingEnv::OpenFile(path, create);
    if (!file.ok()) return file;
    return std::make_unique<CountedFile>(*std::move(file), &first_writes);
  }

  size_t first_writes = 0;

 private:
  class CountedFile : public ForwardingFile {
   public:
    CountedFile(std::unique_ptr<File> file, size_t* first_writes)
        : ForwardingFile(std::move(file)), first_writes_(first_writes) {}
    absl::Status WriteAt(uint64_t offset, std::span<const std::string_view> pieces) override {
      uint64_t end = offset;
      for (const std::string_view piece : pieces) end += piece.size();
      if (end > written_) ++*first_writes_;
      written_ = std::max(written_, end);
      return ForwardingFile::WriteAt(offset, pieces);
    }

   private:
    size_t* const first_writes_;
    uint64_t written_ = 0;
  };
};

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
  // size_runs() has the bytes of each segment, with the headers and padding of its records.
  uint64_t bytes = 0;
  for (const Entry& entry : expected) bytes += entry.payload.size();
  uint64_t told = 0;
  for (const SizeRun& run : log->size_runs()) told += run.bytes;
  CHECK(log->size_runs().back().last == Index{12});
  CHECK(told >= bytes);
  CHECK(told < bytes + expected.size() * 100);
}

TEST_CASE("whoever opens a log can hear how far it is read") {
  struct Hearing : ScanObserver {
    void OnScanned(size_t segments, size_t segments_total) override {
      heard.emplace_back(segments, segments_total);
    }
    std::vector<std::pair<size_t, size_t>> heard;
  };
  FaultEnv env;
  OpenFilled(&env);
  Hearing hearing;
  SegmentLogOptions options = kSmall;
  options.scan_observer = &hearing;
  Open(&env, kUnknown, options);
  CHECK(hearing.heard == std::vector<std::pair<size_t, size_t>>{{1, 4}, {2, 4}, {3, 4}, {4, 4}});
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

TEST_CASE("few of many small writes go to space that was never written") {
  FaultEnv disk;
  CountedEnv env(&disk);
  constexpr SegmentLogOptions kOptions{16u << 20};
  auto log = Open(&env, kUnknown, kOptions);
  env.first_writes = 0;
  for (uint64_t index = 1; index <= 1000; ++index) {
    AppendSynced(log.get(), {TestEntry(index, 1, 200)});
  }
  CHECK(env.first_writes <= 2);
  // The zeros that were written ahead are not part of the log, and the next entries replace them.
  log.reset();
  log = Open(&env, Index{1000}, kOptions);
  CHECK_FALSE(log->cut_at_open().has_value());
  AppendSynced(log.get(), {TestEntry(1001, 1, 200)});
  CHECK(ReadAll(*log).back() == TestEntry(1001, 1, 200));
  CHECK(log->last_index() == Index{1001});
  // Large writes are not written twice.
  env.first_writes = 0;
  for (uint64_t index = 1002; index < 1012; ++index) {
    AppendSynced(log.get(), {TestEntry(index, 1, 300'000)});
  }
  CHECK(env.first_writes == 10);
}

TEST_CASE("a read stops at the size asked for, but returns one entry") {
  FaultEnv env;
  auto log = Open(&env, kUnknown, {1u << 20});
  AppendSynced(log.get(), TestEntries(1, 500, 1, 60));  // each counts as 100 bytes
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
  CHECK(entries[1].payload.data() - entries[0].payload.data() == 136);
  CHECK(entries[2].payload.data() - entries[1].payload.data() == 136);
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

    // New entries of the same sizes: stale ones would fit exactly after them.
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
  Require(log->DoChores());
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
  SECTION("for want of space where there was to be some") {
    env.FailAfter(0, absl::ResourceExhaustedError("no space"));
    first = "no space";
    CHECK(absl::IsInternal(log->Append(TestEntries(6, 6, 1, 100))));
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

TEST_CASE(
    "for want of a new segment nothing is lost, and the log goes on when there is free space") {
  FaultEnv env;
  auto log = Open(&env);
  AppendSynced(log.get(), TestEntries(1, 5, 1, 100));
  const uint64_t used = env.used_bytes();
  Index last{5};
  env.SetCapacity(used);
  SECTION("of an append, which may have been done in part") {
    const std::vector<Entry> entries = TestEntries(6, 60, 1, 100);
    CHECK(absl::IsResourceExhausted(log->Append(entries)));
    last = log->last_index();
    REQUIRE(last > Index{5});
    REQUIRE(last < Index{60});
    CHECK(absl::IsResourceExhausted(log->Append({&entries[last.value() - 5], 1})));
    CHECK(log->last_index() == last);
    Require(log->Sync());
  }
  SECTION("of an append of what is larger than a segment") {
    AppendSynced(log.get(), TestEntries(6, 10, 1, 100));
    CHECK(absl::IsResourceExhausted(log->Append({{TestEntry(11, 1, 100'000)}})));
    last = Index{10};
  }
  SECTION("of a truncation") {
    CHECK(absl::IsResourceExhausted(log->TruncateAfter(Index{3})));
    CHECK(log->last_index() == last);
    SECTION("that is tried again") {
      env.SetCapacity(1u << 20);
      Require(log->TruncateAfter(Index{3}));
      last = Index{3};
    }
  }
  SECTION("of a reset") {
    CHECK(absl::IsResourceExhausted(log->Reset(Index{50}, Term{1})));
    CHECK(log->last_index() == last);
    SECTION("that is tried again") {
      env.SetCapacity(1u << 20);
      Require(log->Reset(Index{50}, Term{1}));
      Require(log->Sync());
      last = Index{50};
    }
  }
  CHECK(env.used_bytes() <= std::max<uint64_t>(used, 3 * kSmall.segment_bytes));
  const Index first = log->first_index();
  if (GENERATE(false, true)) {
    log.reset();
    env.Crash(GENERATE(1, 2, 3));
    log = Open(&env, last);
  }
  CHECK(log->last_index() == last);
  env.SetCapacity(1u << 20);
  AppendSynced(log.get(), TestEntries(last.value() + 1, last.value() + 40, 1, 100));
  log = Open(&env, last + 40);
  CHECK(log->last_index() == last + 40);
  CHECK(log->first_index() == first);
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
  // A new process finds the entries in the cache, and reports them as durable.
  CHECK(Open(&env, Index{5})->last_index() == Index{8});
  env.Crash(0);
  CHECK(ReadAll(*Open(&env, Index{8})) == TestEntries(1, 8, 1, 100));
}

}  // namespace
}  // namespace quorate::consensus
