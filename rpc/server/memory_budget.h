// How much memory the server may take, and what takes it. One budget for the process: what grows
// with what clients do is counted here, and the process as a whole is measured now and then, which
// also sees what nobody counts.
//
// Two things happen beyond it. If replies that are being made or not fetched take more than a
// quarter, the connections that have much of that are refused or closed at once. If the process
// takes nearly all, memory is low: writes that add data are refused, as they are when the disk is
// full, no clients are admitted, and after each measurement each loop closes the connection that
// takes the most.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace quorate::rpc {

enum class MemoryUse : uint8_t {
  kUnsent,    // replies and events that clients have not fetched
  kReads,     // replies that are being made in pieces
  kRequests,  // that wait for what is before them
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
  // Whether replies take more than their share.
  bool replies_exceed() const {
    const uint64_t share = limit_ / 4;
    return limit_ > 0 &&
           used(MemoryUse::kUnsent) + used(MemoryUse::kReads) > static_cast<int64_t>(share);
  }

  // The process was measured. From one thread at a time. Returns whether low() has changed.
  bool OnMeasured(uint64_t resident_bytes);
  uint64_t resident_bytes() const { return resident_bytes_.load(std::memory_order_relaxed); }
  // From seven eighths of the limit on, until it is less than three quarters.
  bool low() const { return low_.load(std::memory_order_relaxed); }
  // How often it was measured.
  uint64_t measurements() const { return measurements_.load(std::memory_order_relaxed); }
  // Connections that were closed for it.
  void CountClosed() { closed_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t closed() const { return closed_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t>& Of(MemoryUse use) { return used_[static_cast<size_t>(use)]; }

  uint64_t limit_ = 0;
  std::array<std::atomic<int64_t>, kMemoryUses> used_ = {};
  std::atomic<uint64_t> resident_bytes_{0};
  std::atomic<uint64_t> measurements_{0};
  std::atomic<uint64_t> closed_{0};
  std::atomic<bool> low_{false};
};

// What the process may take by default: four fifths of the machine's memory, or of what the control
// group or RLIMIT_AS leaves of it.
uint64_t DefaultMemoryLimit();

// The memory that the process takes now. If that is `high` or more, free memory is given back to
// the system first, which may take some milliseconds.
uint64_t MeasureResidentBytes(uint64_t high);

}  // namespace quorate::rpc
