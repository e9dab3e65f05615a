// SPDX-License-Identifier: Apache-2.0

#include "tools/zookeeper/source_tree.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "consensus/log/env.h"
#include "rpc/membership/members.h"
#include "tools/offline/tree_records.h"
#include "tree/record.h"
#include "tree/snapshot.h"

namespace quorate::tools::zookeeper {
namespace {

class SilentListener : public tree::ApplyListener {
 public:
  void OnNodeEvent(tree::EventType, std::string_view, tree::Zxid, const tree::EventAcls&) override {
  }
  void OnSessionAttached(const tree::SessionInfo&) override {}
  void OnSessionClosed(tree::SessionId, tree::Zxid) override {}
  void OnResult(tree::ApplyResult) override {}
};

// Loads the records of a backup, or of a member's checkpoint.
absl::StatusOr<SourceTree> LoadRecords(const std::string& path) {
  absl::StatusOr<TreeRecords> records = TreeRecords::Open(path);
  if (!records.ok()) return records.status();
  tree::TreeLoader loader;
  tree::HeadRecord head;
  bool is_first = true;
  absl::StatusOr<bool> more = records->Next();
  for (; more.ok() && *more; more = records->Next()) {
    if (absl::Status s = loader.Add(records->key(), records->value()); !s.ok()) return s;
    if (!std::exchange(is_first, false)) continue;
    absl::StatusOr<tree::HeadRecord> decoded = tree::DecodeHead(records->key(), records->value());
    if (!decoded.ok()) return decoded.status();
    head = *std::move(decoded);
  }
  if (!more.ok()) return more.status();
  auto tree = loader.Finish(head.zxid, head.digest);
  if (!tree.ok()) return tree.status();
  SourceTree source;
  source.tree = *std::move(tree);
  source.term = records->source().term;
  source.commit.known = consensus::Index(static_cast<uint64_t>(head.zxid.value()));
  return source;
}

// Applies the entries of the log after the tree's zxid.
absl::Status ApplyLog(const consensus::LogExamination& log, tree::Tree* tree, Progress* progress) {
  SilentListener listener;
  for (const auto& segment : log.log.segments) {
    absl::Status applied;
    absl::Status status = ForEachEntry(*segment, [&](const consensus::RecordView& entry, uint64_t) {
      const tree::Zxid zxid(static_cast<int64_t>(entry.index.value()));
      if (zxid <= tree->last_zxid() || !applied.ok()) return;
      if (applied = CheckEntry(entry); !applied.ok()) return;
      progress->Update([&] { return absl::StrCat("applied the log up to ", zxid.value()); });
      if (entry.kind == consensus::EntryKind::kCommand) {
        tree->Apply(zxid, entry.payload, tree::Proposer{}, &listener);
      } else {
        rpc::ApplyControl(entry.kind, entry.payload, zxid, tree, &listener);
      }
    });
    if (!status.ok()) return status;
    if (!applied.ok()) return applied;
  }
  return absl::OkStatus();
}

// Adds warnings about facts that this member's data alone does not show.
void AddWarnings(const MemberExamination& member, SourceTree* source) {
  const auto hard_state = NewestHardState(member);
  if (hard_state.has_value() && hard_state->state.member_state != consensus::MemberState::kNormal) {
    source->warnings.push_back(
        "this member was still receiving data from the others when it was stopped, and may lack "
        "some; use the data of another member");
  }
  if (source->commit.open == 0) return;
  const int64_t last = source->tree->last_zxid().value();
  source->warnings.push_back(absl::StrFormat(
      "this member's data does not show whether the last %d entries (zxid 0x%x to 0x%x, the last "
      "one of term %d) are committed. They are exported, because leaving out committed entries "
      "would lose acknowledged writes. Unless this is the only member, make sure that it has all "
      "committed entries and no others: stop all members, compare their logs with `quorate "
      "verify`, "
      "and export the member whose last entry has the greatest term, and among those the greatest "
      "number; or export a backup of the running cluster (`quorate backup`)",
      source->commit.open, source->commit.known.value() + 1, last, source->term));
}

absl::StatusOr<SourceTree> LoadMember(const MemberPaths& paths, Progress* progress) {
  absl::StatusOr<MemberLock> lock = MemberLock::Take(paths, consensus::Env::PosixReadOnly());
  if (!lock.ok()) return lock.status();
  const MemberExamination member = ExamineMember(paths, progress);
  for (const Finding& finding : member.findings) {
    if (!finding.is_problem) continue;
    return absl::DataLossError(absl::StrCat(finding.file, ": ", finding.what, "; ", finding.advice,
                                            " (`quorate verify` says more)"));
  }
  const std::optional<CommitFacts> commit = CommitFactsOf(member);
  if (!commit.has_value()) {
    return absl::NotFoundError(absl::StrCat(paths.data_dir, " is not a data directory of Quorate"));
  }
  SourceTree source;
  source.tree = std::make_unique<tree::Tree>();
  if (member.checkpoint.has_value()) {
    absl::StatusOr<SourceTree> checkpoint = LoadRecords(paths.data_dir);
    if (!checkpoint.ok()) return checkpoint.status();
    source = *std::move(checkpoint);
  }
  if (!member.log_is_replaced) {
    if (absl::Status s = ApplyLog(*member.log, source.tree.get(), progress); !s.ok()) return s;
    source.term = member.log->log.last_term.value();
  }
  source.commit = *commit;
  AddWarnings(member, &source);
  return source;
}

}  // namespace

absl::StatusOr<SourceTree> LoadSourceTree(const std::string& path, const std::string& log_dir,
                                          Progress* progress) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return LoadRecords(path);
  return LoadMember(MemberPaths::Of(path, log_dir), progress);
}

}  // namespace quorate::tools::zookeeper
