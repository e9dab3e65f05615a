// The response cache of a session: the answers to its numbered writes, kept until its client has
// acknowledged them. A write that is sent again gets the answer that it got, and is not applied
// again.
//
// Layout of one answer; numbers have 7 bits a byte, the lowest first, and the top bit of a byte
// says that there is more. Signed ones are turned so that small ones are short (0, -1, 1, -2, ...).
//   header         zxid; how many operations; 0 if all succeeded, else 1 more than the place of the
//                  one that failed
//   all succeeded  each operation: u8 flags: 1 for a path, 2 for a stat, 4 for a count of removed
//                  nodes; then those that there are: length and path; the stat; the count
//   one failed     its error; it follows what the others have
//   stat           how far czxid, mzxid and pzxid are below the answer's zxid; mtime_ms, how far
//                  ctime_ms is below that; version, cversion, aversion, owner, data length,
//                  children
//
// Thread-safety: none inside; const functions may be called together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tree/types.h"

namespace quorate::tree {

// Replaces what `*answer` holds. REQUIRES: `results` are those of one request that was applied: all
// succeeded, or one failed and the others have what ApplyResult says.
void EncodeAnswer(Zxid zxid, std::span<const OpResult> results, std::string* answer);
// Replaces what `*results` holds, which may be nullptr. False if it is not what EncodeAnswer
// writes.
bool DecodeAnswer(std::string_view answer, Zxid* zxid, std::vector<OpResult>* results);

// Of one session. The writes are numbered from 1; there is an answer for each number above
// acknowledged() up to last_sequence().
class ResponseCache {
 public:
  explicit ResponseCache(SessionId session);
  ResponseCache(const ResponseCache&) = delete;
  ResponseCache& operator=(const ResponseCache&) = delete;

  uint64_t last_sequence() const { return last_sequence_; }
  uint64_t acknowledged() const { return acknowledged_; }
  size_t size() const { return static_cast<size_t>(last_sequence_ - acknowledged_); }

  // Whether one more answer of so many bytes keeps within kAnswersMax and kAnswerBytesMax.
  bool HasRoom(size_t answer_bytes) const;
  // Whether an answer of so many bytes has room when there is no other.
  static bool IsTooLarge(size_t answer_bytes);
  // The answer to number last_sequence() + 1. REQUIRES: HasRoom(answer.size()).
  void Append(std::string_view answer);
  // Forgets the answers up to that number, all if it is above the last. Nothing happens if they
  // were forgotten before. O(their bytes).
  void Acknowledge(uint64_t sequence);
  // Valid until the next change. REQUIRES: acknowledged() < sequence <= last_sequence(). O(size()).
  std::string_view Find(uint64_t sequence) const;

  // The table's part of the digest: O(1), and computed from scratch.
  uint64_t Hash() const;
  uint64_t ComputeHash() const;

  // The memory that the table takes.
  size_t memory_bytes() const { return sizeof(ResponseCache) + bytes_.capacity(); }
  // The answers, each after its length as a number: what Restore takes.
  std::string_view bytes() const { return std::string_view(bytes_).substr(begin_); }
  // Whether they are what a table of those numbers can hold, the zxids ascending; if so, `*zxid` is
  // the newest of them (0 if there is none).
  static bool IsValid(uint64_t last_sequence, uint64_t acknowledged, std::string_view bytes,
                      Zxid* zxid);
  // REQUIRES: IsValid.
  static std::unique_ptr<ResponseCache> Restore(SessionId session, uint64_t last_sequence,
                                                uint64_t acknowledged, std::string_view bytes);

 private:
  uint64_t HashAnswer(uint64_t sequence, std::string_view answer) const;

  const SessionId session_;
  uint64_t last_sequence_ = 0;
  uint64_t acknowledged_ = 0;
  std::string bytes_;
  size_t begin_ = 0;  // bytes of forgotten answers stand before
  uint64_t hash_sum_ = 0;
};

}  // namespace quorate::tree
