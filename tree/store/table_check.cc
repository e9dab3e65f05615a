// SPDX-License-Identifier: Apache-2.0

#include "tree/store/table_check.h"

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "xxhash.h"

namespace quorate::tree {
namespace {

using rocksdb::IOStatus;

// RocksDB's format 5 (its wiki, "Rocksdb BlockBasedTable Format"). The footer is at the end of the
// file: the kind of checksum (one byte), the handles of metaindex and index (two varints each),
// zeros up to kHandlesEnd, the format's version and a magic number (both little-endian).
constexpr uint32_t kFormatVersion = 5;
constexpr uint64_t kMagic = 0x88e241b785f4cff7;
constexpr size_t kFooterBytes = 53;
constexpr size_t kHandlesEnd = 41;
// The bytes after each block: its kind of compression and its checksum.
constexpr size_t kTrailerBytes = 5;
constexpr char kNotCompressed = 0;

struct Handle {
  uint64_t offset = 0;
  uint64_t size = 0;
};

IOStatus Damaged(const std::string& what) { return IOStatus::Corruption("damaged: " + what); }

template <class Integer>
Integer LittleEndian(std::string_view bytes) {
  Integer value = 0;
  for (size_t i = sizeof(Integer); i-- > 0;) {
    value = static_cast<Integer>(value << 8 | static_cast<unsigned char>(bytes[i]));
  }
  return value;
}

std::optional<uint64_t> TakeVarint(std::string_view* bytes) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes->empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes->front());
    bytes->remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte == 0 && shift > 0) break;  // the encoding is not the shortest one: a bit was flipped
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

bool TakeHandle(std::string_view* bytes, Handle* handle) {
  const std::optional<uint64_t> offset = TakeVarint(bytes);
  const std::optional<uint64_t> size = TakeVarint(bytes);
  if (!offset.has_value() || !size.has_value()) return false;
  *handle = {*offset, *size};
  return true;
}

// Returns the checksum of a block together with the byte for its compression. RocksDB adds the last
// byte to the checksum separately.
uint32_t ChecksumOf(std::string_view block_and_kind) {
  constexpr uint32_t kOfLastByte = 0x6b9083d9;
  const auto last = static_cast<unsigned char>(block_and_kind.back());
  const auto hash =
      static_cast<uint32_t>(XXH3_64bits(block_and_kind.data(), block_and_kind.size() - 1));
  return hash ^ (last * kOfLastByte);
}

IOStatus Read(rocksdb::FSRandomAccessFile* file, uint64_t offset, size_t size, std::string* to) {
  to->resize(size);
  rocksdb::Slice read;
  IOStatus s = file->Read(offset, size, rocksdb::IOOptions(), &read, to->data(), nullptr);
  if (!s.ok()) return s;
  if (read.size() != size) return Damaged("the file has been cut");
  if (read.data() != to->data()) std::memmove(to->data(), read.data(), size);
  return s;
}

// Reads a block and compares its checksum. Fails unless the block and its trailer end at or before
// `end`.
IOStatus ReadBlock(rocksdb::FSRandomAccessFile* file, const Handle& handle, uint64_t end,
                   const std::string& name, std::string* block) {
  if (handle.offset > end || handle.size > end - handle.offset ||
      end - handle.offset - handle.size < kTrailerBytes) {
    return Damaged("the table's " + name + " is at a wrong place");
  }
  IOStatus s = Read(file, handle.offset, handle.size + kTrailerBytes, block);
  if (!s.ok()) return s;
  const std::string_view covered = std::string_view(*block).substr(0, handle.size + 1);
  const auto checksum =
      LittleEndian<uint32_t>(std::string_view(*block).substr(handle.size + 1, sizeof(uint32_t)));
  if (covered.back() != kNotCompressed || ChecksumOf(covered) != checksum) {
    return Damaged("the table's " + name + " has a wrong checksum");
  }
  block->resize(handle.size);
  return s;
}

