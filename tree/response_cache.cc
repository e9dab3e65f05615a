// SPDX-License-Identifier: Apache-2.0

#include "tree/response_cache.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/assert.h"
#include "tree/digest.h"
#include "tree/limits.h"

namespace quorate::tree {
namespace {

constexpr uint8_t kHasPath = 1;
constexpr uint8_t kHasStat = 2;
constexpr uint8_t kHasRemoved = 4;
constexpr uint8_t kHasFound = 8;
constexpr uint8_t kHasData = 16;
constexpr uint8_t kHasChildren = 32;
constexpr uint8_t kHasParents = 64;
constexpr uint8_t kAllFlags =
    kHasPath | kHasStat | kHasRemoved | kHasFound | kHasData | kHasChildren | kHasParents;

// Where the number of the branch begins in the number of operations.
constexpr int kBranchShift = 25;
static_assert(kAnswerOperationsMax < uint64_t{1} << kBranchShift);
// The bit in the number of operations of a response with what a request has read.
constexpr uint64_t kHasReads = uint64_t{1} << (kBranchShift + 2);

constexpr int kBitsOfByte = 7;
constexpr uint8_t kMoreFollows = 1 << kBitsOfByte;
constexpr size_t kNumberBytesMax = 10;

// The maximum memory, in bytes, that an emptied cache keeps. If dropped responses take more than
// that, and more than half of the memory, the remaining ones are moved to the front.
constexpr size_t kKeptBytes = 4096;

void AppendNumber(uint64_t value, std::string* out) {
  for (; value >= kMoreFollows; value >>= kBitsOfByte) {
    out->push_back(static_cast<char>((value & (kMoreFollows - 1)) | kMoreFollows));
  }
  out->push_back(static_cast<char>(value));
}

void AppendSigned(int64_t value, std::string* out) {
  const uint64_t bits = static_cast<uint64_t>(value) << 1;
  AppendNumber(value < 0 ? ~bits : bits, out);
}

size_t NumberBytes(uint64_t value) {
  size_t bytes = 1;
  for (; value >= kMoreFollows; value >>= kBitsOfByte) ++bytes;
  return bytes;
}

// Returns from - value with wraparound, so that any two numbers, even implausible ones, are
// restored exactly.
int64_t Below(int64_t from, int64_t value) {
  return static_cast<int64_t>(static_cast<uint64_t>(from) - static_cast<uint64_t>(value));
}

// Reads numbers from the front of a string. At the first number that is missing, or not encoded as
// AppendNumber does, ok() becomes false; that number and all later ones are 0.
class NumberReader {
 public:
  explicit NumberReader(std::string_view bytes) : rest_(bytes) {}

  uint64_t Number() {
    uint64_t value = 0;
    for (size_t i = 0; i < kNumberBytesMax && i < rest_.size(); ++i) {
      const auto byte = static_cast<uint8_t>(rest_[i]);
      const int shift = static_cast<int>(i) * kBitsOfByte;
      const uint64_t bits = byte & (kMoreFollows - 1);
      if ((bits << shift) >> shift != bits) break;
      value |= bits << shift;
      if ((byte & kMoreFollows) != 0) continue;
      if (byte == 0 && i > 0) break;  // the encoding is not the shortest one
      rest_.remove_prefix(i + 1);
      return value;
    }
    Fail();
    return 0;
  }
  int64_t Signed() {
    const uint64_t bits = Number();
    return static_cast<int64_t>((bits & 1) != 0 ? ~(bits >> 1) : bits >> 1);
  }
  int32_t Signed32() {
    const int64_t value = Signed();
    if (value < std::numeric_limits<int32_t>::min() ||
        value > std::numeric_limits<int32_t>::max()) {
      Fail();
      return 0;
    }
    return static_cast<int32_t>(value);
  }
  std::string_view Bytes(uint64_t size) {
    if (size > rest_.size()) {
      Fail();
      return {};
    }
    const std::string_view bytes = rest_.substr(0, static_cast<size_t>(size));
    rest_.remove_prefix(bytes.size());
    return bytes;
  }

