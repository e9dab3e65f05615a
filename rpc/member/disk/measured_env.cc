// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/disk/measured_env.h"

#include <chrono>
#include <utility>

namespace quorate::rpc {
namespace {

class MeasuredFile final : public consensus::ForwardingFile {
 public:
  MeasuredFile(MeasuredEnv* env, std::unique_ptr<consensus::File> file)
      : ForwardingFile(std::move(file)), env_(*env) {}

  absl::Status Sync() override {
    const auto start = env_.clock().Now();
    absl::Status status = ForwardingFile::Sync();
    env_.AddSync(env_.clock().Now() - start);
    return status;
  }

 private:
  MeasuredEnv& env_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<consensus::File>> MeasuredEnv::OpenFile(const std::string& path,
                                                                       bool create) {
  auto file = ForwardingEnv::OpenFile(path, create);
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
