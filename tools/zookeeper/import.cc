// SPDX-License-Identifier: Apache-2.0

#include "tools/zookeeper/import.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "tools/zookeeper/session_password.h"
#include "tree/dedup_table.h"
#include "tree/digest.h"
#include "tree/node_kind.h"
#include "tree/record.h"
#include "tree/snapshot.h"

namespace quorate::tools::zookeeper {
namespace {

using tree::NodeKind;
using tree::SessionId;
using tree::Znode;
using tree::Zxid;

// The most bytes of data in a znode, which is more than can be sent to any client.
constexpr size_t kDataBytesMax = 64u << 20;
// The limit of data of clients and servers with default settings.
constexpr size_t kUsualDataBytesMax = 1'000'000;
constexpr size_t kNodesBetweenProgress = 1'000'000;

absl::Status BadNode(const Znode& node, std::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("the node ", absl::Utf8SafeCEscape(node.Path()), " ", std::string(what)));
}

// Returns whether a session id is outside the ranges that encode other kinds of znodes.
bool IsPossible(SessionId session) {
  return session != tree::kNoSession && tree::KindOf(session) == NodeKind::kEphemeral;
}

}  // namespace

absl::StatusOr<Importer> Importer::Create(LoadedDirectory* loaded) {
  ASSERT(loaded->data_tree != nullptr);
  Importer importer(loaded->data_tree.get());
  importer.summary_.zxid = loaded->last_zxid;
  if (absl::Status s = importer.NumberNodes(); !s.ok()) return s;
  if (absl::Status s = importer.Check(); !s.ok()) return s;
  importer.AddUp();
  return importer;
}

// Assigns the numbers in the znodes' keys. A key is the czxid and a number, which distinguishes the
// znodes of one multi. These are numbered in the order of their paths, so that a parent comes
// before its children there, too.
absl::Status Importer::NumberNodes() {
  nodes_.reserve(data_tree_->node_count());
  nodes_.push_back(data_tree_->root());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Znode& node = *nodes_[i];
    if (node.parent != nullptr && node.czxid < node.parent->czxid) {
      return BadNode(node, "was created before its parent: the log is not the one of the snapshot");
    }
    node.children().ForEach([this](Znode* child) { nodes_.push_back(child); });
  }
  std::stable_sort(nodes_.begin(), nodes_.end(),
                   [](const Znode* a, const Znode* b) { return a->czxid < b->czxid; });
  for (auto begin = nodes_.begin(); begin != nodes_.end();) {
    const auto end = std::find_if(
        begin, nodes_.end(), [begin](const Znode* node) { return node->czxid != (*begin)->czxid; });
    if (end - begin > 1) {
      std::vector<std::pair<std::string, Znode*>> siblings;
      for (auto at = begin; at != end; ++at) siblings.emplace_back((*at)->Path(), *at);
      std::sort(siblings.begin(), siblings.end());
      for (const auto& [path, node] : siblings) *begin++ = node;
    }
    begin = end;
  }
  const Znode* before = nullptr;
  for (Znode* node : nodes_) {
    node->ordinal = before != nullptr && before->czxid == node->czxid ? before->ordinal + 1 : 0;
    before = node;
  }
  return absl::OkStatus();
}

absl::Status Importer::Check() {
  if (summary_.zxid <= Zxid(0)) {
    return absl::FailedPreconditionError(
        "there is nothing to import: nothing was ever written; start the new servers empty");
  }
  for (const auto& [session, timeout_ms] : data_tree_->sessions()) {
    if (!IsPossible(session)) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "session 0x%x is of a server whose myid is 255 or above, and such ids mean containers "
          "and nodes with a TTL; end the sessions of that server first (close its clients, or stop "
          "it and wait until the others have expired them)",
          session.value()));
    }
    if (timeout_ms <= 0) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "session 0x%x has the impossible timeout of %d ms", session.value(), timeout_ms));
    }
  }
  size_t large = 0;
  for (const Znode* node : nodes_) {
    if (std::min(node->mzxid, node->pzxid()) < node->czxid) {
      return BadNode(*node,
                     "was changed before it was created: the log is not the one of the snapshot");
    }
    if (node->kind() == NodeKind::kTtl && !tree::IsValidTtl(tree::TtlOf(node->owner()))) {
      return BadNode(*node,
                     "is of an extended type that is not known: its owner is neither a "
                     "session nor a TTL");
    }
    if (node->data.size() > kDataBytesMax) {
      return BadNode(*node, absl::StrCat("has ", node->data.size(), " bytes of data, and ",
                                         kDataBytesMax, " are allowed; make it smaller first"));
    }
    large += node->data.size() > kUsualDataBytesMax ? 1 : 0;
  }
  if (large > 0) {
    summary_.warnings.push_back(absl::StrCat(
        large, " nodes have more than 1 MB of data: set jute.maxbuffer as it was in ZooKeeper"));
  }
  return absl::OkStatus();
}

