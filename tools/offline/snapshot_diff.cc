// SPDX-License-Identifier: Apache-2.0

#include "tools/offline/snapshot_diff.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "tools/offline/printing.h"
#include "tools/offline/tree_records.h"
#include "tree/node_paths.h"

namespace quorate::tools {
namespace {

using nlohmann::ordered_json;

// One fact of a record: its name and its printed value.
using Fact = std::pair<std::string, std::string>;

// A record in the form that is compared.
struct Subject {
  std::string kind;  // "head", "session" or "znode"
  std::string name;  // the session's id or the znode's path
  std::vector<Fact> facts;
};

std::string ZxidText(tree::Zxid zxid) { return HexNumber(static_cast<uint64_t>(zxid.value())); }

Subject SubjectOf(const tree::HeadRecord& head) {
  Subject subject{"head", "", {}};
  subject.facts = {{"zxid", ZxidText(head.zxid)},
                   {"time", TimeText(head.time_ms)},
                   {"digest", HexNumber(head.digest)},
                   {"znodes", absl::StrCat(head.nodes)},
                   {"sessions", absl::StrCat(head.sessions)}};
  std::string proposers;
  for (const auto& [member, last] : head.proposers) {
    absl::StrAppend(&proposers, proposers.empty() ? "" : ", ", "member ", member, " start ",
                    last.incarnation, " number ", last.sequence);
  }
  subject.facts.emplace_back("last writes", proposers);
  return subject;
}

Subject SubjectOf(const tree::SessionRecord& session) {
  return {"session",
          HexNumber(static_cast<uint64_t>(session.id.value())),
          {{"timeout", absl::StrCat(session.timeout_ms, " ms")},
           {"attach zxid", ZxidText(session.attach_zxid)},
           {"member", absl::StrCat(session.member)},
           // The values are compared; the output shows only that they differ.
           {"password", Hex(session.password)}}};
}

Subject SubjectOf(const tree::NodeRecord& node, const std::string& path) {
  return {"znode",
          path,
          {{"path", Escape(path)},
           {"czxid", ZxidText(node.key.czxid)},
           {"mzxid", ZxidText(node.mzxid)},
           {"pzxid", ZxidText(node.pzxid)},
           {"ctime", TimeText(node.ctime_ms)},
           {"mtime", TimeText(node.mtime_ms)},
           {"version", absl::StrCat(node.version)},
           {"cversion", absl::StrCat(ChildVersion(node))},
           {"aversion", absl::StrCat(node.aversion)},
           {"children", absl::StrCat(node.children)},
           {"owner", HexNumber(static_cast<uint64_t>(node.owner.value()))},
           {"acl", AclText(AclOf(node))},
           {"data", node.has_data ? TextOrHex(node.data) : "null"}}};
}

// One of the two trees, record by record.
class Side {
 public:
  explicit Side(TreeRecords records) : records_(std::move(records)) {}

  absl::Status Advance() {
    auto more = records_.Next();
    if (!more.ok()) return more.status();
    at_end_ = !*more;
    if (at_end_) return absl::OkStatus();
    const auto kind = tree::DecodeKind(records_.key());
    if (!kind.ok()) return kind.status();
    if (*kind != tree::RecordKind::kNode) return absl::OkStatus();
    if (absl::Status s = tree::DecodeNode(records_.key(), records_.value(), &node_); !s.ok()) {
      return s;
    }
    return paths_.Add(node_, &path_);
  }

  bool at_end() const { return at_end_; }
  std::string_view key() const { return records_.key(); }
  // Returns whether paths and records are equal.
  bool SameAs(const Side& other) const {
    return records_.value() == other.records_.value() && path_ == other.path_;
  }

  absl::StatusOr<Subject> Describe() const {
    const auto kind = tree::DecodeKind(records_.key());
    if (!kind.ok()) return kind.status();
    if (*kind == tree::RecordKind::kHead) {
      auto head = tree::DecodeHead(records_.key(), records_.value());
      if (!head.ok()) return head.status();
      return SubjectOf(*head);
    }
    if (*kind == tree::RecordKind::kSession) {
      auto session = tree::DecodeSession(records_.key(), records_.value());
      if (!session.ok()) return session.status();
      return SubjectOf(*session);
    }
    return SubjectOf(node_, path_);
  }

