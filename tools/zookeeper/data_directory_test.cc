// SPDX-License-Identifier: Apache-2.0

#include "tools/zookeeper/data_directory.h"

#include <snappy.h>
#include <unistd.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rpc/zookeeper_files/checksum.h"
#include "rpc/zookeeper_files/digest.h"
#include "rpc/zookeeper_files/snapshot_writer.h"
#include "tools/zookeeper/snapshot_file.h"
#include "tools/zookeeper/test_files.h"
#include "tools/zookeeper/transaction_log.h"
#include "tree/node_kind.h"

namespace quorate::tools::zookeeper {
namespace {

using Type = TransactionType;
using tree::SessionId;
using tree::Zxid;
using zookeeper_files::Adler32;
using zookeeper_files::DigestStat;
using zookeeper_files::NodeDigest;
using zookeeper_files::SnapshotWriter;

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

  const std::string& path() const { return path_; }
  void Write(const std::string& name, std::string_view bytes) const {
    const std::filesystem::path path = std::filesystem::path(path_) / "version-2" / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }

 private:
  std::string path_;
};

using Nodes = std::vector<DataTree::SnapshotNode>;

DataTree::SnapshotNode MakeNode(std::string_view path, int64_t zxid, std::string_view data = "",
                                int64_t owner = 0) {
  static const std::vector<tree::Acl> open = tree::OpenAcl();
  DataTree::SnapshotNode node;
  node.path = path;
  node.has_data = true;
  node.data = data;
  node.acl = &open;
  node.stat.czxid = node.stat.mzxid = node.stat.pzxid = Zxid(zxid);
  if (zxid > 0) node.stat.ctime_ms = node.stat.mtime_ms = TimeOf(zxid);
  node.stat.owner = SessionId(owner);
  return node;
}

Nodes SystemNodes() {
  return {MakeNode("/", 0), MakeNode("/zookeeper", 0), MakeNode("/zookeeper/quota", 0)};
}

// Returns a snapshot as ZooKeeper 3.6 writes it.
std::string Snapshot(const Nodes& nodes, int64_t digest_zxid,
                     const std::map<SessionId, int32_t>& sessions = {}) {
  std::string bytes;
  SnapshotWriter writer([&bytes](std::string_view piece) {
    bytes += piece;
    return absl::OkStatus();
  });
  SnapshotWriter::Lists lists;
  for (const DataTree::SnapshotNode& node : nodes) {
    if (*node.acl != tree::OpenAcl()) lists.try_emplace(*node.acl, lists.size() + 1);
  }
  REQUIRE(writer.Begin(sessions, lists).ok());
  for (const DataTree::SnapshotNode& node : nodes) REQUIRE(writer.Node(node).ok());
  REQUIRE(writer.End(Zxid(digest_zxid)).ok());
  // Cuts off the block with the last zxid, which snapshots have since ZooKeeper 3.9: it stands at the end.
  bytes.resize(bytes.size() - 21);
  return bytes;
}

// Returns a snapshot as ZooKeeper 3.4 writes it, without a digest.
std::string OldSnapshot(const Nodes& nodes, const std::map<SessionId, int32_t>& sessions = {}) {
  const std::string bytes = Snapshot(nodes, 0, sessions);
  return bytes.substr(0, bytes.size() - 33);
}

absl::StatusOr<LoadedDirectory> Load(const DataDirectory& directory) {
  return LoadDirectory(directory, [](const std::string&) {});
}
DataDirectory OptionsOf(const TemporaryDirectory& directory) {
  DataDirectory options;
  options.data_dir = directory.path();
  return options;
}
absl::StatusOr<LoadedDirectory> Load(const TemporaryDirectory& directory) {
  return Load(OptionsOf(directory));
}
LoadedDirectory MustLoad(const TemporaryDirectory& directory) {
  absl::StatusOr<LoadedDirectory> loaded = Load(directory);
  INFO(loaded.status());
  REQUIRE(loaded.ok());
  return *std::move(loaded);
}
void CheckRefused(const TemporaryDirectory& directory, const std::string& why) {
  const absl::Status status = Load(directory).status();
  CHECK_THAT(std::string(status.message()), Catch::Contains(why));
}

// Returns the digest after some transactions, as a server would write it.
uint64_t DigestAfter(const Nodes& nodes, const LogBuilder& log) {
  DataTree data_tree;
  for (const DataTree::SnapshotNode& node : nodes) REQUIRE(data_tree.AddNode(node).ok());
  TransactionLog reader("log", log.bytes());
  absl::StatusOr<bool> more = reader.Open();
  Transaction transaction;
  while (more.ok() && *more) {
    more = reader.Next(&transaction);
    if (more.ok() && *more) data_tree.Apply(transaction);
  }
  REQUIRE(more.ok());
  return data_tree.digest();
}

std::string Gzip(std::string_view bytes) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 8,
                       Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string JavaSnappy(std::string_view bytes) {
  std::string out("\x82SNAPPY\0\0\0\0\1\0\0\0\1", 16);
  constexpr size_t kBlock = 100;
  for (size_t at = 0; at < bytes.size(); at += kBlock) {
    std::string block;
    const std::string_view piece = bytes.substr(at, kBlock);
    snappy::Compress(piece.data(), piece.size(), &block);
    BigEndianWriter(&out).String(block);
  }
  return out;
}

}  // namespace

