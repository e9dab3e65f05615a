// SPDX-License-Identifier: Apache-2.0

#include "tree/store/backup_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/strings.h"
#include "xxhash.h"

namespace quorate::tree {
namespace {

constexpr std::string_view kMagic = "QRTBACK1";
constexpr uint32_t kFormat = 1;
constexpr uint8_t kHeaderPart = 1;
constexpr uint8_t kRecordsPart = 2;
constexpr uint8_t kTrailerPart = 3;
constexpr size_t kPartHeadBytes = 1 + 4 + 4;
constexpr size_t kClusterIdBytes = 16;
// A part is read in pieces of this size, so that a damaged size does not cause a large allocation.
constexpr size_t kReadBytes = size_t{1} << 20;
constexpr size_t kPartBytesMax = kBackupRecordBytesMax + kBackupBlockBytes;

absl::Status FileError(const std::string& path, const char* what) {
  const int error = errno;
  const std::string text = absl::StrCat(path, ": ", what, ": ", std::strerror(error));
  return error == ENOSPC || error == EDQUOT ? absl::ResourceExhaustedError(text)
                                            : absl::InternalError(text);
}

void AppendNumbers(const std::vector<uint64_t>& numbers, LittleEndianWriter* writer) {
  writer->Int(static_cast<uint32_t>(numbers.size()));
  for (uint64_t number : numbers) writer->Int(number);
}

std::vector<uint64_t> TakeNumbers(LittleEndianReader* reader) {
  std::vector<uint64_t> numbers;
  const auto count = reader->Int<uint32_t>();
  for (uint32_t i = 0; i < count && reader->ok(); ++i) numbers.push_back(reader->Int<uint64_t>());
  return numbers;
}

}  // namespace

// --- The checksum --------------------------------------------------------------------------------

struct BackupChecksum::State {
  XXH3_state_t state;
};

BackupChecksum::BackupChecksum() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->state);
}

BackupChecksum::~BackupChecksum() = default;

void BackupChecksum::Add(std::string_view bytes) {
  XXH3_128bits_update(&state_->state, bytes.data(), bytes.size());
}

std::string BackupChecksum::Value() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_->state));
  static_assert(sizeof(canonical) == kBackupChecksumBytes);
  return std::string(reinterpret_cast<const char*>(canonical.digest), sizeof(canonical.digest));
}

// --- Writing -------------------------------------------------------------------------------------

