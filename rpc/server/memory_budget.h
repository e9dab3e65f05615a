// How much memory the server may take, and what takes it. One budget for the process: what grows
// with what clients do is counted here, and the process as a whole is measured now and then, which
// also sees what nobody counts.
//
// Two things happen beyond it. If replies that are being made or not fetched take more than a
// quarter, long reads are refused, and connections, streams and calls that do not take what they
// were sent are closed, those with the most first. If the process takes nearly all, memory is low:
// writes that add data are refused, as they are when the disk is full. If clients have a part in
// that, beside the tree, no new sessions are admitted, and after each measurement each loop closes
// the connection that takes the most. Sessions that come back, four-letter words and calls are
// served all the same: they are what an operator needs to see and to delete something.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace quorate::rpc {

enum class MemoryUse : uint8_t {
  kUnsent,    // replies and events that clients have not fetched, also those that gRPC has
  kReads,     // replies that are being made in pieces
  kRequests,  // that are not whole yet, or wait for what is before them
};
inline constexpr size_t kMemoryUses = 3;

class MemoryBudget {
 public:
  // 0: without a limit. Before any client comes.
  void SetLimit(uint64_t bytes) { limit_ = bytes; }
  uint64_t limit() const { return limit_; }

  void Add(MemoryUse use, int64_t bytes) { Of(use).fetch_add(bytes, std::memory_order_relaxed); }
  int64_t used(MemoryUse use) const {
    return used_[static_cast<size_t>(use)].load(std::memory_order_relaxed);
  }
  // By how much replies take more than their share; not above 0 if they do not.
  int64_t replies_excess() const {
    if (limit_ == 0) return 0;
    return used(MemoryUse::kUnsent) + used(MemoryUse::kReads) - static_cast<int64_t>(limit_ / 4);
  }
  bool replies_exceed() const { return replies_excess() > 0; }

  // The process was measured: what it takes, what of that the tree takes, and what is kept for
  // nodes to come, which counts as free. From one thread at a time. Returns whether low() has
  // changed.
  bool OnMeasured(uint64_t resident_bytes, uint64_t tree_bytes = 0, uint64_t free_bytes = 0);
  uint64_t resident_bytes() const { return resident_bytes_.load(std::memory_order_relaxed); }
  // Returns whether a process that takes this much is above the bound at which low() begins, or
  // while memory is low, above the one at which it ends.
  bool exceeds_bound(uint64_t taken_bytes) const {
    return limit_ > 0 && taken_bytes >= (low() ? limit_ / 4 * 3 : limit_ / 8 * 7);
  }
  // From seven eighths of the limit on, until it is less than three quarters.
  bool low() const { return low_.load(std::memory_order_relaxed); }
  // Memory is low, and not because of the tree alone: what there is besides takes more than an
  // eighth of the limit.
  // Also true if the uses that are counted have grown by more than an eighth of the limit since the
  // last measurement, and memory would be low with that growth.
  bool clients_exceed() const {
    if (clients_exceed_.load(std::memory_order_relaxed)) return true;
    const int64_t grown = counted() - counted_when_measured_.load(std::memory_order_relaxed);
    return grown > static_cast<int64_t>(limit_ / 8) &&
           exceeds_bound(resident_bytes() + static_cast<uint64_t>(grown));
  }
  // How often it was measured.
  uint64_t measurements() const { return measurements_.load(std::memory_order_relaxed); }
  // Connections and streams that were closed for it.
  void CountClosed() { closed_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t closed() const { return closed_.load(std::memory_order_relaxed); }
  // Reads and new sessions that were refused for it.
  void CountRefused() { refused_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  // The sum of all uses.
  int64_t counted() const {
    int64_t sum = 0;
    for (const auto& used : used_) sum += used.load(std::memory_order_relaxed);
    return sum;
  }
  std::atomic<int64_t>& Of(MemoryUse use) { return used_[static_cast<size_t>(use)]; }

  uint64_t limit_ = 0;
  std::array<std::atomic<int64_t>, kMemoryUses> used_ = {};
  std::atomic<uint64_t> resident_bytes_{0};
  std::atomic<int64_t> counted_when_measured_{0};
  std::atomic<uint64_t> measurements_{0};
  std::atomic<uint64_t> closed_{0};
  std::atomic<uint64_t> refused_{0};
  std::atomic<bool> low_{false};
  std::atomic<bool> clients_exceed_{false};
};

// What the process may take by default: four fifths of the machine's memory, or of what the control
// group or RLIMIT_AS leaves of it.
uint64_t DefaultMemoryLimit();

// The memory that the process takes now.
uint64_t MeasureResidentBytes();

// Returns free memory of the allocator to the system if there is more than `worth_bytes` of it.
// That may take some milliseconds, during which other threads cannot allocate.
void ReleaseFreeMemory(uint64_t worth_bytes);

}  // namespace quorate::rpc