TEST_CASE("the digest of a znode is ZooKeeper's") {
  DigestStat stat;
  stat.czxid = stat.mzxid = stat.pzxid = Zxid(5);
  stat.ctime_ms = stat.mtime_ms = 1000;
  CHECK(NodeDigest("/a", "x", stat) == 12883159);
  CHECK(NodeDigest("/a", std::string_view(), stat) == NodeDigest("/a", "", stat));
  CHECK(NodeDigest("/zookeeper/quota", "x", stat) == 0);
  CHECK(NodeDigest("/zookeeper", "x", stat) != 0);
}

TEST_CASE("every kind of transaction of ZooKeeper 3.4 is applied") {
  const TemporaryDirectory directory;
  directory.Write("snapshot.0", OldSnapshot(SystemNodes()));
  LogBuilder log;
  const std::vector<tree::Acl> reader = {{tree::permission::kRead, {"world", "anyone"}}};
  log.Add(1, Type::kCreateSession, RecordBuilder().Int(30000).bytes())
      .Add(2, Type::kCreate, CreateRecord("/a", "one", false, 1))
      // Before 3.4: without the parent's cversion.
      .Add(3, Type::kCreate, RecordBuilder().String("/a/b").Null().AclList().Bool(false).bytes())
      .Add(4, Type::kCreate, CreateRecord("/a/e", "", true, 2))
      .Add(5, Type::kSetData, SetDataRecord("/a", "two", 7))
      .Add(6, Type::kSetAcl, RecordBuilder().String("/a/b").AclList(reader).Int(4).bytes())
      .Add(7, Type::kError, RecordBuilder().Int(-101).bytes())
      .Add(8, Type::kDelete, DeleteRecord("/a/b"))
      .Add(9, Type::kMulti,
           MultiRecord({{Type::kCreate, CreateRecord("/m", "", false, 2)},
                        {Type::kCheck, RecordBuilder().String("/m").Int(0).bytes()},
                        {Type::kSetData, SetDataRecord("/m", "m", 1)}}))
      .Add(10, Type::kMulti,
           MultiRecord({{Type::kDelete, DeleteRecord("/m")},
                        {Type::kError, RecordBuilder().Int(-103).bytes()}}))
      .Add(11, Type::kCreate, CreateRecord("/a/of-another", "", true, 3), std::nullopt, 99)
      .Add(12, Type::kCloseSession, "");
  directory.Write("log.1", log.Padded());

  const LoadedDirectory loaded = MustLoad(directory);
  const DataTree& data_tree = *loaded.data_tree;
  CHECK(loaded.last_zxid == Zxid(12));
  CHECK(loaded.transactions == 12);
  CHECK(loaded.warnings.empty());
  CHECK(data_tree.sessions().empty());
  CHECK(data_tree.Find("/a/b") == nullptr);
  CHECK(data_tree.Find("/a/e") == nullptr);
  // The owner's session never existed.
  CHECK(data_tree.Find("/a/of-another") == nullptr);
  CHECK(loaded.orphans == 1);
  const tree::Znode* a = data_tree.Find("/a");
  REQUIRE(a != nullptr);
  CHECK(a->data.view() == "two");
  CHECK(a->version == 7);
  CHECK(a->mzxid == Zxid(5));
  CHECK(a->mtime_ms == TimeOf(5));
  CHECK(a->created_children() == 3);
  CHECK(a->pzxid() == Zxid(12));
  const tree::Znode* m = data_tree.Find("/m");
  REQUIRE(m != nullptr);
  CHECK(m->data.view() == "m");
  CHECK(m->version == 1);
  CHECK(data_tree.root()->created_children() == 2);
  CHECK(data_tree.root()->pzxid() == Zxid(9));
  // ZooKeeper 3.4 has no such znode.
  REQUIRE(data_tree.Find("/zookeeper/config") != nullptr);
}