BackupFileWriter::BackupFileWriter(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

BackupFileWriter::~BackupFileWriter() { close(descriptor_); }

absl::StatusOr<std::unique_ptr<BackupFileWriter>> BackupFileWriter::Create(
    std::string path, const BackupHeader& header) {
  ASSERT(header.cluster_id.size() == kClusterIdBytes);
  // An existing file is removed, not overwritten: it may be a link to another file, or others may
  // be able to read it. A file that is created there in between is an error. A device is not
  // removed.
  struct stat there {};
  const bool is_there = lstat(path.c_str(), &there) == 0;
  const bool is_device = is_there && (S_ISCHR(there.st_mode) || S_ISBLK(there.st_mode));
  if (is_there && !is_device && unlink(path.c_str()) != 0) {
    return FileError(path, "the existing file cannot be removed");
  }
  const int flags = O_WRONLY | O_NOFOLLOW | O_CLOEXEC | (is_device ? 0 : O_CREAT | O_EXCL);
  const int descriptor = open(path.c_str(), flags, S_IRUSR | S_IWUSR);
  if (descriptor < 0) return FileError(path, "the file cannot be created");
  std::unique_ptr<BackupFileWriter> file(new BackupFileWriter(std::move(path), descriptor));
  std::string begin(kMagic);
  LittleEndianWriter(&begin).Int(kFormat);
  if (absl::Status s = file->Write(begin); !s.ok()) return s;
  std::string body;
  LittleEndianWriter writer(&body);
  writer.Raw(header.cluster_id);
  writer.Int(header.zxid.value());
  writer.Int(header.term);
  writer.Int(header.digest);
  writer.Int(header.made_ms);
  AppendNumbers(header.voters, &writer);
  AppendNumbers(header.observers, &writer);
  if (absl::Status s = file->WritePart(kHeaderPart, body); !s.ok()) return s;
  return file;
}

absl::Status BackupFileWriter::Write(std::string_view bytes) {
  checksum_.Add(bytes);
  totals_.file_bytes += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError(path_, "the file cannot be written");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status BackupFileWriter::WritePart(uint8_t kind, std::string_view body) {
  part_.clear();
  LittleEndianWriter writer(&part_);
  writer.Int(kind);
  writer.Int(next_number_++);
  writer.String(body);
  writer.Int(Crc32c(part_));
  return Write(part_);
}

absl::Status BackupFileWriter::FlushBlock() {
  if (block_.empty()) return absl::OkStatus();
  absl::Status status = WritePart(kRecordsPart, block_);
  block_.clear();
  return status;
}

absl::Status BackupFileWriter::Add(std::string_view key, std::string_view value) {
  ASSERT(key.size() + value.size() <= kBackupRecordBytesMax);
  LittleEndianWriter writer(&block_);
  writer.Int(static_cast<uint32_t>(key.size()));
  writer.Int(static_cast<uint32_t>(value.size()));
  writer.Raw(key);
  writer.Raw(value);
  ++totals_.records;
  totals_.record_bytes += key.size() + value.size();
  return block_.size() < kBackupBlockBytes ? absl::OkStatus() : FlushBlock();
}

absl::StatusOr<BackupTotals> BackupFileWriter::Finish() {
  if (absl::Status s = FlushBlock(); !s.ok()) return s;
  totals_.checksum = checksum_.Value();
  std::string body;
  LittleEndianWriter writer(&body);
  writer.Int(totals_.records);
  writer.Int(totals_.record_bytes);
  writer.Raw(totals_.checksum);
  if (absl::Status s = WritePart(kTrailerPart, body); !s.ok()) return s;
  if (fsync(descriptor_) != 0) return FileError(path_, "it cannot be made durable");
  return totals_;
}

absl::Status SyncDirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "."
                                : slash == 0               ? "/"
                                                           : path.substr(0, slash);
  const int descriptor = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return FileError(directory, "it cannot be opened");
  const int result = fsync(descriptor);
  absl::Status status =
      result == 0 ? absl::OkStatus() : FileError(directory, "it cannot be made durable");
  close(descriptor);
  return status;
}

// --- Reading -------------------------------------------------------------------------------------

BackupFileReader::BackupFileReader(std::unique_ptr<std::istream> input, std::string name)
    : input_(std::move(input)), name_(std::move(name)) {}

absl::StatusOr<std::unique_ptr<BackupFileReader>> BackupFileReader::Open(const std::string& path) {
  auto input = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*input) {
    return absl::NotFoundError(absl::StrCat(path, ": it cannot be read: ", std::strerror(errno)));
  }
  return Open(std::move(input), path);
}

absl::StatusOr<std::unique_ptr<BackupFileReader>> BackupFileReader::Open(
    std::unique_ptr<std::istream> input, std::string name) {
  std::unique_ptr<BackupFileReader> file(new BackupFileReader(std::move(input), std::move(name)));
  if (absl::Status s = file->ReadMagic(); !s.ok()) return s;
  if (absl::Status s = file->ReadHeader(); !s.ok()) return s;
  return file;
}

absl::Status BackupFileReader::Damaged(std::string_view what) const {
  return absl::DataLossError(absl::StrCat(name_, ": the backup is damaged at offset ", part_offset_,
                                          ": ", ToAbsl(what), "; use another backup"));
}

absl::Status BackupFileReader::Read(size_t size, std::string* bytes) {
  bytes->clear();
  while (bytes->size() < size) {
    const size_t at = bytes->size();
    const size_t wanted = std::min(size - at, kReadBytes);
    bytes->resize(at + wanted);
    input_->read(bytes->data() + at, static_cast<std::streamsize>(wanted));
    const auto got = static_cast<size_t>(input_->gcount());
    offset_ += got;
    if (input_->bad())
      return absl::InternalError(
          absl::StrCat(name_, ": a read failed; check the disk, or use another backup"));
    if (got < wanted) {
      bytes->resize(at + got);
      return absl::DataLossError(absl::StrCat(name_, ": the backup is cut off at offset ", offset_,
                                              "; use another backup"));
    }
  }
  return absl::OkStatus();
}

