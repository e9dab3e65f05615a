// SPDX-License-Identifier: Apache-2.0

#include "tree/store/load.h"

#include <condition_variable>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/assert.h"
#include "base/mutex.h"
#include "tree/snapshot.h"

namespace quorate::tree {
namespace {

// The size of a batch of records that is passed to the building thread in bytes, and the maximum
// number of batches that wait for it.
constexpr size_t kBatchBytes = 256u << 10;
constexpr size_t kBatchesMax = 8;

class Batch {
 public:
  Batch() { bytes_.reserve(kBatchBytes + kBatchBytes / 8); }

  void Add(std::string_view key, std::string_view value) {
    sizes_.push_back({key.size(), value.size()});
    bytes_.append(key);
    bytes_.append(value);
  }
  bool IsFull() const { return bytes_.size() >= kBatchBytes; }

  absl::Status AddTo(TreeLoader* loader) const {
    std::string_view rest = bytes_;
    for (const Sizes& sizes : sizes_) {
      const std::string_view key = rest.substr(0, sizes.key);
      const std::string_view value = rest.substr(sizes.key, sizes.value);
      if (absl::Status status = loader->Add(key, value); !status.ok()) return status;
      rest.remove_prefix(sizes.key + sizes.value);
    }
    return absl::OkStatus();
  }

 private:
  struct Sizes {
    size_t key;
    size_t value;
  };
  std::string bytes_;
  std::vector<Sizes> sizes_;
};

// The thread that builds the tree, with the queue of batches for it.
class Builder {
 public:
  explicit Builder(TreeLoader* loader) : loader_(*loader), thread_([this] { Run(); }) {}
  ~Builder() { Join().IgnoreError(); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  // Adds a batch. Waits while the queue is full. Returns the first error of the building so far.
  absl::Status Push(Batch batch) {
    std::unique_lock<std::mutex> lock(mutex_.native());
    while (waiting_.size() >= kBatchesMax && status_.ok()) changed_.wait(lock);
    waiting_.push_back(std::move(batch));
    changed_.notify_all();
    return status_;
  }

  // Waits until the thread has ended, and returns the status of the building. Call this after the
  // last Push.
  absl::Status Join() {
    {
      MutexLock lock(&mutex_);
      is_last_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    MutexLock lock(&mutex_);
    return status_;
  }

  // Returns the number of nodes built so far, and the number of all nodes.
  std::pair<uint64_t, uint64_t> progress() const {
    MutexLock lock(&mutex_);
    return progress_;
  }

 private:
  void Run() {
    std::unique_lock<std::mutex> lock(mutex_.native());
    while (status_.ok()) {
      while (waiting_.empty() && !is_last_) changed_.wait(lock);
      if (waiting_.empty()) return;
      const Batch batch = std::move(waiting_.front());
      waiting_.pop_front();
      changed_.notify_all();
      lock.unlock();
      absl::Status status = batch.AddTo(&loader_);
      lock.lock();
      status_ = std::move(status);
      progress_ = {loader_.nodes(), loader_.nodes_total()};
    }
    changed_.notify_all();
  }

  TreeLoader& loader_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> waiting_;
  bool is_last_ = false;
  absl::Status status_;  // the first error ends the building
  std::pair<uint64_t, uint64_t> progress_;
  std::thread thread_;  // declared last because it uses the members above
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tree>> LoadTree(RecordStore::View* view,
                                               const LoadProgress& progress) {
  ASSERT(view != nullptr);
  TreeLoader loader;
  std::optional<Builder> builder;
  for (bool more = true; more;) {
    Batch batch;
    while (more && !batch.IsFull()) {
      auto next = view->Next(kBatchBytes, [&batch](std::string_view key, std::string_view value) {
        batch.Add(key, value);
        return absl::OkStatus();
      });
      if (!next.ok()) return next.status();
      more = *next;
    }
    // A single batch does not need a thread.
    if (more && !builder.has_value()) builder.emplace(&loader);
    absl::Status status =
        builder.has_value() ? builder->Push(std::move(batch)) : batch.AddTo(&loader);
    if (!status.ok()) return status;
    if (builder.has_value() && progress != nullptr) {
      const auto [nodes, nodes_total] = builder->progress();
      progress(nodes, nodes_total);
    }
  }
  if (builder.has_value()) {
    if (absl::Status status = builder->Join(); !status.ok()) return status;
  }
  return loader.Finish(view->metadata().zxid, view->metadata().digest);
}

}  // namespace quorate::tree
