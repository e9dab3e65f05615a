// SPDX-License-Identifier: Apache-2.0

// Creates files as ZooKeeper servers write them, record by record, for tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "rpc/zookeeper_files/jute.h"
#include "tools/zookeeper/transaction.h"
#include "tools/zookeeper/transaction_log.h"
#include "tree/types.h"

namespace quorate::tools::zookeeper {

inline constexpr int64_t kSession = 0x0100000000000001;

// Builds the bytes of a transaction's record.
class RecordBuilder {
 public:
  RecordBuilder& Int(int32_t number) { return Put(number); }
  RecordBuilder& Long(int64_t number) { return Put(number); }
  RecordBuilder& Bool(bool value) { return Put(static_cast<uint8_t>(value)); }
  RecordBuilder& String(std::string_view text) {
    BigEndianWriter(&bytes_).String(text);
    return *this;
  }
  RecordBuilder& Null() { return Put(int32_t{-1}); }
  RecordBuilder& AclList(const std::vector<tree::Acl>& acl = tree::OpenAcl()) {
    zookeeper_files::AppendAcl(acl, &bytes_);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  template <typename Number>
  RecordBuilder& Put(Number number) {
    BigEndianWriter(&bytes_).Int(number);
    return *this;
  }
  std::string bytes_;
};

inline std::string CreateRecord(std::string_view path, std::string_view data, bool ephemeral,
                                int32_t parent_cversion) {
  return RecordBuilder()
      .String(path)
      .String(data)
      .AclList()
      .Bool(ephemeral)
      .Int(parent_cversion)
      .bytes();
}
inline std::string DeleteRecord(std::string_view path) {
  return RecordBuilder().String(path).bytes();
}
inline std::string SetDataRecord(std::string_view path, std::string_view data, int32_t version) {
  return RecordBuilder().String(path).String(data).Int(version).bytes();
}
inline std::string MultiRecord(
    const std::vector<std::pair<TransactionType, std::string>>& operations) {
  RecordBuilder multi;
  multi.Int(static_cast<int32_t>(operations.size()));
  for (const auto& [type, record] : operations) {
    multi.Int(static_cast<int32_t>(type)).String(record);
  }
  return multi.bytes();
}

// Returns a transaction's time: one transaction per millisecond.
inline int64_t TimeOf(int64_t zxid) { return 1'700'000'000'000 + (zxid & 0xFFFFFFFF); }

inline std::string TransactionBytes(int64_t zxid, TransactionType type, std::string_view record,
                                    std::optional<uint64_t> digest = std::nullopt,
                                    int64_t session = kSession) {
  std::string bytes;
  BigEndianWriter writer(&bytes);
  writer.Int(session);
  writer.Int(int32_t{1});
  writer.Int(zxid);
  writer.Int(TimeOf(zxid));
  writer.Int(static_cast<int32_t>(type));
  writer.Raw(record);
  if (digest.has_value()) {
    writer.Int(int32_t{2});
    writer.Int(*digest);
  }
  return bytes;
}

// Builds a log, transaction by transaction.
class LogBuilder {
 public:
  LogBuilder() { AppendLogHeader(&bytes_); }
  LogBuilder& Add(int64_t zxid, TransactionType type, std::string_view record,
                  std::optional<uint64_t> digest = std::nullopt, int64_t session = kSession) {
    AppendLogRecord(TransactionBytes(zxid, type, record, digest, session), &bytes_);
    return *this;
  }
  // Returns the file as ZooKeeper preallocates it on the disk, with zeros at the end.
  std::string Padded() const { return bytes_ + std::string(4096, '\0'); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace quorate::tools::zookeeper
