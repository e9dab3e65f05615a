// SPDX-License-Identifier: Apache-2.0

#include "tools/zookeeper/transaction_log.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/strings.h"
#include "rpc/zookeeper_files/checksum.h"

namespace quorate::tools::zookeeper {
namespace {

constexpr int32_t kMagic = 0x5A4B4C47;  // "ZKLG"
constexpr int32_t kVersion = 2;
constexpr size_t kHeaderBytes = 16;
constexpr uint64_t kAdler32Max = std::numeric_limits<uint32_t>::max();
constexpr size_t kPrefixBytes = sizeof(int64_t) + sizeof(int32_t);
constexpr char kRecordEnd = 'B';
// The size of a transaction's header, and the offset of the zxid in the header.
constexpr size_t kLeastBytes = 32;
constexpr size_t kZxidOffset = 12;

bool IsBlank(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

}  // namespace

TransactionLog::TransactionLog(std::string name, std::string_view bytes)
    : name_(std::move(name)), bytes_(bytes) {}

absl::Status TransactionLog::Damaged(size_t at, std::string_view what) const {
  return absl::DataLossError(absl::StrCat(name_, " is damaged at offset ", at, ": ", ToAbsl(what)));
}

absl::StatusOr<bool> TransactionLog::Open() {
  if (IsBlank(bytes_)) return false;
  BigEndianReader reader(bytes_);
  const int32_t magic = reader.Int<int32_t>();
  const int32_t version = reader.Int<int32_t>();
  reader.Int<int64_t>();  // the database number, which is always 0
  if (!reader.ok() || magic != kMagic) return Damaged(0, "this is no log of ZooKeeper");
  if (version != kVersion) {
    return Damaged(sizeof(magic), absl::StrCat("its format is ", version, " instead of 2"));
  }
  at_ = kHeaderBytes;
  return !IsBlank(bytes_.substr(at_));
}

std::optional<TransactionLog::Record> TransactionLog::RecordAt(size_t at) const {
  BigEndianReader reader(bytes_.substr(at));
  const uint64_t checksum = reader.Int<uint64_t>();
  const uint32_t size = reader.Int<uint32_t>();
  if (!reader.ok() || checksum > kAdler32Max || size < kLeastBytes) return std::nullopt;
  const std::string_view bytes = reader.Raw(size);
  const std::string_view end = reader.Raw(1);
  // The checksum is verified last: it is the most expensive check.
  if (!reader.ok() || end.front() != kRecordEnd || zookeeper_files::Adler32(bytes) != checksum)
    return std::nullopt;
  return Record{bytes, kPrefixBytes + size + 1};
}

std::optional<size_t> TransactionLog::FindLater(size_t at) const {
  for (; at + kPrefixBytes + kLeastBytes < bytes_.size(); ++at) {
    // Skips zeros, which are most of the file, and with which no record begins.
    const size_t next = bytes_.find_first_not_of('\0', at);
    if (next == std::string_view::npos) return std::nullopt;
    // The upper half of the checksum is zero, and the first byte of its lower half may be zero,
    // too.
    constexpr size_t kZerosMax = 7;
    at = std::max(at, next - std::min(next, kZerosMax));
    const std::optional<Record> record = RecordAt(at);
    if (!record.has_value()) continue;
    const auto zxid = LoadInt<std::endian::big, int64_t>(record->bytes.data() + kZxidOffset);
    if (zxid > last_zxid_.value()) return at;
  }
  return std::nullopt;
}

absl::StatusOr<bool> TransactionLog::Next(Transaction* transaction) {
  ASSERT(at_ >= kHeaderBytes, "Open was called");
  const std::optional<Record> record = RecordAt(at_);
  if (!record.has_value()) {
    if (IsBlank(bytes_.substr(at_))) return false;
    if (const std::optional<size_t> later = FindLater(at_); later.has_value()) {
      return Damaged(at_, absl::StrCat("a record has a wrong checksum or size, and intact records "
                                       "follow from offset ",
                                       *later, " on; use the data of another server"));
    }
    torn_at_ = at_;
    return false;
  }
  if (absl::Status decoded = DecodeTransaction(record->bytes, transaction); !decoded.ok()) {
    return Damaged(at_, ToStd(decoded.message()));
  }
  if (transaction->zxid <= last_zxid_) return Damaged(at_, "the zxids do not ascend");
  last_zxid_ = transaction->zxid;
  record_at_ = at_;
  at_ += record->size;
  return true;
}

void AppendLogHeader(std::string* out) {
  BigEndianWriter writer(out);
  writer.Int(kMagic);
  writer.Int(kVersion);
  writer.Int(int64_t{0});
}

void AppendLogRecord(std::string_view transaction, std::string* out) {
  BigEndianWriter writer(out);
  writer.Int(uint64_t{zookeeper_files::Adler32(transaction)});
  writer.String(transaction);
  out->push_back(kRecordEnd);
}

}  // namespace quorate::tools::zookeeper
