// SPDX-License-Identifier: Apache-2.0

// Tests that files of four versions of ZooKeeper are read completely, and that no wrong content is
// read if any byte is damaged.
#include "tools/zookeeper/version_fixtures.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bytes.h"
#include "tools/zookeeper/byte_source.h"
#include "tools/zookeeper/data_directory.h"
#include "tools/zookeeper/snapshot_file.h"

namespace quorate::tools::zookeeper {
namespace {

std::string FromHex(std::string_view hex) {
  std::string digits(hex);
  std::erase(digits, ' ');
  std::string bytes;
  for (size_t at = 0; at < digits.size(); at += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(at, 2), nullptr, 16));
  }
  return bytes;
}

// A directory that the destructor removes with its content.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string path = (std::filesystem::temp_directory_path() / "quorate-XXXXXX").string();
    REQUIRE(mkdtemp(path.data()) != nullptr);
    path_ = path;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  void Write(std::string_view name, std::string_view bytes) const {
    const std::filesystem::path path = std::filesystem::path(path_) / name;
    // Removes the file first, because some file systems wait for the disk when a file is
    // overwritten.
    std::filesystem::remove(path);
    std::ofstream(path, std::ios::binary) << bytes;
  }
  absl::StatusOr<LoadedDirectory> Load() const {
    DataDirectory directory;
    directory.data_dir = path_;
    return LoadDirectory(directory, [](const std::string&) {});
  }

 private:
  std::string path_;
};

std::string Quoted(const tree::Znode& node) {
  if (!node.data.has_data()) return "null";
  std::string text = "\"";
  for (const char c : node.data.view()) {
    const bool is_plain = c >= ' ' && c < 0x7f && c != '"' && c != '\\';
    if (is_plain) {
      text += c;
    } else {
      absl::StrAppendFormat(&text, "\\x%02x", static_cast<uint8_t>(c));
    }
  }
  return text + "\"";
}

// Returns all content that was read, one item per line.
std::string Describe(const LoadedDirectory& loaded) {
  const DataTree& data_tree = *loaded.data_tree;
  std::string text = absl::StrFormat("last %x\n", loaded.last_zxid.value());
  for (const auto& [session, timeout_ms] : data_tree.sessions()) {
    absl::StrAppendFormat(&text, "session %x %d\n", session.value(), timeout_ms);
  }
  std::vector<std::pair<std::string, const tree::Znode*>> nodes = {{"/", data_tree.root()}};
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].second->children().ForEach(
        [&nodes](const tree::Znode* child) { nodes.emplace_back(child->Path(), child); });
  }
  std::sort(nodes.begin(), nodes.end());
  for (const auto& [path, node] : nodes) {
    absl::StrAppendFormat(&text, "%s %s zxids %x %x %x times %d %d versions %d %d %d owner %x acl",
                          path, Quoted(*node), node->czxid.value(), node->mzxid.value(),
                          node->pzxid().value(), node->ctime_ms, node->mtime_ms, node->version,
                          node->created_children(), node->aversion(),
                          static_cast<uint64_t>(node->owner().value()));
    for (const tree::Acl& acl : data_tree.acls().Get(node->acl_id)) {
      absl::StrAppend(&text, " ", acl.permissions, ":", acl.identity.scheme, ":", acl.identity.id);
    }
    text += '\n';
  }
  return text;
}

std::string MustDescribe(const TemporaryDirectory& directory) {
  const absl::StatusOr<LoadedDirectory> loaded = directory.Load();
  INFO(loaded.status());
  REQUIRE(loaded.ok());
  return Describe(*loaded);
}

// Returns whether the bytes are a complete snapshot. Uses no file, because it is called often.
bool IsSnapshot(std::string_view bytes) {
  DataTree data_tree;
  const std::unique_ptr<ByteSource> source = OpenMemory(bytes);
  return ReadSnapshot("snapshot", source.get(), &data_tree, [](size_t) {}).ok();
}

// Returns the offsets at which the log's header and its records end.
std::vector<size_t> RecordEnds(std::string_view log) {
  constexpr size_t kChecksumBytes = 8;
  std::vector<size_t> ends = {kLogHeaderBytes};
  const size_t room = log.size() - kRoomBytes;
  while (ends.back() < room) {
    const auto size =
        LoadInt<std::endian::big, uint32_t>(log.data() + ends.back() + kChecksumBytes);
    ends.push_back(ends.back() + kChecksumBytes + sizeof(uint32_t) + size + 1);
  }
  REQUIRE(ends.back() == room);
  return ends;
}

constexpr VersionFixture kFixtures[] = {k34, k35, k36, k39};
// Masks for the damaged byte: one bit, another bit, all bits.
constexpr char kDamages[] = {'\x01', '\x80', '\xff'};

std::string Damaged(std::string bytes, size_t at, char damage) {
  bytes[at] = static_cast<char>(bytes[at] ^ damage);
  return bytes;
}

// Returns by how many bytes a snapshot may be shortened so that it is a complete snapshot of an
// older version.
std::vector<size_t> OlderForms(const VersionFixture& fixture) {
  if (fixture.version == "3.9") return {kZxidBytes, kZxidBytes + kDigestBytes};
  if (fixture.version == "3.6") return {kDigestBytes};
  return {};
}

}  // namespace

TEST_CASE("snapshot and log of each version are read completely") {
  const VersionFixture fixture = GENERATE(from_range(std::begin(kFixtures), std::end(kFixtures)));
  CAPTURE(fixture.version);
  const TemporaryDirectory directory;
  directory.Write(kSnapshotName, FromHex(fixture.snapshot));
  directory.Write(kLogName, FromHex(fixture.log));
  const absl::StatusOr<LoadedDirectory> loaded = directory.Load();
  INFO(loaded.status());
  REQUIRE(loaded.ok());
  CHECK(Describe(*loaded) == fixture.content);
  CHECK(loaded->transactions == fixture.transactions);
  CHECK(loaded->digests_checked == fixture.digests);
  CHECK(loaded->warnings.empty());
  CHECK(loaded->orphans == 0);
}

