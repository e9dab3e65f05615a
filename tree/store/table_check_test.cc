// SPDX-License-Identifier: Apache-2.0

#include "tree/store/table_check.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "rocksdb/sst_file_writer.h"

namespace quorate::tree {
namespace {

std::string ContentsOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

rocksdb::Status OpenFile(const std::string& path) {
  std::unique_ptr<rocksdb::FSRandomAccessFile> file;
  return NewTableCheckingFileSystem(rocksdb::FileSystem::Default())
      ->NewRandomAccessFile(path, rocksdb::FileOptions(), &file, nullptr);
}

class FileInMemory final : public rocksdb::FSRandomAccessFile {
 public:
  explicit FileInMemory(const std::string& bytes) : bytes_(bytes) {}
  rocksdb::IOStatus Read(uint64_t offset, size_t size, const rocksdb::IOOptions&,
                         rocksdb::Slice* read, char*, rocksdb::IODebugContext*) const override {
    const size_t begin = std::min<size_t>(offset, bytes_.size());
    *read = rocksdb::Slice(bytes_.data() + begin, std::min(size, bytes_.size() - begin));
    return rocksdb::IOStatus::OK();
  }

 private:
  const std::string& bytes_;
};

rocksdb::Status Check(const std::string& bytes) {
  FileInMemory file(bytes);
  return CheckTable(&file, bytes.size());
}

class Table {
 public:
  explicit Table(int records) {
    const char* base = std::getenv("TEST_TMPDIR");
    directory_ = std::string(base != nullptr ? base : "/tmp") + "/table-XXXXXX";
    REQUIRE(mkdtemp(directory_.data()) != nullptr);
    rocksdb::BlockBasedTableOptions format;
    SetCheckableFormat(&format);
    rocksdb::Options options;
    options.compression = rocksdb::kNoCompression;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(format));
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
    REQUIRE(writer.Open(path()).ok());
    for (int i = 0; i < records; ++i) {
      REQUIRE(writer.Put("key " + std::to_string(100'000 + i), std::string(100, 'v')).ok());
    }
    REQUIRE(writer.Finish().ok());
    whole_ = ContentsOf(path());
  }
  ~Table() { std::filesystem::remove_all(directory_); }

  std::string path() const { return directory_ + "/000007.sst"; }
  const std::string& whole() const { return whole_; }
  void Write(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary).write(bytes.data(), static_cast<int64_t>(bytes.size()));
  }

 private:
  std::string directory_;
  std::string whole_;
};

TEST_CASE("an undamaged table is opened, with one block and with many") {
  CHECK(OpenFile(Table(1).path()).ok());
  CHECK(OpenFile(Table(10).path()).ok());
  CHECK(OpenFile(Table(3000).path()).ok());
}

TEST_CASE("a change of any bit after the data blocks of a table is detected") {
  const Table table(100);
  const size_t data_end = table.whole().find("rocksdb.");
  REQUIRE(data_end != std::string::npos);
  for (size_t at = data_end; at < table.whole().size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::string damaged = table.whole();
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      CAPTURE(at, bit);
      REQUIRE(Check(damaged).IsCorruption());
    }
  }
}

TEST_CASE("a table that is cut off anywhere is detected") {
  const Table table(3);
  for (size_t size = 0; size < table.whole().size(); ++size) {
    CAPTURE(size);
    REQUIRE(Check(table.whole().substr(0, size)).IsCorruption());
  }
}

TEST_CASE("a damaged table is not opened, and the error names it") {
  const Table table(3);
  std::string damaged = table.whole();
  damaged[damaged.size() - 30] = 1;
  table.Write(damaged);
  const rocksdb::Status status = OpenFile(table.path());
  CHECK(status.IsCorruption());
  CHECK(status.ToString().find(table.path()) != std::string::npos);
}

TEST_CASE("a file that is not a table is opened without a check") {
  const Table table(1);
  const std::string path = table.path() + ".txt";
  std::ofstream(path) << "text";
  CHECK(OpenFile(path).ok());
}

}  // namespace
}  // namespace quorate::tree