TEST_CASE("transactions of ZooKeeper 3.5 and later are applied") {
  const TemporaryDirectory directory;
  directory.Write("snapshot.0", Snapshot(SystemNodes(), 0));
  const auto create = [](std::string_view path, int32_t parent_cversion) {
    RecordBuilder record;
    return record.String(path).String("").AclList().Int(parent_cversion);
  };
  const std::string closed = RecordBuilder().Int(1).String("/e").bytes();
  LogBuilder log;
  log.Add(1, Type::kCreateContainer, create("/c", 1).bytes())
      .Add(2, Type::kCreateTtl, create("/t", 2).Long(5000).bytes())
      .Add(3, Type::kCreate2, CreateRecord("/e", "", true, 3), 123)
      .Add(4, Type::kCreateSession, RecordBuilder().Int(1).bytes(), 123, 7)
      .Add(5, Type::kCloseSession, closed, 123)
      .Add(6, Type::kCloseSession, "", 123, 7)
      .Add(7, Type::kReconfig, SetDataRecord("/zookeeper/config", "server.1=x", -1))
      .Add(8, Type::kCreateContainer, create("/d", 4).bytes())
      .Add(9, Type::kDeleteContainer, DeleteRecord("/d"));
  directory.Write("log.1", log.Padded());
  DataDirectory options = OptionsOf(directory);
  options.ignore_digest = true;
  const absl::StatusOr<LoadedDirectory> loaded = Load(options);
  REQUIRE(loaded.ok());
  const DataTree& data_tree = *loaded->data_tree;
  REQUIRE(data_tree.Find("/c") != nullptr);
  CHECK(data_tree.Find("/c")->owner() == tree::kContainerOwner);
  REQUIRE(data_tree.Find("/t") != nullptr);
  CHECK(tree::TtlOf(data_tree.Find("/t")->owner()) == 5000);
  CHECK(data_tree.Find("/e") == nullptr);
  CHECK(data_tree.Find("/d") == nullptr);
  CHECK(data_tree.sessions().empty());
  CHECK(data_tree.Find("/zookeeper/config")->data.view().empty());
}

