// SPDX-License-Identifier: Apache-2.0

#include "tools/offline/snapshot_dump.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "tools/offline/printing.h"
#include "tools/offline/tree_records.h"
#include "tree/node_kind.h"
#include "tree/node_paths.h"

namespace quorate::tools {
namespace {

using nlohmann::ordered_json;
using tree::NodeKind;
using tree::NodeRecord;

std::string_view NameOf(NodeKind kind) {
  switch (kind) {
    case NodeKind::kPersistent:
      return "persistent";
    case NodeKind::kEphemeral:
      return "ephemeral";
    case NodeKind::kContainer:
      return "container";
    case NodeKind::kTtl:
      return "ttl";
  }
  return "unknown";
}

std::string HexOf(int64_t number) { return HexNumber(static_cast<uint64_t>(number)); }

class Dumper {
 public:
  Dumper(const SnapshotDumpOptions& options, std::ostream& out) : options_(options), out_(out) {}

  absl::Status Run(TreeRecords* records) {
    const absl::Status status = WriteRecords(records);
    // The document is completed even if its source is damaged.
    if (options_.json) out_ << (begun_ ? "" : "{") << (sections_ > 0 ? "\n]" : "") << "\n}\n";
    if (!status.ok()) return status;
    if (found_) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat(Escape(options_.path), ": there is no such znode"));
  }

 private:
  absl::Status WriteRecords(TreeRecords* records) {
    for (;;) {
      auto more = records->Next();
      if (!more.ok()) return more.status();
      if (!*more) return absl::OkStatus();
      if (absl::Status s = Record(*records); !s.ok()) return s;
      ++count_;
      progress_.Update([this] { return absl::StrCat("read ", count_, " records"); });
    }
  }

  absl::Status Record(const TreeRecords& records) {
    const auto kind = tree::DecodeKind(records.key());
    if (!kind.ok()) return kind.status();
    switch (*kind) {
      case tree::RecordKind::kHead: {
        auto head = tree::DecodeHead(records.key(), records.value());
        if (!head.ok()) return head.status();
        WriteHead(*head, records.source());
        return absl::OkStatus();
      }
      case tree::RecordKind::kSession: {
        auto session = tree::DecodeSession(records.key(), records.value());
        if (!session.ok()) return session.status();
        if (options_.path == "/") WriteSession(*session);
        return absl::OkStatus();
      }
      case tree::RecordKind::kNode:
        break;
    }
    if (absl::Status s = tree::DecodeNode(records.key(), records.value(), &node_); !s.ok()) {
      return s;
    }
    if (absl::Status s = paths_.Add(node_, &path_); !s.ok()) return s;
    const bool below = options_.path == "/" || path_.starts_with(options_.path + "/");
    if (path_ != options_.path && !below) return absl::OkStatus();
    found_ = true;
    options_.json ? Item("znodes", JsonOf(path_)) : WriteNode(path_);
    return absl::OkStatus();
  }

  // Writes the next element of the JSON array `section`.
  void Item(std::string_view section, const ordered_json& item) {
    if (section != section_) {
      out_ << (sections_ > 0 ? "\n],\n\"" : ",\n\"") << section << "\": [\n";
      section_ = section;
      ++sections_;
    } else {
      out_ << ",\n";
    }
    out_ << item.dump(-1, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace);
  }

  void WriteHead(const tree::HeadRecord& head, const TreeRecords::Source& source) {
    if (options_.json) {
      ordered_json one = {{"zxid", HexOf(head.zxid.value())}, {"time_ms", head.time_ms},
                          {"digest", HexNumber(head.digest)}, {"znodes", head.nodes},
                          {"sessions", head.sessions},        {"proposers", ordered_json::array()}};
      for (const auto& [member, last] : head.proposers) {
        one["proposers"].push_back(
            {{"member", member}, {"incarnation", last.incarnation}, {"sequence", last.sequence}});
      }
      one["cluster_id"] = Hex(source.cluster_id);
      one["term"] = source.term;
      one["voters"] = source.voters;
      one["observers"] = source.observers;
      out_ << "{\n\"head\": " << one.dump();
      begun_ = true;
      return;
    }
    out_ << "zxid " << HexOf(head.zxid.value()) << ", " << TimeText(head.time_ms) << ", "
         << Count(head.nodes, "znode") << ", " << Count(head.sessions, "session") << ", digest "
         << HexNumber(head.digest) << "\n";
    out_ << "cluster " << Hex(source.cluster_id) << ", term " << source.term << ", voters";
    for (uint64_t voter : source.voters) out_ << " " << voter;
    if (!source.observers.empty()) out_ << ", observers";
    for (uint64_t observer : source.observers) out_ << " " << observer;
    out_ << "\n";
    for (const auto& [member, last] : head.proposers) {
      out_ << "last write of member " << member << ": number " << last.sequence << " of its start "
           << last.incarnation << "\n";
    }
  }

