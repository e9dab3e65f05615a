// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/read_write_lock.h"

#include <optional>
#include <utility>
#include <vector>

#include "client/recipes/lock_node.h"
#include "client/recipes/sequential_names.h"

namespace quorate {

using internal::LockNode;

namespace {

constexpr char kReadPrefix[] = "__READ__";
constexpr char kWritePrefix[] = "__WRIT__";
constexpr size_t kWrite = 1;  // the index of kWritePrefix among the prefixes

std::optional<LockNode::Blocker> WaitForLastWriter(const std::string& directory,
                                                   const std::vector<SequentialName>& all,
                                                   size_t own) {
  for (size_t i = own; i > 0; --i) {
    const SequentialName& before = all[i - 1];
    if (before.prefix == kWrite) {
      return LockNode::Blocker{directory + "/" + before.name, WatchScope::kNode};
    }
  }
  return std::nullopt;
}

}  // namespace

class ReadWriteLock::Side final : public InterProcessMutex {
 public:
  Side(Client* client, const std::string& path, LockOptions options, bool is_write)
      : InterProcessMutex(
            client, path, std::move(options),
            is_write ? Kind{kWritePrefix, {kReadPrefix, kWritePrefix}, &LockNode::WaitForPrevious}
                     : Kind{kReadPrefix, {kReadPrefix, kWritePrefix}, &WaitForLastWriter}),
        is_write_(is_write) {}

  void SetOther(const Side* other) { other_ = other; }

 private:
  absl::Status Prepare(LockNode::Options* options) override {
    const std::shared_ptr<LockNode> other = other_->NodeOfThisThread();
    if (other == nullptr) return absl::OkStatus();
    if (is_write_) {
      return absl::FailedPreconditionError(options->directory +
                                           ": this thread has the read lock, and cannot wait for "
                                           "the write lock: release it first");
    }
    if (other->has_ended()) {
      return absl::AbortedError(options->directory +
                                ": this thread has lost the write lock, and has to release it: " +
                                std::string(other->status().message()));
    }
    const std::string path = other->path();
    options->behind = path;
    options->number = path.substr(path.rfind(kWritePrefix) + std::string(kWritePrefix).size());
    options->fencing_token = other->fencing_token();
    return absl::OkStatus();
  }

  const bool is_write_;
  const Side* other_ = nullptr;
};

ReadWriteLock::ReadWriteLock(Client* client, const std::string& path, LockOptions read,
                             LockOptions write)
    : read_(std::make_unique<Side>(client, path, std::move(read), false)),
      write_(std::make_unique<Side>(client, path, std::move(write), true)) {
  read_->SetOther(write_.get());
  write_->SetOther(read_.get());
}

ReadWriteLock::~ReadWriteLock() = default;

InterProcessMutex& ReadWriteLock::read_lock() { return *read_; }
InterProcessMutex& ReadWriteLock::write_lock() { return *write_; }

}  // namespace quorate