TEST_CASE("a fuzzy snapshot becomes correct by the log") {
  // The transactions from 11 on; the snapshot of 10 shows some of their effects.
  LogBuilder log;
  log.Add(11, Type::kCreate, CreateRecord("/a", "a", false, 1))
      .Add(12, Type::kCreate, CreateRecord("/a/x", "x", false, 1))
      .Add(13, Type::kDelete, DeleteRecord("/a/x"))
      .Add(14, Type::kDelete, DeleteRecord("/a"))
      .Add(15, Type::kCreate, CreateRecord("/a", "again", false, 2))
      .Add(16, Type::kCreate, CreateRecord("/a/y", "y", false, 1))
      .Add(17, Type::kSetData, SetDataRecord("/a/y", "yy", 1))
      .Add(18, Type::kCreate, CreateRecord("/b", "", false, 3))
      .Add(19, Type::kDelete, DeleteRecord("/b"))
      .Add(20, Type::kCreate2, CreateRecord("/e", "", true, 4))
      .Add(21, Type::kDelete, DeleteRecord("/e"))
      .Add(22, Type::kCreate, CreateRecord("/e", "", false, 5));
  const uint64_t digest = DigestAfter(SystemNodes(), log);
  log.Add(23, Type::kError, RecordBuilder().Int(-101).bytes(), digest);

  DataTree::SnapshotNode old_root = MakeNode("/", 0);
  DataTree::SnapshotNode new_root = old_root;
  new_root.stat.stored_cversion = 5;
  new_root.stat.pzxid = Zxid(22);
  DataTree::SnapshotNode last_a = MakeNode("/a", 15, "again");
  last_a.stat.stored_cversion = 1;
  last_a.stat.pzxid = Zxid(16);
  DataTree::SnapshotNode last_y = MakeNode("/a/y", 16, "yy");
  last_y.stat.mzxid = Zxid(17);
  last_y.stat.mtime_ms = TimeOf(17);
  last_y.stat.version = 1;
  const DataTree::SnapshotNode system = MakeNode("/zookeeper", 0);
  const DataTree::SnapshotNode quota = MakeNode("/zookeeper/quota", 0);
  const std::vector<Nodes> snapshots = {
      {old_root, system, quota},
      {new_root, last_a, last_y, MakeNode("/e", 22), system, quota},
      {old_root, last_a, last_y, MakeNode("/e", 20, "", kSession), system, quota},
      {old_root, MakeNode("/a", 11, "a"), MakeNode("/a/x", 12, "x"), MakeNode("/b", 18), system,
       quota},
      // An ephemeral znode in place of a znode that had, or will have, children.
      {new_root, MakeNode("/a", 11, "", kSession), system, quota},
      {old_root, last_a, MakeNode("/e", 22), system, quota},
  };
  for (const Nodes& nodes : snapshots) {
    const TemporaryDirectory directory;
    directory.Write("snapshot.a", Snapshot(nodes, 22));
    directory.Write("log.b", log.Padded());
    // The digest in the snapshot is computed from its nodes, which is correct in only one of these
    // cases.
    DataDirectory options = OptionsOf(directory);
    options.ignore_digest = true;
    const absl::StatusOr<LoadedDirectory> loaded = Load(options);
    INFO(loaded.status());
    REQUIRE(loaded.ok());
    const DataTree& data_tree = *loaded->data_tree;
    CHECK(loaded->digests_checked >= 1);
    REQUIRE(data_tree.Find("/a/y") != nullptr);
    CHECK(data_tree.Find("/a/y")->data.view() == "yy");
    CHECK(data_tree.Find("/a/x") == nullptr);
    CHECK(data_tree.Find("/b") == nullptr);
    REQUIRE(data_tree.Find("/e") != nullptr);
    CHECK_FALSE(data_tree.Find("/e")->is_ephemeral());
    CHECK(data_tree.root()->created_children() == 5);
  }

  SECTION("it is refused without the end of the log") {
    const TemporaryDirectory directory;
    directory.Write("snapshot.a", OldSnapshot(snapshots[1]));
    LogBuilder short_log;
    short_log.Add(11, Type::kCreate, CreateRecord("/a", "a", false, 1));
    directory.Write("log.b", short_log.Padded());
    CheckRefused(directory, "the log ends at 0xb");
  }
}

TEST_CASE("an access control list that is missing in the snapshot is found in the log") {
  Nodes nodes = SystemNodes();
  nodes.push_back(MakeNode("/a", 11));
  // The number of an access control list that is not in the file.
  const std::string mark = "/a" + std::string(4, '\0') + std::string(8, '\xff');
  std::string bytes = OldSnapshot(nodes);
  const size_t at = bytes.find(mark);
  REQUIRE(at != std::string::npos);
  bytes.replace(at + 6, 8, std::string(7, '\0') + '\x09');
  bytes.resize(bytes.size() - 13);
  const uint64_t checksum = Adler32(bytes);
  BigEndianWriter writer(&bytes);
  writer.Int(checksum);
  writer.String("/");
  const TemporaryDirectory directory;
  directory.Write("snapshot.a", bytes);
  LogBuilder log;
  log.Add(11, Type::kCreate,
          RecordBuilder()
              .String("/a")
              .String("")
              .AclList({{1, {"digest", "u:x"}}})
              .Bool(false)
              .Int(1)
              .bytes());
  directory.Write("log.b", log.Padded());
  const LoadedDirectory loaded = MustLoad(directory);
  const tree::Znode* a = loaded.data_tree->Find("/a");
  REQUIRE(a != nullptr);
  CHECK(loaded.data_tree->acls().Get(a->acl_id).at(0).identity.scheme == "digest");

  LogBuilder other;
  other.Add(11, Type::kCreate, CreateRecord("/b", "", false, 1));
  directory.Write("log.b", other.Padded());
  CheckRefused(directory, "the node /a has an access control list");
}

