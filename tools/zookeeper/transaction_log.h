// SPDX-License-Identifier: Apache-2.0

// Reads a file of ZooKeeper's transaction log, and writes one.
//
// A record consists of its Adler-32, its size, its bytes and the letter B. Zeros after the last
// record are preallocated space. A record that the server was writing when it died is torn: it was
// never acknowledged, and ends the file. If an intact record follows anywhere after a broken one,
// the broken record is not torn but damaged, which is an error.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/zookeeper/transaction.h"

namespace quorate::tools::zookeeper {

class TransactionLog {
 public:
  // `name` is used in messages. `bytes`, the whole file, must outlive the reader.
  TransactionLog(std::string name, std::string_view bytes);

  // Reads the header: DataLoss if it is invalid. Returns false if nothing follows it, or the file
  // is empty: the server died just after it had created the file.
  absl::StatusOr<bool> Open();
  // Reads the next transaction. Returns false at the end. The transaction's views point into the
  // bytes of the log. DataLoss names file and offset. REQUIRES: Open returned true, and no call
  // returned false or an error.
  absl::StatusOr<bool> Next(Transaction* transaction);

  // Returns the offset of the torn record at the end of the file; no value if there is none, or the
  // end is not reached yet.
  std::optional<size_t> torn_at() const { return torn_at_; }
  // Returns the offset of the record that Next returned last.
  size_t offset() const { return record_at_; }
  const std::string& name() const { return name_; }

 private:
  struct Record {
    std::string_view bytes;
    size_t size = 0;  // including the fields around them
  };

  // Returns the record at `at`; no value if there is no intact record.
  std::optional<Record> RecordAt(size_t at) const;
  // Returns the offset of the first intact record with a later zxid, at or after `at`.
  std::optional<size_t> FindLater(size_t at) const;
  absl::Status Damaged(size_t at, std::string_view what) const;

  const std::string name_;
  const std::string_view bytes_;
  size_t at_ = 0;
  size_t record_at_ = 0;
  tree::Zxid last_zxid_;
  std::optional<size_t> torn_at_;
};

// Append the header of a log, or a record with a transaction's bytes.
void AppendLogHeader(std::string* out);
void AppendLogRecord(std::string_view transaction, std::string* out);

}  // namespace quorate::tools::zookeeper
