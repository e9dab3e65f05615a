// SPDX-License-Identifier: Apache-2.0

// The response cache of a session: the responses to its numbered writes, kept until the client has
// acknowledged them. A write that is sent again gets the same response, and is not applied again.
//
// Layout of one response; numbers have 7 bits a byte, the lowest first, and the top bit of a byte
// says that more bytes follow. Signed numbers are mapped so that small ones are short (0, -1, 1,
// -2, ...).
//   header         zxid; the number of operations, plus 2^25 times the Branch, plus 2^27 if a read
//                  has found its node; if so, the cost of the reads that have; 0 if all succeeded,
//                  else 1 more than the place of the one that failed
//   all succeeded  each operation: u8 flags: 1 for a path, 2 for a stat, 4 for a count of removed
//                  nodes, 8 for a read that found its node, 16 for data, 32 for children, 64 for a
//                  count of added parents; then those that are present: length and path; the stat;
//                  the count of removed nodes; that of added parents; length and data; the number of
//                  children, and for each the length and the name
//   one failed     the error of that operation, which implies the others' errors
//   stat           how far czxid, mzxid and pzxid are below the response's zxid; mtime_ms; how far
//                  ctime_ms is below that; version, cversion, aversion, owner, data length,
//                  children
//
// Thread-safety: none inside; const functions may be called together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tree/types.h"

namespace quorate::tree {

// Encodes a response and replaces `*answer` with it. REQUIRES: `results` are those of one applied
// request: either all operations succeeded, or one failed and the others have the errors that
// ApplyResult describes.
void EncodeAnswer(Zxid zxid, Branch branch, std::span<const OpResult> results, std::string* answer);
// Decodes a response and replaces `*results`, which may be nullptr. Returns false if EncodeAnswer
// cannot have written the bytes. A response of few bytes can have very many results: of more than
// `results_max` only the first ones are returned. If the operation that failed is not among them, the
// last one has its error. REQUIRES: results_max > 0.
bool DecodeAnswer(std::string_view answer, Zxid* zxid, Branch* branch,
                  std::vector<OpResult>* results,
                  size_t results_max = std::numeric_limits<size_t>::max());
// Decodes only the zxid and the branch of a response. O(1).
bool DecodeAnswerHead(std::string_view answer, Zxid* zxid, Branch* branch);
// Returns the place of the first result with which the results, encoded, take more than
// kAnswerBytesMax; the last place if that is none. REQUIRES: `results` are not empty.
size_t PlaceOfExcess(Zxid zxid, std::span<const OpResult> results);

// The response cache of one session. The writes are numbered from 1. The cache has a response for
// each number from acknowledged() + 1 to last_sequence().
class ResponseCache {
 public:
  explicit ResponseCache(SessionId session);
  ResponseCache(const ResponseCache&) = delete;
  ResponseCache& operator=(const ResponseCache&) = delete;

  uint64_t last_sequence() const { return last_sequence_; }
  uint64_t acknowledged() const { return acknowledged_; }
  size_t size() const { return static_cast<size_t>(last_sequence_ - acknowledged_); }

  // Returns whether the cache stays within kAnswersMax, kAnswerBytesMax and kReadAnswerBytesMax if
  // `answer`, an encoded response, is added.
  bool HasRoom(std::string_view answer) const;
  // Returns whether an encoded response does not fit even into an empty cache.
  static bool IsTooLarge(std::string_view answer);
  // Adds the response to write number last_sequence() + 1. REQUIRES: HasRoom(answer).
  void Append(std::string_view answer);
  // Drops the responses up to number `sequence`, or all responses if that is above the last number.
  // Does nothing if they were dropped before. O(bytes dropped).
  void Acknowledge(uint64_t sequence);
  // Returns the response to write number `sequence`. The view is valid until the next change.
  // O(size()). REQUIRES: acknowledged() < sequence <= last_sequence().
  std::string_view Find(uint64_t sequence) const;

  // Return the cache's part of the digest: Hash in O(1), ComputeHash from scratch.
  uint64_t Hash() const;
  uint64_t ComputeHash() const;

  // Returns the memory of the cache in bytes. Members with the same responses may have allocated
  // more or less for them.
  size_t memory_bytes() const { return sizeof(ResponseCache) + bytes_.capacity(); }
  // Returns the responses, each preceded by its length: the input of Restore.
  std::string_view bytes() const { return std::string_view(bytes_).substr(begin_); }
  // Returns whether `bytes` are valid for a cache with those two numbers, and have ascending zxids.
  // If so, sets `*zxid` to the newest zxid (0 if there is no response).
  static bool IsValid(uint64_t last_sequence, uint64_t acknowledged, std::string_view bytes,
                      Zxid* zxid);
  // Returns a cache with those responses. REQUIRES: IsValid returns true for the same arguments.
  static std::unique_ptr<ResponseCache> Restore(SessionId session, uint64_t last_sequence,
                                                uint64_t acknowledged, std::string_view bytes);

 private:
  uint64_t HashAnswer(uint64_t sequence, std::string_view answer) const;

  const SessionId session_;
  uint64_t last_sequence_ = 0;
  uint64_t acknowledged_ = 0;
  std::string bytes_;
  size_t begin_ = 0;       // the bytes before belong to dropped responses
  size_t read_bytes_ = 0;  // the cost of the reads in the responses
  uint64_t hash_sum_ = 0;
};

}  // namespace quorate::tree