 private:
  TreeRecords records_;
  tree::NodePaths paths_;
  tree::NodeRecord node_;
  std::string path_;  // of the last znode
  bool at_end_ = false;
};

class Differ {
 public:
  Differ(Side a, Side b, bool json, std::ostream& out)
      : a_(std::move(a)), b_(std::move(b)), json_(json), out_(out) {}

  absl::StatusOr<uint64_t> Run() {
    if (json_) out_ << "{\n\"differences\": [";
    const absl::Status status = CompareAll();
    if (json_) {
      out_ << "\n],\n\"same\": " << (status.ok() && differences_ == 0 ? "true" : "false")
           << "\n}\n";
    }
    if (!status.ok()) return status;
    return differences_;
  }

 private:
  absl::Status CompareAll() {
    if (absl::Status s = a_.Advance(); !s.ok()) return s;
    if (absl::Status s = b_.Advance(); !s.ok()) return s;
    while (!a_.at_end() || !b_.at_end()) {
      if (absl::Status s = Step(); !s.ok()) return s;
      ++compared_;
      progress_.Update([this] { return absl::StrCat("compared ", compared_, " records"); });
    }
    return absl::OkStatus();
  }

  absl::Status Step() {
    const bool has_a = !a_.at_end() && (b_.at_end() || a_.key() <= b_.key());
    const bool has_b = !b_.at_end() && (a_.at_end() || b_.key() <= a_.key());
    absl::Status status;
    if (!has_b) {
      status = OnlyIn("a", a_);
    } else if (!has_a) {
      status = OnlyIn("b", b_);
    } else if (!a_.SameAs(b_)) {
      status = Compare();
    }
    if (status.ok() && has_a) status = a_.Advance();
    if (status.ok() && has_b) status = b_.Advance();
    return status;
  }

  absl::Status OnlyIn(std::string_view which, const Side& side) {
    auto subject = side.Describe();
    if (!subject.ok()) return subject.status();
    ++differences_;
    if (json_) {
      ordered_json one = NameJson(*subject);
      one["only_in"] = which;
      Item(one);
    } else {
      out_ << "only in " << which << ": " << NameText(*subject) << "\n";
    }
    return absl::OkStatus();
  }

  absl::Status Compare() {
    auto a = a_.Describe();
    if (!a.ok()) return a.status();
    auto b = b_.Describe();
    if (!b.ok()) return b.status();
    ++differences_;
    ordered_json fields = ordered_json::object();
    std::string lines;
    for (size_t i = 0; i < a->facts.size(); ++i) {
      const auto& [name, in_a] = a->facts[i];
      const std::string& in_b = b->facts[i].second;
      if (in_a == in_b) continue;
      if (name == "password") {
        fields[name] = "differs";
        lines += "    password differs\n";
        continue;
      }
      fields[name] = {{"a", in_a}, {"b", in_b}};
      absl::StrAppend(&lines, "    ", name, ": ", in_a, " in a, ", in_b, " in b\n");
    }
    if (json_) {
      ordered_json one = NameJson(*a);
      one["fields"] = std::move(fields);
      Item(one);
    } else {
      out_ << NameText(*a) << "\n" << lines;
    }
    return absl::OkStatus();
  }

  static std::string NameText(const Subject& subject) {
    return subject.name.empty() ? subject.kind
                                : absl::StrCat(subject.kind, " ", Escape(subject.name));
  }

  static ordered_json NameJson(const Subject& subject) {
    ordered_json one = {{"kind", subject.kind}};
    if (!subject.name.empty()) SetText("name", subject.name, &one);
    return one;
  }

  void Item(const ordered_json& item) {
    out_ << separator_
         << item.dump(-1, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace);
    separator_ = ",\n";
  }

  Side a_;
  Side b_;
  const bool json_;
  std::ostream& out_;
  Progress progress_;
  uint64_t compared_ = 0;
  uint64_t differences_ = 0;
  const char* separator_ = "\n";
};

}  // namespace

absl::StatusOr<uint64_t> DiffSnapshots(const std::string& a, const std::string& b, bool json,
                                       std::ostream& out) {
  auto records_a = TreeRecords::Open(a);
  if (!records_a.ok()) return records_a.status();
  auto records_b = TreeRecords::Open(b);
  if (!records_b.ok()) return records_b.status();
  return Differ(Side(*std::move(records_a)), Side(*std::move(records_b)), json, out).Run();
}

}  // namespace quorate::tools