TEST_CASE("quotas are counted again") {
  Nodes nodes = SystemNodes();
  nodes.push_back(MakeNode("/a", 1, "12345"));
  nodes.push_back(MakeNode("/a/b", 2, "123"));
  nodes.push_back(MakeNode("/zookeeper/quota/a", 3));
  nodes.push_back(MakeNode("/zookeeper/quota/a/zookeeper_stats", 4, "count=99,bytes=99"));
  nodes.push_back(MakeNode("/zookeeper/quota/a/zookeeper_limits", 5, "count=1,bytes=-1"));
  const TemporaryDirectory directory;
  directory.Write("snapshot.5", OldSnapshot(nodes));
  const LoadedDirectory loaded = MustLoad(directory);
  const tree::Znode* stats = loaded.data_tree->Find("/zookeeper/quota/a/zookeeper_stats");
  REQUIRE(stats != nullptr);
  CHECK(stats->data.view() == "count=2,bytes=8");
}

TEST_CASE("compressed snapshots are read, and damage in them is found") {
  Nodes nodes = SystemNodes();
  nodes.push_back(MakeNode("/a", 3, std::string_view("some data some data some data")));
  const std::string plain = Snapshot(nodes, 3);
  for (const auto& [extension, bytes] :
       {std::pair{".gz", Gzip(plain)}, std::pair{".snappy", JavaSnappy(plain)}}) {
    INFO(extension);
    const TemporaryDirectory directory;
    directory.Write(std::string("snapshot.3") + extension, bytes);
    CHECK(MustLoad(directory).data_tree->Find("/a") != nullptr);
    for (size_t size = 0; size < bytes.size(); ++size) {
      directory.Write(std::string("snapshot.3") + extension, bytes.substr(0, size));
      CheckRefused(directory, "snapshot.3");
    }
  }
}

TEST_CASE("a snapshot that was cut off or changed anywhere is refused") {
  Nodes nodes = SystemNodes();
  nodes.push_back(MakeNode("/a", 3, "data"));
  nodes.push_back(MakeNode("/a/e", 4, "", kSession));
  const std::string good = Snapshot(nodes, 4, {{SessionId(kSession), 1000}});
  const TemporaryDirectory directory;
  for (size_t size = 0; size < good.size(); ++size) {
    directory.Write("snapshot.4", good.substr(0, size));
    // If it is cut before the digest, the file is a complete snapshot of an old version.
    if (size != good.size() - 33) CheckRefused(directory, "snapshot.4");
  }
  for (size_t at = 0; at < good.size(); ++at) {
    // The database number is not used, but the checksum covers it.
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    directory.Write("snapshot.4", bad);
    INFO(at);
    CHECK_FALSE(Load(directory).ok());
  }
}

TEST_CASE("if the newest snapshot is damaged, the previous one is used") {
  const TemporaryDirectory directory;
  directory.Write("snapshot.4", Snapshot(SystemNodes(), 4).substr(0, 100));
  directory.Write("snapshot.0", Snapshot(SystemNodes(), 0));
  CheckRefused(directory, "the log ends at zxid 0x0, and there were some up to 0x4");
  const std::string error = RecordBuilder().Int(-101).bytes();
  directory.Write("log.2", LogBuilder().Add(2, Type::kError, error).Padded());
  CheckRefused(directory, "transactions are missing: after 0x0 comes 0x2");
  directory.Write("log.1", LogBuilder().Add(1, Type::kError, error).Padded());
  CheckRefused(directory, "the log ends at zxid 0x2, and there were some up to 0x4");
  directory.Write("log.3",
                  LogBuilder().Add(3, Type::kError, error).Add(4, Type::kError, error).Padded());
  const LoadedDirectory loaded = MustLoad(directory);
  CHECK(loaded.last_zxid == Zxid(4));
  REQUIRE(loaded.warnings.size() == 1);
  CHECK_THAT(loaded.warnings[0], Catch::Contains("snapshot.4"));
}

