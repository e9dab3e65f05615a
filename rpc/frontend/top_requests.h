// SPDX-License-Identifier: Apache-2.0

// Who sends the most requests: the clients, identities, paths and operations that had the most requests
// in the last minute, in a bounded memory.
//
// Each loop of a front end counts for itself, in sketches of the algorithm Space-Saving (Metwally,
// Agrawal, El Abbadi, 2005): a sketch has a fixed number of counters. A key that has none takes over the
// smallest one, with its value, of which the sketch remembers that it may be of others. So a count is never
// too small by more than what is remembered, and a key with more than 1/kCounters of the requests has a
// counter. What is shown is what a key has had at least.
//
// A loop looks only at some of its requests: one of `gap` on average, at random, so that a pattern of the
// requests does not matter. Each stands for `gap` requests. The gap is 1 while there are few requests, grows
// with their rate, and is halved with every second.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/frontend/recent_latencies.h"

namespace quorate::rpc {

// What requests are counted by.
enum class RequestKey : uint8_t {
  kClient,    // address and port, and session
  kIdentity,  // scheme:id of the first identity of the client; of a digest: digest:name#fingerprint
  kPath,      // the first components of the path of the request
  kOperation,  // as in quorate_request_latency_seconds
};
inline constexpr size_t kRequestKeys = 4;

// Returns the name of a key in metrics and JSON: "client", "identity", ...
std::string_view NameOf(RequestKey key);

// One sampled request. The strings are copied, at most LiveSketch::kTextBytesMax bytes of each.
struct RequestSample {
  std::string_view client;
  int64_t session = 0;
  std::string_view scheme;  // of the identity; empty: none is proved
  std::string_view id;      // whole; of a digest, the hash of the password is not shown
  std::string_view path;    // empty: none
  std::string_view operation;
};

// A key and the number of its requests in a time. A value type.
struct TopEntry {
  std::string text;
  int64_t session = 0;  // of clients
  int64_t count = 0;    // at least; requests that were not sampled count by those that were
};

// A Space-Saving sketch with one writer. Adding allocates nothing. Thread-safety: Add and Clear from the
// writer's thread; AddTo from any thread, without a lock: it skips a counter that changes its key at that
// moment.
class LiveSketch {
 public:
  static constexpr size_t kCounters = 64;
  static constexpr size_t kTextBytesMax = 96;

  void Add(std::string_view text, int64_t session, int64_t weight);
  void Clear();
  void AddTo(std::vector<TopEntry>* entries) const;

 private:
  static constexpr size_t kWords = kTextBytesMax / sizeof(uint64_t);
  struct Slot {
    // Odd while the key is being changed. A reader that sees another version afterwards has read parts of
    // two keys.
    std::atomic<uint32_t> version{0};
    std::atomic<uint32_t> length{0};
    std::atomic<int64_t> session{0};
    std::atomic<int64_t> error{0};  // what the count may have of other keys
    std::array<std::atomic<uint64_t>, kWords> text{};
  };
  void SetKey(Slot* slot, std::string_view text, int64_t session, int64_t error);

  std::array<uint64_t, kCounters> hashes_{};  // the writer's
  std::array<std::atomic<int64_t>, kCounters> counts_{};
  std::atomic<size_t> used_{0};
  std::array<Slot, kCounters> slots_;
};

// The requests of one loop. Thread-safety: ShouldSample and Add from the loop's thread, AddTo from any.
class LoopTopRequests {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Steps = TimeSteps<10>;
  static constexpr std::chrono::minutes kWindow{1};
  // The requests of a second that are looked at before the gap is doubled.
  static constexpr int kSamplesPerSecond = 1000;
  static constexpr int64_t kGapMax = 1024;

  explicit LoopTopRequests(uint64_t seed = 1) : random_(seed | 1) {}

  // Returns whether the next request is to be looked at: then Add has to follow.
  bool ShouldSample(TimePoint now) {
    if (now >= second_end_) BeginSecond(now);
    return --left_ <= 0;
  }
  void Add(const RequestSample& sample, TimePoint now);
  // Adds what the keys had in the last minute.
  void AddTo(RequestKey key, TimePoint now, std::vector<TopEntry>* entries) const;

 private:
  static constexpr size_t kSlots = kWindow / Steps::kStep + 2;
  struct Slot {
    std::atomic<int64_t> number{-1};  // of the step; -1: of none
    std::array<LiveSketch, kRequestKeys> sketches;
  };
  // Halves the gap for each second since the last one that had requests.
  void BeginSecond(TimePoint now);
  // Chooses the next request that is looked at, and the gap.
  void ChooseNext();
  uint64_t Random();

  int64_t left_ = 1;
  int64_t gap_ = 1;
  TimePoint second_end_;  // of the second with the last request
  int samples_ = 0;       // in this second, since the gap was changed
  uint64_t random_;
  std::array<Slot, kSlots> slots_;
};

// Returns the beginning of a path that requests are counted by: its first two components.
std::string_view PathPrefixOf(std::string_view path);

// Adds up equal keys, and returns those with the most requests, the greatest first; keys with the same
// number by their text.
std::vector<TopEntry> TopOf(std::vector<TopEntry> entries, size_t count_max);

}  // namespace quorate::rpc
