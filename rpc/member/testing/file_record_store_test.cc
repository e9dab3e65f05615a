// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/testing/file_record_store.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "consensus/log/testing/fault_env.h"

namespace quorate::rpc {
namespace {

constexpr char kDir[] = "/store";
constexpr int64_t kCheckpoints = 5;

// Makes checkpoint `number`. Every third checkpoint is staged, and replaces all before it.
absl::Status Make(int64_t number, FileRecordStore* store) {
  const tree::RecordStore::Metadata metadata{tree::Zxid(number), static_cast<uint64_t>(number),
                                             "m"};
  if (number % 3 != 0) {
    if (absl::Status s = store->Write("key", std::to_string(number)); !s.ok()) return s;
    return store->Commit(metadata);
  }
  if (absl::Status s = store->BeginStaging(); !s.ok()) return s;
  if (absl::Status s = store->Stage("key", std::to_string(number)); !s.ok()) return s;
  if (absl::Status s = store->FinishStaging(metadata); !s.ok()) return s;
  return store->ReplaceByStaged();
}

// Makes checkpoints until the disk fails. Returns the number of the last one.
int64_t MakeAll(consensus::Env* env) {
  auto store = FileRecordStore::Open(env, kDir);
  if (!store.ok()) return 0;
  for (int64_t number = 1; number <= kCheckpoints; ++number) {
    if (!Make(number, store->get()).ok()) return number - 1;
  }
  return kCheckpoints;
}

int64_t Newest(const FileRecordStore& store) {
  const auto metadata = store.newest();
  return metadata.has_value() ? metadata->zxid.value() : 0;
}

// A start compacts the log to the checkpoint that it has found, so that checkpoint must be durable.
TEST_CASE("a checkpoint that a start has found is there after a power failure") {
  const bool fails_sync = GENERATE(false, true);
  int64_t made = 0;
  for (uint64_t count = 0; made < kCheckpoints; ++count) {
    for (uint64_t n = 0; n < 6; ++n) {
      for (uint64_t seed = 0; seed < 12; ++seed) {
        CAPTURE(fails_sync, count, n, seed);
        consensus::FaultEnv env;
        const absl::Status error = absl::InternalError("stop");
        fails_sync ? env.FailSyncAfter(count, error) : env.FailAfter(count, error);
        made = MakeAll(&env);
        env.Kill();
        env.CancelFaults();
        env.PowerOffAfter(n);
        int64_t found = made;
        if (auto store = FileRecordStore::Open(&env, kDir); store.ok()) found = Newest(**store);
        CHECK(found >= made);
        env.Crash((count * 10 + n) * 12 + seed);
        auto store = FileRecordStore::Open(&env, kDir);
        INFO(store.status());
        REQUIRE(store.ok());
        CHECK(Newest(**store) >= found);
        CHECK(Newest(**store) <= made + 1);
      }
    }
  }
}

}  // namespace
}  // namespace quorate::rpc