tree::Session Importer::SessionOf(SessionId id, int32_t timeout_ms) const {
  tree::Session session;
  session.id = id;
  session.timeout_ms = timeout_ms;
  // The session is attached to no server until its client connects.
  session.attach_zxid = summary_.zxid;
  session.member = tree::kNoMember;
  session.password = SessionPassword(id);
  return session;
}

void Importer::AddUp() {
  summary_.nodes = nodes_.size();
  summary_.sessions = data_tree_->sessions().size();
  summary_.time_ms = data_tree_->time_ms();
  summary_.digest = tree::HashTime(summary_.time_ms) + tree::DedupTable().Hash();
  for (const auto& [id, timeout_ms] : data_tree_->sessions()) {
    summary_.digest += SessionOf(id, timeout_ms).Hash();
  }
  for (const Znode* node : nodes_) {
    const NodeKind kind = node->kind();
    summary_.ephemerals += kind == NodeKind::kEphemeral ? 1 : 0;
    summary_.containers += kind == NodeKind::kContainer ? 1 : 0;
    summary_.ttl_nodes += kind == NodeKind::kTtl ? 1 : 0;
    summary_.data_bytes += node->data.size();
    const uint64_t content = tree::HashContent(node->Path(), node->data);
    summary_.digest += tree::HashNode(*node, content, data_tree_->acls().Hash(node->acl_id));
  }
}

std::string Importer::ClusterId(const std::string& cluster_name,
                                const std::vector<uint64_t>& voters,
                                const std::vector<uint64_t>& observers) const {
  const auto sorted = [](std::vector<uint64_t> members) {
    std::sort(members.begin(), members.end());
    return absl::StrJoin(members, ",");
  };
  const std::string what = absl::StrCat(summary_.zxid.value(), " ", summary_.digest, " ",
                                        sorted(voters), " ", sorted(observers), " ", cluster_name);
  std::string id;
  LittleEndianWriter writer(&id);
  writer.Int(tree::HashBytes(what, 1));
  writer.Int(tree::HashBytes(what, 2));
  return id;
}

absl::Status Importer::ForEachRecord(
    const RecordSink& record, const std::function<void(const std::string&)>& progress) const {
  tree::TreeLoader loader;
  std::string key;
  std::string value;
  const auto hand_out = [&] {
    const absl::Status loaded = loader.Add(key, value);
    return loaded.ok() ? record(key, value) : loaded;
  };
  tree::HeadRecord head;
  head.zxid = summary_.zxid;
  head.time_ms = summary_.time_ms;
  head.digest = summary_.digest;
  head.nodes = summary_.nodes;
  head.sessions = summary_.sessions;
  tree::EncodeHeadKey(&key);
  tree::EncodeHead(head, &value);
  if (absl::Status s = hand_out(); !s.ok()) return s;
  for (const auto& [id, timeout_ms] : data_tree_->sessions()) {
    tree::EncodeSessionKey(id, &key);
    tree::EncodeSession(SessionOf(id, timeout_ms), &value);
    if (absl::Status s = hand_out(); !s.ok()) return s;
  }
  size_t done = 0;
  for (const Znode* node : nodes_) {
    tree::EncodeNodeKey(tree::KeyOf(*node), &key);
    tree::EncodeNode(*node, data_tree_->acls(), &value);
    if (absl::Status s = hand_out(); !s.ok()) return s;
    if (++done % kNodesBetweenProgress == 0) {
      progress(absl::StrCat(done, " of ", nodes_.size(), " nodes written"));
    }
  }
  return loader.Finish(summary_.zxid, summary_.digest).status();
}

}  // namespace quorate::tools::zookeeper