TEST_CASE("logs are found in a separate directory, and a missing log is a warning") {
  const TemporaryDirectory data;
  const TemporaryDirectory log;
  data.Write("snapshot.0", OldSnapshot(SystemNodes()));
  log.Write("log.1", LogBuilder().Add(1, Type::kCreate, CreateRecord("/a", "", false, 1)).Padded());
  DataDirectory options = OptionsOf(data);
  const absl::StatusOr<LoadedDirectory> without = Load(options);
  REQUIRE(without.ok());
  REQUIRE(without->warnings.size() == 1);
  CHECK_THAT(without->warnings[0], Catch::Contains(data.path()) && Catch::Contains("has no log") &&
                                       Catch::Contains("--zookeeper-log"));
  options.log_dir = log.path();
  const absl::StatusOr<LoadedDirectory> with = Load(options);
  REQUIRE(with.ok());
  CHECK(with->warnings.empty());
  CHECK(with->data_tree->Find("/a") != nullptr);
}

TEST_CASE("a torn record ends a log, and damage in a log is an error") {
  const TemporaryDirectory directory;
  directory.Write("snapshot.0", OldSnapshot(SystemNodes()));
  LogBuilder log;
  log.Add(1, Type::kCreate, CreateRecord("/a", "", false, 1));
  const size_t second = log.bytes().size();
  log.Add(2, Type::kCreate, CreateRecord("/b", "", false, 2));
  const size_t third = log.bytes().size();
  for (size_t size = second; size < third; ++size) {
    directory.Write("log.1", log.bytes().substr(0, size) + std::string(300, '\0'));
    const LoadedDirectory loaded = MustLoad(directory);
    CHECK(loaded.last_zxid == Zxid(1));
    CHECK(loaded.data_tree->Find("/b") == nullptr);
  }
  SECTION("the server began another log after it") {
    directory.Write("log.1", log.bytes().substr(0, third - 5));
    directory.Write("log.2",
                    LogBuilder().Add(2, Type::kCreate, CreateRecord("/c", "", false, 2)).Padded());
    const LoadedDirectory loaded = MustLoad(directory);
    CHECK(loaded.data_tree->Find("/c") != nullptr);
    CHECK(loaded.warnings.size() == 1);
    directory.Write("log.2",
                    LogBuilder().Add(3, Type::kCreate, CreateRecord("/c", "", false, 2)).Padded());
    CheckRefused(directory, "transactions are missing");
    CheckRefused(directory, "--zookeeper-log");
  }
  SECTION("a good record follows") {
    for (size_t at = 16; at < second; ++at) {
      std::string bad = log.Padded();
      bad[at] = static_cast<char>(bad[at] ^ 4);
      directory.Write("log.1", bad);
      CheckRefused(directory, "log.1 is damaged at offset 16");
    }
  }
  SECTION("the file is not a log") {
    directory.Write("log.1", std::string(100, 'x'));
    CheckRefused(directory, "no log of ZooKeeper");
    directory.Write("log.1", "");
    CHECK(MustLoad(directory).transactions == 0);
  }
}

TEST_CASE("a new epoch may begin at any point, but a gap within an epoch is an error") {
  const TemporaryDirectory directory;
  directory.Write("snapshot.100000002", OldSnapshot(SystemNodes()));
  const std::string error = RecordBuilder().Int(-101).bytes();
  const int64_t epoch = int64_t{1} << 32;
  directory.Write("log.100000003", LogBuilder()
                                       .Add(epoch + 3, Type::kError, error)
                                       .Add(4 * epoch + 1, Type::kError, error)
                                       .Add(4 * epoch + 2, Type::kError, error)
                                       .Padded());
  CHECK(MustLoad(directory).last_zxid == Zxid(4 * epoch + 2));
  directory.Write("log.100000003", LogBuilder()
                                       .Add(epoch + 3, Type::kError, error)
                                       .Add(4 * epoch + 2, Type::kError, error)
                                       .Padded());
  CheckRefused(directory, "after 0x100000003 comes 0x400000002");
  DataDirectory options = OptionsOf(directory);
  options.ignore_gaps = true;
  const absl::StatusOr<LoadedDirectory> loaded = Load(options);
  REQUIRE(loaded.ok());
  CHECK(loaded->warnings.size() == 1);
}