TEST_CASE("a snapshot of ZooKeeper 3.9 may have the zxid and no digest") {
  const std::string whole = FromHex(k39.snapshot);
  const std::string tail = FromHex(kTail39WithoutDigest);
  const TemporaryDirectory directory;
  directory.Write(kLogName, FromHex(k39.log));
  directory.Write(kSnapshotName,
                  whole.substr(0, whole.size() - kZxidBytes - kDigestBytes - kSealBytes) + tail);
  CHECK(MustDescribe(directory) == k39.content);
}

TEST_CASE("a snapshot that is cut anywhere is refused, or is one of an older version") {
  const VersionFixture fixture = GENERATE(from_range(std::begin(kFixtures), std::end(kFixtures)));
  CAPTURE(fixture.version);
  const TemporaryDirectory directory;
  const std::string whole = FromHex(fixture.snapshot);
  directory.Write(kSnapshotName, whole);
  const std::string content = MustDescribe(directory);
  const std::vector<size_t> older = OlderForms(fixture);
  for (size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    directory.Write(kSnapshotName, whole.substr(0, size));
    const absl::StatusOr<LoadedDirectory> loaded = directory.Load();
    const bool is_older = std::find(older.begin(), older.end(), whole.size() - size) != older.end();
    CHECK(loaded.ok() == is_older);
    if (loaded.ok()) CHECK(Describe(*loaded) == content);
  }
  directory.Write(kSnapshotName, whole + '\0');
  CHECK_FALSE(directory.Load().ok());
}

TEST_CASE("a snapshot that is damaged anywhere is refused") {
  const VersionFixture fixture = GENERATE(from_range(std::begin(kFixtures), std::end(kFixtures)));
  CAPTURE(fixture.version);
  const std::string whole = FromHex(fixture.snapshot);
  REQUIRE(IsSnapshot(whole));
  for (size_t at = 0; at < whole.size(); ++at) {
    CAPTURE(at);
    for (const char damage : kDamages) CHECK_FALSE(IsSnapshot(Damaged(whole, at, damage)));
  }
}

TEST_CASE("a log that is cut anywhere has the whole records before the cut, and no more") {
  const VersionFixture fixture = GENERATE(from_range(std::begin(kFixtures), std::end(kFixtures)));
  CAPTURE(fixture.version);
  const TemporaryDirectory directory;
  directory.Write(kSnapshotName, FromHex(fixture.snapshot));
  const std::string whole = FromHex(fixture.log);
  const std::vector<size_t> ends = RecordEnds(whole);
  REQUIRE(ends.size() == fixture.transactions + 1);
  std::string content;
  for (size_t size = kLogHeaderBytes; size < whole.size(); ++size) {
    CAPTURE(size);
    directory.Write(kLogName, whole.substr(0, size));
    const absl::StatusOr<LoadedDirectory> loaded = directory.Load();
    INFO(loaded.status());
    REQUIRE(loaded.ok());
    const auto records = std::upper_bound(ends.begin(), ends.end(), size) - ends.begin() - 1;
    CHECK(loaded->transactions == static_cast<size_t>(records));
    const bool at_end = ends[static_cast<size_t>(records)] == size;
    // A few zeros count as preallocated space.
    const bool is_torn = whole.find_first_not_of('\0', ends[static_cast<size_t>(records)]) < size;
    CHECK(loaded->warnings.size() == (is_torn ? 1 : 0));
    if (at_end) content = Describe(*loaded);
    CHECK(Describe(*loaded) == content);
  }
  CHECK(content == fixture.content);
  for (size_t size = 1; size < kLogHeaderBytes; ++size) {
    CAPTURE(size);
    directory.Write(kLogName, whole.substr(0, size));
    CHECK_FALSE(directory.Load().ok());
  }
}

TEST_CASE("a log that is damaged anywhere is refused, except at its end, which counts as torn") {
  const VersionFixture fixture = GENERATE(from_range(std::begin(kFixtures), std::end(kFixtures)));
  CAPTURE(fixture.version);
  const TemporaryDirectory directory;
  directory.Write(kSnapshotName, FromHex(fixture.snapshot));
  const std::string whole = FromHex(fixture.log);
  const std::vector<size_t> ends = RecordEnds(whole);
  const size_t last_record = ends[ends.size() - 2];
  directory.Write(kLogName, whole.substr(0, last_record));
  const std::string all_but_one = MustDescribe(directory);
  // The field of the database number, on which nothing depends.
  constexpr size_t kDatabaseBegin = 8;
  for (size_t at = 0; at < whole.size(); ++at) {
    CAPTURE(at);
    const bool is_database = at >= kDatabaseBegin && at < kLogHeaderBytes;
    directory.Write(kLogName, Damaged(whole, at, kDamages[at % std::size(kDamages)]));
    const absl::StatusOr<LoadedDirectory> loaded = directory.Load();
    CHECK(loaded.ok() == (is_database || at >= last_record));
    if (!loaded.ok()) continue;
    // A damaged last record looks like one that was never acknowledged.
    const bool loses_one = at >= last_record && at < ends.back();
    CHECK(Describe(*loaded) == (loses_one ? all_but_one : fixture.content));
    CHECK(loaded->warnings.size() == (is_database ? 0 : 1));
  }
}

}  // namespace quorate::tools::zookeeper
