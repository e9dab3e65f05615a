#include "tools/zookeeper/source_tree.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "consensus/log/env.h"
#include "tools/offline/member_examination.h"
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

absl::StatusOr<std::unique_ptr<tree::Tree>> LoadRecords(const std::string& path) {
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
  return loader.Finish(head.zxid, head.digest);
}

// Applies what the log has behind the tree.
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
        tree->Apply(zxid, entry.payload, tree::Origin{}, &listener);
      } else {
        tree->Skip(zxid);
      }
    });
    if (!status.ok()) return status;
    if (!applied.ok()) return applied;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<tree::Tree>> LoadMember(const MemberPaths& paths,
                                                       Progress* progress) {
  absl::StatusOr<MemberLock> lock = MemberLock::Take(paths, consensus::Env::PosixReadOnly());
  if (!lock.ok()) return lock.status();
  const MemberExamination member = ExamineMember(paths, progress);
  for (const Finding& finding : member.findings) {
    if (!finding.is_problem) continue;
    return absl::DataLossError(absl::StrCat(finding.file, ": ", finding.what, "; ", finding.advice,
                                            " (`quorate verify` says more)"));
  }
  if (!member.identity.has_value() || !member.log.has_value()) {
    return absl::NotFoundError(absl::StrCat(paths.data_dir, " is no data directory of Quorate"));
  }
  absl::StatusOr<std::unique_ptr<tree::Tree>> tree = std::make_unique<tree::Tree>();
  if (member.checkpoint.has_value()) tree = LoadRecords(paths.data_dir);
  if (!tree.ok()) return tree.status();
  if (absl::Status s = ApplyLog(*member.log, tree->get(), progress); !s.ok()) return s;
  return tree;
}

}  // namespace

absl::StatusOr<std::unique_ptr<tree::Tree>> LoadSourceTree(const std::string& path,
                                                           const std::string& log_dir,
                                                           Progress* progress) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return LoadRecords(path);
  return LoadMember(MemberPaths::Of(path, log_dir), progress);
}

}  // namespace quorate::tools::zookeeper
