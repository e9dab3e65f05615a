// SPDX-License-Identifier: Apache-2.0

#include "tools/zookeeper/snapshot_file.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/strings.h"
#include "rpc/zookeeper_files/checksum.h"
#include "rpc/zookeeper_files/jute.h"
#include "rpc/zookeeper_files/snapshot_writer.h"
#include "tree/acl_table.h"

namespace quorate::tools::zookeeper {
namespace {

using tree::SessionId;
using tree::Zxid;
using zookeeper_files::Adler32;
using zookeeper_files::DigestStat;
using zookeeper_files::kAdler32OfNothing;
using zookeeper_files::kDigestVersion;
using zookeeper_files::ReadAcl;
using zookeeper_files::ReadBuffer;
using zookeeper_files::ReadString;

constexpr std::string_view kEndPath = zookeeper_files::kSnapshotEndPath;
// The size of a zxid and its checksum block: int64, int64, and "/" with its length.
constexpr size_t kZxidBlockBytes = 21;
constexpr size_t kPieceBytes = 256u << 10;
constexpr size_t kNodesBetweenProgress = 100'000;

// Reads like a BigEndianReader, from a source of any length; views are valid until the next read.
class SnapshotInput {
 public:
  explicit SnapshotInput(ByteSource* source) : source_(source) {}

  template <std::integral T>
  T Int() {
    const std::string_view bytes = Raw(sizeof(T));
    return bytes.size() == sizeof(T) ? LoadInt<std::endian::big, T>(bytes.data()) : T{0};
  }
  std::string_view Raw(size_t size) {
    if (!Fill(size)) {
      Fail();
      return {};
    }
    const std::string_view bytes = std::string_view(buffer_).substr(at_, size);
    at_ += size;
    checksum_ = Adler32(bytes, checksum_);
    return bytes;
  }
  void Fail() { ok_ = false; }
  bool ok() const { return ok_; }

  // Returns the number of bytes that are left, or `max` if that is less.
  size_t Ahead(size_t max) { return Fill(max) ? max : buffer_.size() - at_; }
  uint32_t checksum() const { return checksum_; }
  uint64_t offset() const { return dropped_ + at_; }
  // Returns the error of the source, if that caused a failure.
  const absl::Status& status() const { return status_; }

 private:
  // Makes `size` bytes available. The memory grows with the bytes that are read, not with `size`,
  // which may be wrong.
  bool Fill(size_t size) {
    if (!ok_) return false;
    if (buffer_.size() - at_ >= size) return true;
    buffer_.erase(0, at_);
    dropped_ += at_;
    at_ = 0;
    while (buffer_.size() < size) {
      const size_t before = buffer_.size();
      buffer_.resize(before + kPieceBytes);
      const absl::StatusOr<size_t> count = source_->Read(buffer_.data() + before, kPieceBytes);
      if (!count.ok()) status_ = count.status();
      buffer_.resize(before + (count.ok() ? *count : 0));
      if (buffer_.size() == before) return false;
    }
    return true;
  }

  ByteSource* const source_;
  std::string buffer_;
  size_t at_ = 0;
  uint64_t dropped_ = 0;
  uint32_t checksum_ = kAdler32OfNothing;
  bool ok_ = true;
  absl::Status status_;
};

class SnapshotReader {
 public:
  SnapshotReader(const std::string& name, ByteSource* source, DataTree* data_tree)
      : name_(name), input_(source), data_tree_(*data_tree) {}

  absl::StatusOr<SnapshotDigest> Read(const std::function<void(size_t)>& progress) {
    if (absl::Status s = ReadHeader(); !s.ok()) return s;
    if (absl::Status s = ReadSessions(); !s.ok()) return s;
    if (absl::Status s = ReadLists(); !s.ok()) return s;
    if (absl::Status s = ReadNodes(progress); !s.ok()) return s;
    if (absl::Status s = CheckSeal(); !s.ok()) return s;
    return ReadTail();
  }

 private:
  absl::Status Damaged(std::string_view what) const {
    if (!input_.status().ok()) {
      return absl::Status(input_.status().code(), absl::StrCat(name_, ", offset ", input_.offset(),
                                                               ": ", input_.status().message()));
    }
    return absl::DataLossError(
        absl::StrCat(name_, " is damaged at offset ", input_.offset(), ": ", ToAbsl(what)));
  }
  absl::Status CheckWhole() const {
    return input_.ok() ? absl::OkStatus() : Damaged("it is cut off, or a length is impossible");
  }

  absl::Status ReadHeader() {
    const auto magic = input_.Int<int32_t>();
    const auto version = input_.Int<int32_t>();
    input_.Int<int64_t>();  // the database number, which is not used
    if (absl::Status s = CheckWhole(); !s.ok()) return s;
    if (magic != zookeeper_files::kSnapshotMagic)
      return Damaged("this is not a snapshot of ZooKeeper");
    if (version != zookeeper_files::kSnapshotVersion)
      return Damaged(absl::StrCat("its format is ", version, ", not 2"));
    return absl::OkStatus();
  }

