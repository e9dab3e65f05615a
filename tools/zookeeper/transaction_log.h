// Reads a file of ZooKeeper's transaction log, and writes one.
//
// A record is its Adler-32, its size, its bytes and the letter B; zeros behind the last one are
// room that was set aside. A record that the server was writing when it died is torn: it was never
// acknowledged, and ends the file. The same damage with a good record anywhere behind it is no torn
// record, and an error.
//
// Thread-safety: none inside.
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
  // `name` is for messages. `bytes`, all of the file, outlives the reader.
  TransactionLog(std::string name, std::string_view bytes);

  // Reads the header: DataLoss if it is none. False if there is nothing behind it, or the file is
  // empty: the server died when it had just made it.
  absl::StatusOr<bool> Open();
  // The next transaction; false at the end. Its views point into the bytes of the log. DataLoss
  // names file and offset. REQUIRES: Open returned true, and no call returned false or an error.
  absl::StatusOr<bool> Next(Transaction* transaction);

  // Where a torn record begins that ended the file; no value if it ended well, or has not ended.
  std::optional<size_t> torn_at() const { return torn_at_; }
  // Where the record that Next returned last begins.
  size_t offset() const { return record_at_; }
  const std::string& name() const { return name_; }

 private:
  struct Record {
    std::string_view bytes;
    size_t size = 0;  // with all around them
  };

  // No value if there is no good record at `at`.
  std::optional<Record> RecordAt(size_t at) const;
  // Where a good record of a later zxid begins at or behind `at`.
  std::optional<size_t> FindLater(size_t at) const;
  absl::Status Damaged(size_t at, std::string_view what) const;

  const std::string name_;
  const std::string_view bytes_;
  size_t at_ = 0;
  size_t record_at_ = 0;
  tree::Zxid last_zxid_;
  std::optional<size_t> torn_at_;
};

// The header of a log, and a record of it around a transaction's bytes.
void AppendLogHeader(std::string* out);
void AppendLogRecord(std::string_view transaction, std::string* out);

}  // namespace quorate::tools::zookeeper
