// SPDX-License-Identifier: Apache-2.0

// A record store for tests and the simulator. It writes each checkpoint as one whole file through
// an Env, so that disk failures can be simulated. The cost of a checkpoint grows with the tree.
//
// Thread-safety: as tree::RecordStore.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "consensus/log/env.h"
#include "tree/store/record_store.h"

namespace quorate::rpc {

class FileRecordStore : public tree::RecordStore {
 public:
  // Opens the store in directory `path`, which is created if it is missing. `env` must outlive the
  // object. DataLoss if the checkpoint is damaged.
  static absl::StatusOr<std::unique_ptr<FileRecordStore>> Open(consensus::Env* env,
                                                               std::string path);

  std::optional<Metadata> newest() const override;
  absl::StatusOr<std::unique_ptr<View>> OpenView() const override;
  absl::Status Write(std::string_view key, std::optional<std::string_view> value) override;
  absl::Status WriteEvents(uint64_t part, std::optional<std::string_view> bytes) override;
  absl::Status Commit(const Metadata& metadata) override;
  absl::Status BeginStaging() override;
  absl::Status DiscardStaged() override;
  absl::Status Stage(std::string_view key, std::string_view value) override;
  absl::Status FinishStaging(const Metadata& metadata) override;
  absl::Status ReplaceByStaged() override;

 private:
  using Records = std::map<std::string, std::string, std::less<>>;
  struct Checkpoint {
    Metadata metadata;
    std::map<uint64_t, std::string> events;
    Records records;
  };
  class CheckpointView;

  FileRecordStore(consensus::Env* env, std::string path) : env_(env), path_(std::move(path)) {}
  absl::Status Load();
  // Writes `checkpoint` durably to the file `name` in the directory.
  absl::Status Save(const Checkpoint& checkpoint, const std::string& name);
  void SetNewest(std::shared_ptr<const Checkpoint> newest);
  std::shared_ptr<const Checkpoint> Newest() const;

  consensus::Env* const env_;
  const std::string path_;
  std::map<std::string, std::optional<std::string>, std::less<>> changes_;
  std::map<uint64_t, std::optional<std::string>> event_changes_;
  std::shared_ptr<Checkpoint> staged_;

  mutable Mutex mutex_;
  std::shared_ptr<const Checkpoint> newest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quorate::rpc