// Returns the handle of the properties in a metaindex. An entry is three varints (the number of
// bytes that the key shares with the previous key, the size of the rest of the key, and the size of
// the value), the rest of the key, and the value.
std::optional<Handle> FindProperties(std::string_view metaindex) {
  while (!metaindex.empty()) {
    const std::optional<uint64_t> shared = TakeVarint(&metaindex);
    const std::optional<uint64_t> key_size = TakeVarint(&metaindex);
    const std::optional<uint64_t> value_size = TakeVarint(&metaindex);
    if (!shared.has_value() || !key_size.has_value() || !value_size.has_value()) break;
    if (*shared != 0 || *key_size > metaindex.size()) break;
    const std::string_view key = metaindex.substr(0, *key_size);
    metaindex.remove_prefix(*key_size);
    if (*value_size > metaindex.size()) break;
    std::string_view value = metaindex.substr(0, *value_size);
    metaindex.remove_prefix(*value_size);
    Handle handle;
    if (key == "rocksdb.properties" && TakeHandle(&value, &handle)) return handle;
  }
  return std::nullopt;
}

class TableCheckingFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;

  const char* Name() const override { return "TableCheckingFileSystem"; }

  IOStatus NewRandomAccessFile(const std::string& path, const rocksdb::FileOptions& options,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                               rocksdb::IODebugContext* debug) override {
    IOStatus s = target()->NewRandomAccessFile(path, options, file, debug);
    if (!s.ok() || !path.ends_with(".sst")) return s;
    uint64_t size = 0;
    s = target()->GetFileSize(path, rocksdb::IOOptions(), &size, debug);
    if (s.ok()) s = CheckTable(file->get(), size);
    if (s.ok()) return s;
    file->reset();
    return s.IsCorruption() ? IOStatus::Corruption(path, s.getState()) : s;
  }
};

}  // namespace

void SetCheckableFormat(rocksdb::BlockBasedTableOptions* options) {
  options->format_version = kFormatVersion;
  options->checksum = rocksdb::kXXH3;
}

IOStatus CheckTable(rocksdb::FSRandomAccessFile* file, uint64_t size) {
  if (size < kFooterBytes) return Damaged("the table is too short");
  const uint64_t footer_offset = size - kFooterBytes;
  std::string bytes;
  if (IOStatus s = Read(file, footer_offset, kFooterBytes, &bytes); !s.ok()) return s;
  const std::string_view footer(bytes);
  std::string_view handles = footer.substr(1, kHandlesEnd - 1);
  Handle metaindex, index;
  if (LittleEndian<uint64_t>(footer.substr(kHandlesEnd + 4)) != kMagic ||
      LittleEndian<uint32_t>(footer.substr(kHandlesEnd)) != kFormatVersion ||
      footer[0] != rocksdb::kXXH3 || !TakeHandle(&handles, &metaindex) ||
      !TakeHandle(&handles, &index) || handles.find_first_not_of('\0') != handles.npos) {
    return Damaged("the table's footer");
  }
  // The metaindex is the last block before the footer.
  std::string block;
  IOStatus s = ReadBlock(file, metaindex, footer_offset, "metaindex", &block);
  if (!s.ok()) return s;
  if (metaindex.offset + metaindex.size + kTrailerBytes != footer_offset) {
    return Damaged("the table's footer");
  }
  const std::optional<Handle> properties = FindProperties(block);
  if (!properties.has_value()) return Damaged("the table has no properties");
  s = ReadBlock(file, *properties, metaindex.offset, "properties", &block);
  if (s.ok()) s = ReadBlock(file, index, metaindex.offset, "index", &block);
  return s;
}

std::shared_ptr<rocksdb::FileSystem> NewTableCheckingFileSystem(
    std::shared_ptr<rocksdb::FileSystem> target) {
  return std::make_shared<TableCheckingFileSystem>(std::move(target));
}

}  // namespace quorate::tree