  void Fail() {
    ok_ = false;
    rest_ = {};
  }
  bool ok() const { return ok_; }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

void AppendStat(const Stat& stat, Zxid zxid, std::string* out) {
  AppendSigned(Below(zxid.value(), stat.czxid.value()), out);
  AppendSigned(Below(zxid.value(), stat.mzxid.value()), out);
  AppendSigned(Below(zxid.value(), stat.pzxid.value()), out);
  AppendSigned(stat.mtime_ms, out);
  AppendSigned(Below(stat.mtime_ms, stat.ctime_ms), out);
  AppendSigned(stat.version, out);
  AppendSigned(stat.cversion, out);
  AppendSigned(stat.aversion, out);
  AppendSigned(stat.ephemeral_owner.value(), out);
  AppendSigned(stat.data_length, out);
  AppendSigned(stat.num_children, out);
}

Stat ReadStat(Zxid zxid, NumberReader* reader) {
  Stat stat;
  stat.czxid = Zxid(Below(zxid.value(), reader->Signed()));
  stat.mzxid = Zxid(Below(zxid.value(), reader->Signed()));
  stat.pzxid = Zxid(Below(zxid.value(), reader->Signed()));
  stat.mtime_ms = reader->Signed();
  stat.ctime_ms = Below(stat.mtime_ms, reader->Signed());
  stat.version = reader->Signed32();
  stat.cversion = reader->Signed32();
  stat.aversion = reader->Signed32();
  stat.ephemeral_owner = SessionId(reader->Signed());
  stat.data_length = reader->Signed32();
  stat.num_children = reader->Signed32();
  return stat;
}

void AppendBytes(std::string_view bytes, std::string* out) {
  AppendNumber(bytes.size(), out);
  out->append(bytes);
}

void AppendResult(const OpResult& result, Zxid zxid, std::string* out) {
  const bool has_stat = result.stat != Stat{};
  out->push_back(static_cast<char>(
      (result.path.empty() ? 0 : kHasPath) | (has_stat ? kHasStat : 0) |
      (result.removed == 0 ? 0 : kHasRemoved) | (result.found ? kHasFound : 0) |
      (result.data.empty() ? 0 : kHasData) | (result.children.empty() ? 0 : kHasChildren) |
      (result.added_parents == 0 ? 0 : kHasParents)));
  if (!result.path.empty()) AppendBytes(result.path, out);
  if (has_stat) AppendStat(result.stat, zxid, out);
  if (result.removed != 0) AppendNumber(result.removed, out);
  if (result.added_parents != 0) AppendNumber(result.added_parents, out);
  if (!result.data.empty()) AppendBytes(result.data, out);
  if (result.children.empty()) return;
  AppendNumber(result.children.size(), out);
  for (const std::string& child : result.children) AppendBytes(child, out);
}

void ReadChildren(NumberReader* reader, std::vector<std::string>* children) {
  const uint64_t count = reader->Number();
  // Each name takes at least one byte.
  if (count == 0 || count > reader->rest().size()) return reader->Fail();
  children->reserve(count);
  for (uint64_t i = 0; i < count && reader->ok(); ++i) {
    children->emplace_back(reader->Bytes(reader->Number()));
  }
}

void ReadResult(Zxid zxid, NumberReader* reader, OpResult* result) {
  const std::string_view byte = reader->Bytes(1);
  const uint8_t flags = byte.empty() ? 0 : static_cast<uint8_t>(byte.front());
  if ((flags & ~kAllFlags) != 0) reader->Fail();
  if ((flags & kHasPath) != 0) {
    result->path = reader->Bytes(reader->Number());
    if (result->path.empty()) reader->Fail();
  }
  if ((flags & kHasStat) != 0) {
    result->stat = ReadStat(zxid, reader);
    if (result->stat == Stat{}) reader->Fail();
  }
  if ((flags & kHasRemoved) != 0) {
    result->removed = reader->Number();
    if (result->removed == 0) reader->Fail();
  }
  if ((flags & kHasParents) != 0) {
    result->added_parents = reader->Number();
    if (result->added_parents == 0) reader->Fail();
  }
  result->found = (flags & kHasFound) != 0;
  if ((flags & kHasData) != 0) {
    result->data = reader->Bytes(reader->Number());
    if (result->data.empty()) reader->Fail();
  }
  if ((flags & kHasChildren) != 0) ReadChildren(reader, &result->children);
}

// Returns the bytes that an encoded response takes in a cache.
size_t KeptBytes(std::string_view answer) { return answer.size() + NumberBytes(answer.size()); }

// Returns what an encoded response takes of kReadAnswerBytesMax.
size_t ReadBytes(std::string_view answer) {
  NumberReader reader(answer);
  reader.Number();  // zxid
  return (reader.Number() & kHasReads) != 0 ? static_cast<size_t>(reader.Number()) : 0;
}

// Returns the cost of what a read has returned, as Tree counts it; 0 for all other results. It is
// more than the bytes of the encoded result.
size_t ReadCostOf(const OpResult& result) {
  if (!result.found) return 0;
  size_t cost = kReadCost + result.data.size() + result.children.size() * kReadChildCost;
  for (const std::string& child : result.children) cost += child.size();
  return cost;
}

struct Head {
  Zxid zxid;
  Branch branch = Branch::kNone;
  uint64_t count = 0;
  bool has_reads = false;
  uint64_t read_cost = 0;
  uint64_t failed = 0;
};

// Reads the header of a response. Returns false if EncodeAnswer cannot have written it.
bool ReadHead(NumberReader* reader, Head* head) {
  head->zxid = Zxid(static_cast<int64_t>(reader->Number()));
  const uint64_t numbers = reader->Number();
  head->has_reads = (numbers & kHasReads) != 0;
  if (head->has_reads) head->read_cost = reader->Number();
  const uint64_t branch_and_count = numbers & ~kHasReads;
  head->count = branch_and_count & ((uint64_t{1} << kBranchShift) - 1);
  head->failed = reader->Number();
  const uint64_t branch = branch_and_count >> kBranchShift;
  if (branch > static_cast<uint64_t>(Branch::kCompares)) return false;
  head->branch = static_cast<Branch>(branch);
  if (head->branch == Branch::kCompares && head->failed == 0) return false;
  if (head->has_reads && head->failed != 0) return false;
  return reader->ok() && head->zxid > Zxid(0) && head->failed <= head->count &&
         head->count <= kAnswerOperationsMax;
}

}  // namespace

void EncodeAnswer(Zxid zxid, Branch branch, std::span<const OpResult> results,
                  std::string* answer) {
  ASSERT(results.size() <= kAnswerOperationsMax, "a log entry cannot hold so many");
  answer->clear();
  size_t failed = 0;
  while (failed < results.size() && results[failed].error == ErrorCode::kOk) ++failed;
  AppendNumber(static_cast<uint64_t>(zxid.value()), answer);
  size_t read_cost = 0;
  for (const OpResult& result : results) read_cost += ReadCostOf(result);
  AppendNumber(results.size() | static_cast<uint64_t>(branch) << kBranchShift |
                   (read_cost > 0 ? kHasReads : 0),
               answer);
  if (read_cost > 0) AppendNumber(read_cost, answer);
  AppendNumber(failed == results.size() ? 0 : failed + 1, answer);
  if (failed < results.size()) {
    AppendSigned(static_cast<int32_t>(results[failed].error), answer);
  } else {
    for (const OpResult& result : results) AppendResult(result, zxid, answer);
  }
}

bool DecodeAnswer(std::string_view answer, Zxid* zxid, Branch* branch,
                  std::vector<OpResult>* results, size_t results_max) {
  NumberReader reader(answer);
  Head head;
  if (!ReadHead(&reader, &head)) return false;
  *zxid = head.zxid;
  *branch = head.branch;
  const auto returned = static_cast<size_t>(std::min<uint64_t>(head.count, results_max));
  if (results != nullptr) results->clear();
  if (head.failed == 0) {
    // Each operation takes at least one byte. Refuses a larger count before memory is allocated for
    // it.
    if (head.count > reader.rest().size()) return false;
    if (results != nullptr) results->reserve(returned);
    size_t read_cost = 0;
    for (uint64_t i = 0; i < head.count && reader.ok(); ++i) {
      OpResult result;
      ReadResult(*zxid, &reader, &result);
      read_cost += ReadCostOf(result);
      if (results != nullptr && i < returned) results->push_back(std::move(result));
    }
    return reader.ok() && reader.rest().empty() && read_cost == head.read_cost &&
           head.has_reads == (read_cost > 0);
  }
  const auto error = static_cast<ErrorCode>(reader.Signed32());
  if (!reader.ok() || !reader.rest().empty() || error == ErrorCode::kOk) return false;
  if (results == nullptr) return true;
  results->resize(returned);
  SetFailed(error, std::min<size_t>(head.failed, returned) - 1, *results);
  return true;
}

bool DecodeAnswerHead(std::string_view answer, Zxid* zxid, Branch* branch) {
  NumberReader reader(answer);
  Head head;
  if (!ReadHead(&reader, &head)) return false;
  *zxid = head.zxid;
  *branch = head.branch;
  return true;
}

size_t PlaceOfExcess(Zxid zxid, std::span<const OpResult> results) {
  std::string encoded;
  for (size_t i = 0; i < results.size(); ++i) {
    AppendResult(results[i], zxid, &encoded);
    if (encoded.size() > kAnswerBytesMax) return i;
  }
  return results.size() - 1;
}

ResponseCache::ResponseCache(SessionId session) : session_(session) {
  ASSERT(session != kNoSession, "writes without a session are not numbered");
}

bool ResponseCache::IsTooLarge(std::string_view answer) {
  return KeptBytes(answer) > kAnswerBytesMax;
}

bool ResponseCache::HasRoom(std::string_view answer) const {
  const size_t read_bytes = ReadBytes(answer);
  return size() < kAnswersMax && bytes().size() + KeptBytes(answer) <= kAnswerBytesMax &&
         (read_bytes == 0 || read_bytes_ + read_bytes <= kReadAnswerBytesMax);
}

void ResponseCache::Append(std::string_view answer) {
  ASSERT(HasRoom(answer), "the caller has checked HasRoom");
  AppendNumber(answer.size(), &bytes_);
  bytes_.append(answer);
  ++last_sequence_;
  hash_sum_ += HashAnswer(last_sequence_, answer);
  read_bytes_ += ReadBytes(answer);
}

void ResponseCache::Acknowledge(uint64_t sequence) {
  NumberReader reader(bytes());
  while (acknowledged_ < sequence && acknowledged_ < last_sequence_) {
    const std::string_view answer = reader.Bytes(reader.Number());
    ASSERT(reader.ok(), "the cache holds only responses that were appended");
    ++acknowledged_;
    hash_sum_ -= HashAnswer(acknowledged_, answer);
    read_bytes_ -= ReadBytes(answer);
  }
  begin_ = bytes_.size() - reader.rest().size();
  if (begin_ == bytes_.size()) {
    begin_ = 0;
    if (bytes_.capacity() > kKeptBytes) {
      std::string().swap(bytes_);  // an assignment would keep the memory
    } else {
      bytes_.clear();
    }
  } else if (begin_ > kKeptBytes && begin_ > bytes_.size() / 2) {
    bytes_ = std::string(bytes());
    begin_ = 0;
  }
}

std::string_view ResponseCache::Find(uint64_t sequence) const {
  ASSERT(sequence > acknowledged_, "the response was dropped");
  ASSERT(sequence <= last_sequence_, "the response was not appended yet");
  NumberReader reader(bytes());
  std::string_view answer;
  for (uint64_t at = acknowledged_; at < sequence; ++at) answer = reader.Bytes(reader.Number());
  ASSERT(reader.ok(), "the cache holds only responses that were appended");
  return answer;
}

uint64_t ResponseCache::HashAnswer(uint64_t sequence, std::string_view answer) const {
  return HashNumbers<3>(kAnswerTerm,
                        {static_cast<uint64_t>(session_.value()), sequence, HashBytes(answer)});
}

uint64_t ResponseCache::Hash() const {
  return hash_sum_ + HashNumbers<3>(kAnswersTerm, {static_cast<uint64_t>(session_.value()),
                                                   last_sequence_, acknowledged_});
}

uint64_t ResponseCache::ComputeHash() const {
  return Restore(session_, last_sequence_, acknowledged_, bytes())->Hash();
}

bool ResponseCache::IsValid(uint64_t last_sequence, uint64_t acknowledged, std::string_view bytes,
                            Zxid* zxid) {
  *zxid = Zxid(0);
  if (last_sequence == 0 || acknowledged > last_sequence) return false;
  if (last_sequence - acknowledged > kAnswersMax || bytes.size() > kAnswerBytesMax) return false;
  NumberReader reader(bytes);
  size_t read_bytes = 0;
  for (uint64_t at = acknowledged; at < last_sequence; ++at) {
    const std::string_view answer = reader.Bytes(reader.Number());
    const Zxid before = *zxid;
    read_bytes += ReadBytes(answer);
    Branch branch;
    if (!reader.ok() || !DecodeAnswer(answer, zxid, &branch, nullptr) || *zxid <= before) {
      return false;
    }
  }
  return reader.rest().empty() && read_bytes <= kReadAnswerBytesMax;
}

std::unique_ptr<ResponseCache> ResponseCache::Restore(SessionId session, uint64_t last_sequence,
                                                      uint64_t acknowledged,
                                                      std::string_view bytes) {
  auto table = std::make_unique<ResponseCache>(session);
  table->last_sequence_ = last_sequence;
  table->acknowledged_ = acknowledged;
  table->bytes_ = bytes;
  NumberReader reader(bytes);
  for (uint64_t at = acknowledged; at < last_sequence; ++at) {
    const std::string_view answer = reader.Bytes(reader.Number());
    table->hash_sum_ += table->HashAnswer(at + 1, answer);
    table->read_bytes_ += ReadBytes(answer);
  }
  ASSERT(reader.ok(), "the caller has checked IsValid");
  return table;
}

}  // namespace quorate::tree
