// SPDX-License-Identifier: Apache-2.0

#include "tree/store/backup_file.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace quorate::tree {
namespace {

using Records = std::map<std::string, std::string>;

class Directory {
 public:
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "backup-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  std::string File(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

BackupHeader Header() {
  return {std::string(16, 'c'), Zxid(0x500000123), 7, 0x1234567890abcdef, 1234, {1, 2, 3}, {4}};
}

// Returns records for several blocks, and one record that is larger than a block.
Records SomeRecords() {
  Records records;
  for (int i = 0; i < 300; ++i) {
    records["key" + std::to_string(1000 + i)] = std::string(3000, static_cast<char>('a' + i % 26));
  }
  records["key1050"] = std::string(kBackupBlockBytes + 1, 'x');
  records["key1060"] = "";
  return records;
}

std::string Contents(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

BackupTotals Write(const std::string& path, const Records& records) {
  auto file = BackupFileWriter::Create(path, Header());
  REQUIRE(file.ok());
  for (const auto& [key, value] : records) REQUIRE((*file)->Add(key, value).ok());
  auto totals = (*file)->Finish();
  REQUIRE(totals.ok());
  REQUIRE((*file)->bytes() == totals->file_bytes);
  REQUIRE(SyncDirectoryOf(path).ok());
  return *totals;
}

std::string Backup(const Records& records) {
  Directory directory;
  Write(directory.File("backup"), records);
  return Contents(directory.File("backup"));
}

// Reads the records up to the end or up to an error.
absl::Status ReadAll(std::string bytes, Records* records) {
  auto file = BackupFileReader::Open(std::make_unique<std::istringstream>(std::move(bytes)), "it");
  if (!file.ok()) return file.status();
  std::string_view key;
  std::string_view value;
  while (true) {
    auto more = (*file)->Next(&key, &value);
    if (!more.ok()) return more.status();
    if (!*more) return absl::OkStatus();
    records->emplace(key, value);
  }
}

bool Mentions(const absl::Status& status, std::string_view text) {
  return std::string_view(status.message().data(), status.message().size()).find(text) !=
         std::string_view::npos;
}

TEST_CASE("a backup is read as it was written") {
  Directory directory;
  const std::string path = directory.File("backup");
  const Records records = SomeRecords();
  const BackupTotals written = Write(path, records);
  CHECK(written.records == records.size());
  CHECK(written.file_bytes == std::filesystem::file_size(path));
  CHECK(std::filesystem::status(path).permissions() ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  auto file = BackupFileReader::Open(path);
  REQUIRE(file.ok());
  CHECK((*file)->header() == Header());
  Records read;
  std::string_view key;
  std::string_view value;
  while (*(*file)->Next(&key, &value)) read.emplace(key, value);
  CHECK(read == records);
  CHECK((*file)->totals() == written);
}

TEST_CASE("a backup without records is valid") {
  Records read;
  CHECK(ReadAll(Backup({}), &read).ok());
  CHECK(read.empty());
}

TEST_CASE("equal records give equal files; different records give another checksum") {
  Directory directory;
  const BackupTotals one = Write(directory.File("one"), {{"a", "1"}, {"b", "2"}});
  const BackupTotals two = Write(directory.File("two"), {{"a", "1"}, {"b", "2"}});
  const BackupTotals other = Write(directory.File("other"), {{"a", "1"}, {"b", "3"}});
  CHECK(one == two);
  CHECK(one.checksum != other.checksum);
}

TEST_CASE("a backup that is cut off anywhere is detected, and the error names the offset") {
  const std::string bytes = Backup({{"a", "1"}, {"b", std::string(100, 'x')}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    Records read;
    const absl::Status status = ReadAll(bytes.substr(0, size), &read);
    REQUIRE_FALSE(status.ok());
    if (size >= 8) REQUIRE(Mentions(status, "cut off at offset " + std::to_string(size)));
  }
}

TEST_CASE("a change of any byte is detected") {
  const std::string bytes = Backup({{"a", "1"}, {"b", std::string(100, 'x')}});
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (char change : {'\x01', '\x80', '\xff'}) {
      CAPTURE(at);
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      Records read;
      REQUIRE_FALSE(ReadAll(std::move(damaged), &read).ok());
    }
  }
}

TEST_CASE("parts that were swapped, repeated, left out or added are detected") {
  const Records records = SomeRecords();
  const std::string bytes = Backup(records);
  // Splits the file into its magic and format, and then its parts.
  std::vector<std::string> parts;
  for (size_t at = 12; at < bytes.size();) {
    const size_t size = 9 + LoadInt<std::endian::little, uint32_t>(bytes.data() + at + 5) + 4;
    parts.push_back(bytes.substr(at, size));
    at += size;
  }
  REQUIRE(parts.size() >= 5);
  const auto join = [&](const std::vector<size_t>& order) {
    std::string joined = bytes.substr(0, 12);
    for (size_t part : order) joined += parts[part];
    return joined;
  };
  std::vector<size_t> order(parts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  Records read;
  REQUIRE(ReadAll(join(order), &read).ok());
  REQUIRE(read == records);
  auto swapped = order;
  std::swap(swapped[1], swapped[2]);
  CHECK(absl::IsDataLoss(ReadAll(join(swapped), &read)));
  auto repeated = order;
  repeated.insert(repeated.begin() + 2, repeated[1]);
  CHECK(absl::IsDataLoss(ReadAll(join(repeated), &read)));
  auto without = order;
  without.erase(without.begin() + 1);
  CHECK(absl::IsDataLoss(ReadAll(join(without), &read)));
  auto without_last = order;
  without_last.erase(without_last.end() - 2);
  CHECK(absl::IsDataLoss(ReadAll(join(without_last), &read)));
  const absl::Status longer = ReadAll(bytes + "x", &read);
  CHECK(absl::IsDataLoss(longer));
  CHECK(Mentions(longer, "offset " + std::to_string(bytes.size())));
}

TEST_CASE("a file that is not a backup, or has a later format, is not called damaged") {
  Records read;
  CHECK(absl::IsInvalidArgument(ReadAll("", &read)));
  CHECK(absl::IsInvalidArgument(ReadAll("something else altogether", &read)));
  std::string later = Backup({});
  later[8] = 2;
  const absl::Status status = ReadAll(later, &read);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(Mentions(status, "format 2"));
  CHECK(absl::IsNotFound(BackupFileReader::Open("/there/is/no/such/file").status()));
}

TEST_CASE("a backup does not follow a link, and does not reuse a file that others can read") {
  const Directory directory;
  const std::string path = directory.File("backup"), other = directory.File("other");
  std::ofstream(other) << "precious";
  std::filesystem::create_symlink(other, path);
  REQUIRE(BackupFileWriter::Create(path, Header()).ok());
  CHECK(!std::filesystem::is_symlink(path));
  std::string kept;
  std::getline(std::ifstream(other), kept);
  CHECK(kept == "precious");

  // Others could read the existing file, and may have it open.
  std::filesystem::permissions(path, std::filesystem::perms::all);
  std::ifstream reader(path);
  REQUIRE(reader.good());
  REQUIRE(BackupFileWriter::Create(path, Header()).ok());
  CHECK(std::filesystem::status(path).permissions() ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  CHECK(std::filesystem::hard_link_count(path) == 1);

  // The name is a hard link to another file.
  std::filesystem::remove(path);
  std::filesystem::create_hard_link(other, path);
  REQUIRE(BackupFileWriter::Create(path, Header()).ok());
  std::getline(std::ifstream(other), kept);
  CHECK(kept == "precious");
}

TEST_CASE("the error about a file that cannot be created or written names the file") {
  const auto missing = BackupFileWriter::Create("/there/is/no/such/directory/backup", Header());
  CHECK(Mentions(missing.status(), "/there/is/no/such/directory/backup"));
  const auto full = BackupFileWriter::Create("/dev/full", Header());
  CHECK(absl::IsResourceExhausted(full.status()));
}

}  // namespace
}  // namespace quorate::tree