absl::Status BackupFileReader::ReadMagic() {
  std::string begin;
  absl::Status read = Read(kMagic.size() + sizeof(kFormat), &begin);
  if (absl::IsInternal(read)) return read;
  if (std::string_view(begin).substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": this is not a backup of Quorate"));
  }
  if (!read.ok()) return read;
  const auto format = LoadInt<std::endian::little, uint32_t>(begin.data() + kMagic.size());
  if (format != kFormat) {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": the backup has format ", format,
                                                   ", and this program knows format ", kFormat,
                                                   "; use the program of a version that knows it"));
  }
  checksum_.Add(begin);
  return absl::OkStatus();
}

absl::StatusOr<uint8_t> BackupFileReader::ReadPart() {
  part_offset_ = offset_;
  if (absl::Status s = Read(kPartHeadBytes, &part_); !s.ok()) return s;
  LittleEndianReader reader(part_);
  const auto kind = reader.Int<uint8_t>();
  const auto number = reader.Int<uint32_t>();
  const auto size = reader.Int<uint32_t>();
  if (size > kPartBytesMax) return Damaged("a part has an invalid size");
  std::string rest;
  if (absl::Status s = Read(size + sizeof(uint32_t), &rest); !s.ok()) return s;
  const std::string_view body = std::string_view(rest).substr(0, size);
  part_.append(body);
  const auto crc = LoadInt<std::endian::little, uint32_t>(rest.data() + size);
  if (crc != Crc32c(part_)) return Damaged("a part has a wrong checksum");
  if (number != next_number_++) return Damaged("a part is missing or in the wrong place");
  if (kind != kTrailerPart) {
    checksum_.Add(part_);
    checksum_.Add(std::string_view(rest).substr(size));
  }
  return kind;
}

absl::Status BackupFileReader::ReadHeader() {
  auto kind = ReadPart();
  if (!kind.ok()) return kind.status();
  if (*kind != kHeaderPart) return Damaged("the header is missing");
  LittleEndianReader reader(std::string_view(part_).substr(kPartHeadBytes));
  header_.cluster_id = reader.Raw(kClusterIdBytes);
  header_.zxid = Zxid(reader.Int<int64_t>());
  header_.term = reader.Int<uint64_t>();
  header_.digest = reader.Int<uint64_t>();
  header_.made_ms = reader.Int<int64_t>();
  header_.voters = TakeNumbers(&reader);
  header_.observers = TakeNumbers(&reader);
  if (!reader.ok() || !reader.empty()) return Damaged("the header is malformed");
  if (header_.zxid.value() <= 0 || header_.term == 0) return Damaged("the header has no zxid");
  return absl::OkStatus();
}

absl::Status BackupFileReader::ReadTrailer() {
  LittleEndianReader reader(std::string_view(part_).substr(kPartHeadBytes));
  const auto records = reader.Int<uint64_t>();
  const auto record_bytes = reader.Int<uint64_t>();
  const std::string_view checksum = reader.Raw(kBackupChecksumBytes);
  if (!reader.ok() || !reader.empty()) return Damaged("the trailer is malformed");
  if (records != totals_.records || record_bytes != totals_.record_bytes) {
    return Damaged("records are missing");
  }
  totals_.checksum = checksum_.Value();
  if (totals_.checksum != checksum) return Damaged("the checksum of the whole file is wrong");
  totals_.file_bytes = offset_;
  if (input_->peek() != std::istream::traits_type::eof()) {
    part_offset_ = offset_;
    return Damaged("there are bytes after the trailer");
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> BackupFileReader::Next(std::string_view* key, std::string_view* value) {
  if (block_.empty()) {
    auto kind = ReadPart();
    if (!kind.ok()) return kind.status();
    if (*kind == kTrailerPart) {
      if (absl::Status s = ReadTrailer(); !s.ok()) return s;
      return false;
    }
    if (*kind != kRecordsPart) return Damaged("a part has an unknown kind");
    block_ = std::string_view(part_).substr(kPartHeadBytes);
  }
  LittleEndianReader reader(block_);
  const auto key_size = reader.Int<uint32_t>();
  const auto value_size = reader.Int<uint32_t>();
  *key = reader.Raw(key_size);
  *value = reader.Raw(value_size);
  if (!reader.ok()) return Damaged("a record is malformed");
  if (*key <= last_key_) return Damaged("the records are not in the order of their keys");
  last_key_ = *key;
  block_ = reader.rest();
  ++totals_.records;
  totals_.record_bytes += key->size() + value->size();
  return true;
}

}  // namespace quorate::tree