  void WriteSession(const tree::SessionRecord& session) {
    if (options_.json) {
      return Item("sessions", {{"id", HexOf(session.id.value())},
                               {"timeout_ms", session.timeout_ms},
                               {"member", session.member},
                               {"attach_zxid", HexOf(session.attach_zxid.value())}});
    }
    out_ << "session " << HexOf(session.id.value()) << "  timeout " << session.timeout_ms
         << " ms, at member " << session.member << " since zxid "
         << HexOf(session.attach_zxid.value()) << "\n";
  }

  ordered_json JsonOf(const std::string& path) const {
    const NodeKind kind = tree::KindOf(node_.owner);
    ordered_json one;
    SetText("path", path, &one);
    one["kind"] = NameOf(kind);
    one["czxid"] = HexOf(node_.key.czxid.value());
    one["mzxid"] = HexOf(node_.mzxid.value());
    one["pzxid"] = HexOf(node_.pzxid.value());
    one["ctime_ms"] = node_.ctime_ms;
    one["mtime_ms"] = node_.mtime_ms;
    one["version"] = node_.version;
    one["cversion"] = ChildVersion(node_);
    one["aversion"] = node_.aversion;
    if (kind == NodeKind::kEphemeral) one["ephemeral_owner"] = HexOf(node_.owner.value());
    if (kind == NodeKind::kTtl) one["ttl_ms"] = tree::TtlOf(node_.owner);
    one["data_length"] = node_.data.size();
    one["num_children"] = node_.children;
    one["acl"] = ordered_json::array();
    for (const tree::Acl& entry : AclOf(node_)) {
      one["acl"].push_back({{"scheme", entry.identity.scheme},
                            {"id", entry.identity.id},
                            {"permissions", PermissionText(entry.permissions)}});
    }
    if (node_.has_data) {
      SetText("data", node_.data, &one);
    } else {
      one["data"] = nullptr;
    }
    return one;
  }

  void WriteNode(const std::string& path) {
    const NodeKind kind = tree::KindOf(node_.owner);
    out_ << Escape(path) << "\n    ";
    if (kind != NodeKind::kPersistent) out_ << NameOf(kind);
    if (kind == NodeKind::kEphemeral) out_ << " of session " << HexOf(node_.owner.value());
    if (kind == NodeKind::kTtl) out_ << " of " << tree::TtlOf(node_.owner) << " ms";
    if (kind != NodeKind::kPersistent) out_ << "; ";
    out_ << "czxid " << HexOf(node_.key.czxid.value()) << " (" << TimeText(node_.ctime_ms)
         << "), mzxid " << HexOf(node_.mzxid.value()) << " (" << TimeText(node_.mtime_ms)
         << "), pzxid " << HexOf(node_.pzxid.value()) << ", version " << node_.version
         << ", cversion " << ChildVersion(node_) << ", aversion " << node_.aversion << ", "
         << node_.children << " children\n    acl " << AclText(AclOf(node_)) << "\n    data ";
    if (node_.has_data) {
      out_ << node_.data.size() << " bytes " << TextOrHex(node_.data) << "\n";
    } else {
      out_ << "null\n";
    }
  }

  const SnapshotDumpOptions& options_;
  std::ostream& out_;
  Progress progress_;
  tree::NodePaths paths_;
  std::string path_;
  NodeRecord node_;
  uint64_t count_ = 0;
  bool found_ = false;
  bool begun_ = false;  // the JSON document
  std::string_view section_;
  int sections_ = 0;
};

}  // namespace

absl::Status DumpSnapshot(const std::string& source, const SnapshotDumpOptions& options,
                          std::ostream& out) {
  auto records = TreeRecords::Open(source);
  if (!records.ok()) return records.status();
  return Dumper(options, out).Run(&*records);
}

}  // namespace quorate::tools
