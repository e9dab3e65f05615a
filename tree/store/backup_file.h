// SPDX-License-Identifier: Apache-2.0

// A backup file: the records of a tree (tree/record.h) at one zxid. It is written and read from
// beginning to end, without ever holding more than a block in memory. Readers detect a file that
// was cut off or damaged anywhere, and the error says where.
//
//   magic "QRTBACK1", u32 format (1), then parts:
//   u8 kind, u32 number (0, 1, 2, ...), u32 size, that many bytes, u32 CRC-32C of all of these
//
//   kind 1  the header, number 0: 16 bytes cluster id, i64 zxid, u64 term, u64 digest,
//           i64 made_ms, u32 count and u64 each voters, u32 count and u64 each observers
//   kind 2  records in the order of their keys: u32 and u32 lengths, key, value
//   kind 3  the trailer, the last part: u64 records, u64 their bytes, 16 bytes XXH3-128
//           (big-endian) of the file up to this part. Nothing follows it
//
// Numbers are little-endian.
//
// Thread-safety: none inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tree/types.h"

namespace quorate::tree {

inline constexpr size_t kBackupChecksumBytes = 16;
// Records are collected in blocks of about this size; a larger record has a block of its own.
inline constexpr size_t kBackupBlockBytes = size_t{256} << 10;
// The maximum size of a key and value together.
inline constexpr size_t kBackupRecordBytesMax = size_t{128} << 20;

// Identifies a backup by its cluster, zxid and time.
struct BackupHeader {
  std::string cluster_id;  // 16 bytes
  Zxid zxid;
  uint64_t term = 0;    // term of the log entry at zxid
  uint64_t digest = 0;  // digest of the tree
  int64_t made_ms = 0;  // since the epoch
  std::vector<uint64_t> voters;
  std::vector<uint64_t> observers;
  friend bool operator==(const BackupHeader&, const BackupHeader&) = default;
};

// Totals that are known only at the end of a backup.
struct BackupTotals {
  uint64_t records = 0;
  uint64_t record_bytes = 0;  // keys and values
  uint64_t file_bytes = 0;
  std::string checksum;  // of the whole file, kBackupChecksumBytes long
  friend bool operator==(const BackupTotals&, const BackupTotals&) = default;
};

// Computes a checksum of bytes that are added in pieces.
class BackupChecksum {
 public:
  BackupChecksum();
  ~BackupChecksum();
  BackupChecksum(const BackupChecksum&) = delete;
  BackupChecksum& operator=(const BackupChecksum&) = delete;
  void Add(std::string_view bytes);
  // Returns the checksum of all bytes added so far, kBackupChecksumBytes long.
  std::string Value() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

class BackupFileWriter {
 public:
  // Creates the file `path`, or empties it. Only its owner may read it, because it contains the
  // passwords of sessions. Errors of all functions name the file: ResourceExhausted if the disk is
  // full, Internal otherwise.
  static absl::StatusOr<std::unique_ptr<BackupFileWriter>> Create(std::string path,
                                                                  const BackupHeader& header);
  // Closes the file. If Finish was not called, the incomplete file stays there.
  ~BackupFileWriter();
  BackupFileWriter(const BackupFileWriter&) = delete;
  BackupFileWriter& operator=(const BackupFileWriter&) = delete;

  // Adds a record. REQUIRES: no error was returned before; keys ascend.
  absl::Status Add(std::string_view key, std::string_view value);
  // Writes the trailer and makes the contents of the file durable. Call SyncDirectoryOf to make its
  // name durable too. REQUIRES: no error was returned before; called once, as the last function.
  absl::StatusOr<BackupTotals> Finish();

  // Returns the size of the file so far.
  uint64_t bytes() const { return totals_.file_bytes + block_.size(); }

 private:
  BackupFileWriter(std::string path, int descriptor);

  absl::Status WritePart(uint8_t kind, std::string_view body);
  absl::Status Write(std::string_view bytes);
  absl::Status FlushBlock();

  const std::string path_;
  const int descriptor_;
  BackupChecksum checksum_;
  BackupTotals totals_;
  std::string block_;
  std::string part_;
  uint32_t next_number_ = 0;
};

class BackupFileReader {
 public:
  // Opens a backup file. Returns NotFound if there is no such file. Errors of all functions name
  // the file and the offset: InvalidArgument if the file is not a backup or has a later format,
  // DataLoss if it is cut off or damaged.
  static absl::StatusOr<std::unique_ptr<BackupFileReader>> Open(const std::string& path);
  // Opens a backup from any stream. `name` is used in errors.
  static absl::StatusOr<std::unique_ptr<BackupFileReader>> Open(std::unique_ptr<std::istream> input,
                                                                std::string name);
  BackupFileReader(const BackupFileReader&) = delete;
  BackupFileReader& operator=(const BackupFileReader&) = delete;

  const BackupHeader& header() const { return header_; }
  // Reads the next record. Returns false after the last record: then the whole file was checked and
  // is valid. The views are valid until the next call. REQUIRES: no earlier call returned false or
  // an error.
  absl::StatusOr<bool> Next(std::string_view* key, std::string_view* value);
  // Returns the totals of the backup. REQUIRES: Next returned false.
  const BackupTotals& totals() const { return totals_; }
  // Returns the offset up to which the file was read.
  uint64_t offset() const { return offset_; }

 private:
  BackupFileReader(std::unique_ptr<std::istream> input, std::string name);

  absl::Status Damaged(std::string_view what) const;
  absl::Status ReadMagic();
  absl::Status ReadHeader();
  absl::Status ReadTrailer();
  // Reads exactly `size` bytes.
  absl::Status Read(size_t size, std::string* bytes);
  // Reads the next part into part_ as it is in the file, without its CRC, and returns its kind. The
  // body begins at kPartHeadBytes.
  absl::StatusOr<uint8_t> ReadPart();

  const std::unique_ptr<std::istream> input_;
  const std::string name_;
  BackupChecksum checksum_;
  BackupHeader header_;
  BackupTotals totals_;  // of the records and bytes read so far
  uint64_t offset_ = 0;
  uint64_t part_offset_ = 0;  // where the last part begins
  std::string part_;
  std::string_view block_;  // the records in part_ that were not returned yet
  std::string last_key_;
  uint32_t next_number_ = 0;
};

// Makes the name of a file durable by syncing its directory. Errors name the directory.
absl::Status SyncDirectoryOf(const std::string& path);

}  // namespace quorate::tree
