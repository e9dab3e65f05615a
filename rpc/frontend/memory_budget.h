// SPDX-License-Identifier: Apache-2.0

// The limit of the memory that the server may take, and the memory that its parts take. There is
// one budget for the process. Memory that grows with what clients do is counted here; the process
// as a whole is measured periodically, which includes memory that is not counted.
//
// There are two limits. If replies that are being made or are not fetched take more than a quarter
// of the budget, long reads are refused. Connections, streams and calls whose clients do not fetch
// their replies are then closed, those with the most bytes first. If the process takes nearly all
// of the budget, memory is low: writes that add data are refused, as they are when the disk is
// full. If clients, beside the tree, contribute to that, no new sessions are admitted, and after
// each measurement each loop closes the connection that takes the most. Sessions that reconnect,
// four-letter words and calls are still served, because an operator needs them to inspect the
// server and to delete data.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace quorate::rpc {

enum class MemoryUse : uint8_t {
  kUnsent,    // replies and events that clients have not fetched, also those inside gRPC
  kReads,     // replies that are being made in pieces, or that writes in flight may have
  kRequests,  // requests that are incomplete, or wait for earlier ones
};
inline constexpr size_t kMemoryUses = 3;

class MemoryBudget {
 public:
  // Sets the limit; 0: there is none. REQUIRES: called before any client connects.
  void SetLimit(uint64_t bytes) { limit_ = bytes; }
  uint64_t limit() const { return limit_; }

  void Add(MemoryUse use, int64_t bytes) { Of(use).fetch_add(bytes, std::memory_order_relaxed); }
  int64_t used(MemoryUse use) const {
    return used_[static_cast<size_t>(use)].load(std::memory_order_relaxed);
  }
  // Returns by how many bytes replies exceed their quarter; 0 or less if they do not.
  int64_t replies_excess() const {
    if (limit_ == 0) return 0;
    return used(MemoryUse::kUnsent) + used(MemoryUse::kReads) - static_cast<int64_t>(limit_ / 4);
  }
  bool replies_exceed() const { return replies_excess() > 0; }
  // Returns whether requests, with one more of so many bytes, take at most an eighth of the budget.
  bool has_room_for_request(size_t bytes) const {
    return limit_ == 0 || used(MemoryUse::kRequests) + static_cast<int64_t>(bytes) <=
                              static_cast<int64_t>(limit_ / 8);
  }

  // Records a measurement of the process: its resident memory, the part of it that the tree takes,
  // and the part that is kept for future znodes, which counts as free. Returns whether low() has
  // changed. Called by one thread at a time.
  bool OnMeasured(uint64_t resident_bytes, uint64_t tree_bytes = 0, uint64_t free_bytes = 0);
  uint64_t resident_bytes() const { return resident_bytes_.load(std::memory_order_relaxed); }
  // Returns whether `taken_bytes` reaches the bound at which low() becomes true or, while low() is
  // true, the bound below which low() becomes false. Always false without a limit.
  bool exceeds_bound(uint64_t taken_bytes) const {
    return limit_ > 0 && taken_bytes >= (low() ? limit_ / 4 * 3 : limit_ / 8 * 7);
  }
  // Returns whether memory is low: from seven eighths of the limit on, until it is less than three
  // quarters.
  bool low() const { return low_.load(std::memory_order_relaxed); }
  // Returns true if memory is low, but not because of the tree alone: everything besides the tree
  // takes more than an eighth of the limit. Also true if the uses that are counted have grown by
  // more than an eighth of the limit since the last measurement, and memory would be low with that
  // growth.
  bool clients_exceed() const {
    if (clients_exceed_.load(std::memory_order_relaxed)) return true;
    const int64_t grown = counted() - counted_when_measured_.load(std::memory_order_relaxed);
    return grown > static_cast<int64_t>(limit_ / 8) &&
           exceeds_bound(resident_bytes() + static_cast<uint64_t>(grown));
  }
  // Returns how often the process was measured.
  uint64_t measurements() const { return measurements_.load(std::memory_order_relaxed); }
  // Counts connections and streams that were closed because of the budget.
  void CountClosed() { closed_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t closed() const { return closed_.load(std::memory_order_relaxed); }
  // Counts reads and new sessions that were refused because of the budget.
  void CountRefused() { refused_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  // Returns the sum of all uses.
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

// Returns the default limit: four fifths of the machine's memory, or of what the control group or
// RLIMIT_AS allows if that is less.
uint64_t DefaultMemoryLimit();

// Returns the resident memory of the process.
uint64_t MeasureResidentBytes();

// Returns free memory of the allocator to the system if there is more than `worth_bytes` of it.
// That may take some milliseconds, during which other threads cannot allocate.
void ReleaseFreeMemory(uint64_t worth_bytes);

}  // namespace quorate::rpc