TEST_CASE("digests in snapshots and logs are checked") {
  Nodes nodes = SystemNodes();
  nodes.push_back(MakeNode("/a", 3, "data"));
  LogBuilder log;
  log.Add(4, Type::kCreate, CreateRecord("/b", "", false, 1));
  const uint64_t digest = DigestAfter(nodes, log);
  const TemporaryDirectory directory;
  directory.Write("snapshot.3", Snapshot(nodes, 3));
  directory.Write(
      "log.4",
      LogBuilder().Add(4, Type::kCreate, CreateRecord("/b", "", false, 1), digest).Padded());
  CHECK(MustLoad(directory).digests_checked == 2);
  directory.Write(
      "log.4",
      LogBuilder().Add(4, Type::kCreate, CreateRecord("/b", "", false, 1), digest + 1).Padded());
  CheckRefused(directory, "--ignore-digest");
  DataDirectory options = OptionsOf(directory);
  options.ignore_digest = true;
  const absl::StatusOr<LoadedDirectory> loaded = Load(options);
  REQUIRE(loaded.ok());
  CHECK(loaded->warnings.size() == 1);
}

TEST_CASE("a snapshot that is one change ahead of its digest becomes correct by the log") {
  LogBuilder log;
  log.Add(4, Type::kError, RecordBuilder().Int(-101).bytes());
  log.Add(5, Type::kCreate, CreateRecord("/b", "", false, 1));
  Nodes nodes = SystemNodes();
  const uint64_t digest = DigestAfter(nodes, log);
  nodes[0].stat.stored_cversion = 1;
  nodes[0].stat.pzxid = Zxid(5);
  nodes.push_back(MakeNode("/b", 5));
  // The digest includes one more node, so it is wrong at zxid 4.
  nodes.push_back(MakeNode("/c", 4));
  std::string snapshot = Snapshot(nodes, 4);
  nodes.pop_back();
  const std::string wanted = Snapshot(nodes, 4);
  const std::string digest_block = snapshot.substr(snapshot.size() - 33, 20);
  snapshot = wanted.substr(0, wanted.size() - 33) + digest_block;
  const uint64_t checksum = Adler32(snapshot);
  BigEndianWriter writer(&snapshot);
  writer.Int(checksum);
  writer.String("/");
  const TemporaryDirectory directory;
  directory.Write("snapshot.3", snapshot);
  LogBuilder with_digest;
  with_digest.Add(4, Type::kError, RecordBuilder().Int(-101).bytes());
  with_digest.Add(5, Type::kCreate, CreateRecord("/b", "", false, 1), digest);
  directory.Write("log.4", with_digest.Padded());
  const LoadedDirectory loaded = MustLoad(directory);
  CHECK(loaded.digests_checked == 1);
  CHECK(loaded.warnings.empty());
  directory.Write("log.4", log.Padded());
  CheckRefused(directory, "at zxid 0x4 the tree is not what ZooKeeper's digest says");
}

TEST_CASE("an invalid directory is refused with the reason") {
  const TemporaryDirectory directory;
  CheckRefused(directory, "has no snapshot");
  CheckRefused(TemporaryDirectory(), "is it the dataDir of zoo.cfg?");
  const auto refuse = [&](Nodes more, const std::string& why) {
    Nodes nodes = SystemNodes();
    nodes.insert(nodes.end(), more.begin(), more.end());
    directory.Write("snapshot.9", OldSnapshot(nodes));
    CheckRefused(directory, why);
  };
  refuse({MakeNode("/a/b", 1)}, "the node /a/b has no parent");
  refuse({MakeNode("/a", 1), MakeNode("/a", 1)}, "the node /a is there twice");
  refuse({MakeNode("/a//b", 1)}, "illegal path");
  refuse({MakeNode("/e", 1, "", kSession), MakeNode("/e/x", 1)}, "ephemeral parent");
  refuse({MakeNode("/a", -1)}, "negative zxid");
}

}  // namespace quorate::tools::zookeeper
