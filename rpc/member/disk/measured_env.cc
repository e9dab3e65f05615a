// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/disk/measured_env.h"

#include <chrono>
#include <utility>

namespace quorate::rpc {
namespace {

class MeasuredFile final : public consensus::File {
 public:
  MeasuredFile(MeasuredEnv* env, std::unique_ptr<consensus::File> file)
      : env_(*env), file_(std::move(file)) {}

  absl::Status WriteAt(uint64_t offset, std::span<const std::string_view> pieces) override {
    return file_->WriteAt(offset, pieces);
  }
  absl::StatusOr<size_t> ReadAt(uint64_t offset, size_t size, char* to) const override {
    return file_->ReadAt(offset, size, to);
  }
  absl::Status Preallocate(uint64_t size) override { return file_->Preallocate(size); }
  absl::Status Truncate(uint64_t size) override { return file_->Truncate(size); }
  absl::Status Sync() override {
    const auto start = env_.clock().Now();
    absl::Status status = file_->Sync();
    env_.AddSync(env_.clock().Now() - start);
    return status;
  }
  absl::StatusOr<uint64_t> Size() const override { return file_->Size(); }

 private:
  MeasuredEnv& env_;
  const std::unique_ptr<consensus::File> file_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<consensus::File>> MeasuredEnv::OpenFile(const std::string& path,
                                                                       bool create) {
  auto file = env_.OpenFile(path, create);
  if (!file.ok()) return file.status();
  return std::make_unique<MeasuredFile>(this, *std::move(file));
}

TimeSummary MeasuredEnv::sync_times() const {
  MutexLock lock(&mutex_);
  return sync_times_;
}

void MeasuredEnv::AddSync(std::chrono::steady_clock::duration time) {
  MutexLock lock(&mutex_);
  sync_times_.Add(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

}  // namespace quorate::rpc
