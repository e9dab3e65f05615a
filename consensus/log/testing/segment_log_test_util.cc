// SPDX-License-Identifier: Apache-2.0

#include "consensus/log/testing/segment_log_test_util.h"

#include <catch2/catch.hpp>

#include "consensus/log/record.h"
#include "consensus/log/recovery.h"
#include "consensus/log/testing/log_test_util.h"

namespace quorate::consensus {

absl::StatusOr<std::unique_ptr<SegmentLog>> OpenLog(FaultEnv* env, Index durable,
                                                    SegmentLogOptions options) {
  Require(env->CreateDirectories(kPath));
  const uint64_t operations = env->operations();
  const LogExamination examination = ExamineLog(env, kPath, durable);
  CHECK(env->operations() == operations);
  auto log = SegmentLog::Open(env, kPath, options, durable);
  CHECK(examination.status == log.status());
  CHECK(absl::IsDataLoss(examination.status) == !examination.damaged_path.empty());
  if (log.ok()) {
    CHECK(examination.log.base_index == (*log)->base_index());
    CHECK(examination.log.last_index == (*log)->last_index());
    CHECK(examination.log.term_runs.size() == (*log)->term_runs().size());
  }
  return log;
}

std::unique_ptr<SegmentLog> Open(Env* env, Index durable, SegmentLogOptions options) {
  return Require(SegmentLog::Open(env, kPath, options, durable));
}

std::unique_ptr<SegmentLog> Open(FaultEnv* env, Index durable, SegmentLogOptions options) {
  return Require(OpenLog(env, durable, options));
}

absl::Status OpenError(FaultEnv* env, Index durable) {
  return OpenLog(env, durable, kSmall).status();
}

void AppendSynced(SegmentLog* log, const std::vector<Entry>& entries) {
  Require(log->Append(entries));
  Require(log->Sync());
}

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

std::unique_ptr<SegmentLog> OpenFilled(Env* env) {
  auto log = Open(env);
  AppendSynced(log.get(), TestEntries(1, 20, 1, 100));
  AppendSynced(log.get(), TestEntries(21, 40, 2, 100));
  return log;
}

}  // namespace quorate::consensus