  absl::Status ReadSessions() {
    const auto count = input_.Int<int32_t>();
    if (count < 0) return Damaged("a negative number of sessions");
    for (int32_t i = 0; i < count && input_.ok(); ++i) {
      const SessionId session(input_.Int<int64_t>());
      const auto timeout_ms = input_.Int<int32_t>();
      if (input_.ok()) data_tree_.AddSession(session, timeout_ms);
    }
    return CheckWhole();
  }

  absl::Status ReadLists() {
    lists_.emplace(zookeeper_files::kOpenListNumber, tree::OpenAcl());
    const auto count = input_.Int<int32_t>();
    if (count < 0) return Damaged("a negative number of access control lists");
    std::vector<tree::Acl> acl;
    for (int32_t i = 0; i < count && input_.ok(); ++i) {
      const auto number = input_.Int<int64_t>();
      ReadAcl(&input_, &acl);
      if (input_.ok()) lists_.insert_or_assign(number, acl);
    }
    return CheckWhole();
  }

  absl::Status ReadNodes(const std::function<void(size_t)>& progress) {
    std::string path;
    DataTree::SnapshotNode node;
    while (true) {
      path = ReadString(&input_);
      if (absl::Status s = CheckWhole(); !s.ok()) return s;
      if (path == kEndPath) return absl::OkStatus();
      // The root's name is empty in the file.
      node.path = path.empty() ? kEndPath : path;
      if (absl::Status s = ReadNode(&node); !s.ok()) return s;
      if (data_tree_.node_count() % kNodesBetweenProgress == 0) progress(data_tree_.node_count());
    }
  }

  absl::Status ReadNode(DataTree::SnapshotNode* node) {
    const std::optional<std::string_view> data = ReadBuffer(&input_);
    node->has_data = data.has_value();
    data_ = data.value_or(std::string_view());
    node->data = data_;
    const auto list = lists_.find(input_.Int<int64_t>());
    node->acl = list == lists_.end() ? nullptr : &list->second;
    DigestStat& stat = node->stat;
    stat.czxid = Zxid(input_.Int<int64_t>());
    stat.mzxid = Zxid(input_.Int<int64_t>());
    stat.ctime_ms = input_.Int<int64_t>();
    stat.mtime_ms = input_.Int<int64_t>();
    stat.version = input_.Int<int32_t>();
    stat.stored_cversion = input_.Int<int32_t>();
    stat.aversion = input_.Int<int32_t>();
    stat.owner = SessionId(input_.Int<int64_t>());
    stat.pzxid = Zxid(input_.Int<int64_t>());
    if (absl::Status s = CheckWhole(); !s.ok()) return s;
    const absl::Status added = data_tree_.AddNode(*node);
    return added.ok() ? added : Damaged(ToStd(added.message()));
  }

  // Checks a checksum of all bytes before it, including other checksums.
  absl::Status CheckSeal() {
    const uint32_t expected = input_.checksum();
    const auto checksum = input_.Int<uint64_t>();
    const bool ends_well = ReadString(&input_) == kEndPath;
    if (absl::Status s = CheckWhole(); !s.ok()) return s;
    if (checksum != expected) return Damaged("the checksum is wrong");
    if (!ends_well) return Damaged("the mark after the checksum is wrong");
    return absl::OkStatus();
  }

  absl::StatusOr<SnapshotDigest> ReadTail() {
    SnapshotDigest digest;
    // The file ends here before 3.6, or if it has neither a digest nor the block after it.
    const size_t ahead = input_.Ahead(kZxidBlockBytes + 1);
    if (ahead == 0 && input_.status().ok()) return digest;
    if (ahead == kZxidBlockBytes) return ReadZxid(digest);
    digest.zxid = Zxid(input_.Int<int64_t>());
    digest.version = input_.Int<int32_t>();
    if (digest.version < kDigestVersion) {
      ReadString(&input_);
    } else {
      digest.digest = input_.Int<uint64_t>();
    }
    if (absl::Status s = CheckSeal(); !s.ok()) return s;
    if (input_.Ahead(1) == 0 && input_.status().ok()) return digest;
    return ReadZxid(digest);
  }

  // Reads the last block, which exists since 3.9: the zxid, which is also in the name of the file.
  absl::StatusOr<SnapshotDigest> ReadZxid(SnapshotDigest digest) {
    input_.Int<int64_t>();
    if (absl::Status s = CheckSeal(); !s.ok()) return s;
    if (input_.Ahead(1) > 0 || !input_.status().ok()) {
      return Damaged("there are bytes after the end");
    }
    return digest;
  }

  const std::string& name_;
  SnapshotInput input_;
  DataTree& data_tree_;
  absl::flat_hash_map<int64_t, std::vector<tree::Acl>> lists_;
  std::string data_;
};

}  // namespace

absl::StatusOr<SnapshotDigest> ReadSnapshot(const std::string& name, ByteSource* source,
                                            DataTree* data_tree,
                                            const std::function<void(size_t nodes)>& progress) {
  return SnapshotReader(name, source, data_tree).Read(progress);
}

}  // namespace quorate::tools::zookeeper
