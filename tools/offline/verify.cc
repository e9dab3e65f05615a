// SPDX-License-Identifier: Apache-2.0

#include "tools/offline/verify.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/strings.h"
#include "tools/cli/progress_bar.h"
#include "tools/offline/load_backup.h"
#include "tools/offline/printing.h"

namespace quorate::tools {
namespace {

using nlohmann::ordered_json;

std::string ClusterText(const std::string& cluster_id) {
  return cluster_id.empty() ? "none yet" : Hex(cluster_id);
}

ordered_json JsonOf(const MemberExamination& member) {
  ordered_json document;
  document["whole"] = member.problems() == 0;
  document["data_dir"] = member.paths.data_dir;
  document["log_dir"] = member.paths.log_dir;
  if (member.identity.has_value()) {
    document["identity"] = {{"member", member.identity->member.value()},
                            {"cluster_id", Hex(member.identity->cluster_id)},
                            {"directory_epoch", member.identity->directory_epoch}};
  }
  if (const auto content = NewestHardState(member)) {
    int whole_copies = 0;
    for (const auto& copy : member.hard_state->copies) whole_copies += copy.has_value() ? 1 : 0;
    document["hard_state"] = {{"term", content->state.term.value()},
                              {"vote", content->state.vote.value()},
                              {"commit", content->state.commit.value()},
                              {"member_state", ToString(content->state.member_state)},
                              {"durable_index", content->durable_index.value()},
                              {"whole_copies", whole_copies}};
  }
  if (member.log.has_value()) {
    const consensus::RecoveredLog& log = member.log->log;
    document["log"] = {{"base_index", log.base_index.value()},
                       {"base_term", log.base_term.value()},
                       {"last_index", log.last_index.value()},
                       {"last_term", log.last_term.value()},
                       {"last_readable_index", LastReadableIndex(*member.log).value()},
                       {"files", member.log->segments.size()},
                       {"torn_bytes", member.log->log.torn_bytes},
                       {"whole", member.log->status.ok()}};
  }
  if (member.checkpoint.has_value()) {
    const CheckpointFacts& facts = *member.checkpoint;
    ordered_json& checkpoint = document["checkpoint"];
    checkpoint["zxid"] = HexNumber(static_cast<uint64_t>(facts.metadata.zxid.value()));
    checkpoint["digest"] = HexNumber(facts.metadata.digest);
    if (facts.meta.has_value()) checkpoint["term"] = facts.meta->term.value();
    checkpoint["znodes"] = facts.nodes;
    checkpoint["sessions"] = facts.sessions;
    checkpoint["whole"] = facts.whole;
  }
  if (const auto facts = CommitFactsOf(member)) {
    document["committed"] = {{"known", facts->known.value()},
                             {"open_entries", facts->open},
                             {"only_voter", facts->only_voter}};
  }
  document["findings"] = ordered_json::array();
  for (const Finding& finding : member.findings) {
    ordered_json one = {{"problem", finding.is_problem}, {"file", finding.file}};
    if (finding.offset.has_value()) one["offset"] = *finding.offset;
    one["what"] = finding.what;
    if (!finding.advice.empty()) one["advice"] = finding.advice;
    document["findings"].push_back(std::move(one));
  }
  return document;
}

void WriteCommitFacts(const CommitFacts& facts, std::ostream& out) {
  out << "committed   up to entry " << facts.known.value();
  if (facts.only_voter) {
    out << ", all that is there: no other member votes";
  } else if (facts.open > 0) {
    out << " for certain; of the rest, " << facts.open
        << ", only a majority of the voters together can tell";
  }
  out << "\n";
}

void WriteFacts(const MemberExamination& member, std::ostream& out) {
  out << "directory   " << Escape(member.paths.data_dir);
  if (member.paths.log_dir != member.paths.data_dir) {
    out << ", log in " << Escape(member.paths.log_dir);
  }
  out << "\n";
  if (member.identity.has_value()) {
    out << "identity    member " << member.identity->member.value() << " of cluster "
        << ClusterText(member.identity->cluster_id) << "\n";
  }
  if (const auto content = NewestHardState(member)) {
    out << "hard state  " << ToString(content->state) << ", log durable up to entry "
        << content->durable_index.value() << "\n";
  }
  if (member.log.has_value()) {
    const consensus::RecoveredLog& log = member.log->log;
    out << "log         ";
    const consensus::Index last = LastReadableIndex(*member.log);
    if (last == log.base_index) {
      out << "no entries behind " << log.base_index.value();
    } else {
      out << "entries " << log.base_index.value() + 1 << " to " << last.value();
      if (last == log.last_index) out << ", the last of term " << log.last_term.value();
    }
    out << ", in " << Count(member.log->segments.size(), "file")
        << (member.log->status.ok() ? "" : "; damaged behind that") << "\n";
  }
  if (member.checkpoint.has_value()) {
    const CheckpointFacts& facts = *member.checkpoint;
    out << "checkpoint  zxid " << HexNumber(static_cast<uint64_t>(facts.metadata.zxid.value()))
        << " (entry " << facts.metadata.zxid.value() << "), ";
    if (facts.whole) {
      out << Count(facts.nodes, "znode") << ", " << Count(facts.sessions, "session") << ", digest "
          << HexNumber(facts.metadata.digest) << " is right\n";
    } else {
      out << "damaged\n";
    }
  } else {
    out << "checkpoint  none\n";
  }
  if (const auto facts = CommitFactsOf(member)) WriteCommitFacts(*facts, out);
}

void WriteFindings(const MemberExamination& member, std::ostream& out) {
  for (const Finding& finding : member.findings) {
    out << "\n" << (finding.is_problem ? "PROBLEM " : "remark  ") << Escape(finding.file);
    if (finding.offset.has_value()) out << " at offset " << *finding.offset;
    out << "\n        " << Escape(finding.what) << "\n";
    if (!finding.advice.empty()) out << "        what to do: " << Escape(finding.advice) << "\n";
  }
  out << "\n";
}

std::string Numbers(const std::vector<uint64_t>& numbers) { return absl::StrJoin(numbers, ", "); }

ordered_json JsonOf(const std::string& path, const LoadedBackup& backup) {
  const tree::BackupHeader& header = backup.header;
  return {{"whole", true},
          {"file", path},
          {"zxid", HexNumber(static_cast<uint64_t>(header.zxid.value()))},
          {"term", header.term},
          {"digest", HexNumber(header.digest)},
          {"made_ms", header.made_ms},
          {"cluster_id", Hex(header.cluster_id)},
          {"voters", header.voters},
          {"observers", header.observers},
          {"znodes", backup.tree->node_count()},
          {"sessions", backup.tree->session_count()},
          {"records", backup.totals.records},
          {"record_bytes", backup.totals.record_bytes},
          {"bytes", backup.totals.file_bytes},
          {"checksum", Hex(backup.totals.checksum)}};
}

void WriteFacts(const std::string& path, const LoadedBackup& backup, std::ostream& out) {
  const tree::BackupHeader& header = backup.header;
  out << "backup      " << Escape(path) << ", " << Count(backup.totals.file_bytes, "byte")
      << ", checksum " << Hex(backup.totals.checksum) << "\n"
      << "made        " << TimeText(header.made_ms) << ", of cluster " << Hex(header.cluster_id)
      << "\n"
      << "members     voters " << Numbers(header.voters);
  if (!header.observers.empty()) out << "; observers " << Numbers(header.observers);
  out << "\n"
      << "tree        zxid " << HexNumber(static_cast<uint64_t>(header.zxid.value())) << " of term "
      << header.term << ", " << Count(backup.tree->node_count(), "znode") << ", "
      << Count(backup.tree->session_count(), "session") << ", digest " << HexNumber(header.digest)
      << " is right\n"
      << "records     " << Count(backup.totals.records, "record") << ", "
      << Count(backup.totals.record_bytes, "byte") << "\n\n"
      << "whole: `quorate restore` can make members from it\n";
}

}  // namespace

absl::Status VerifyBackup(const std::string& path, bool json, std::ostream& out) {
  ProgressBar progress("verify");
  auto backup = LoadBackup(path, &progress);
  if (!backup.ok()) {
    const std::string why(backup.status().message());
    if (json) {
      out << ordered_json{{"whole", false}, {"file", path}, {"problem", why}}.dump(
                 2, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace)
          << "\n";
    }
    // A file that is not a backup is reported as a failure, not as bad usage.
    const bool is_none = absl::IsInvalidArgument(backup.status());
    return is_none ? absl::FailedPreconditionError(why) : backup.status();
  }
  if (json) {
    out << JsonOf(path, *backup)
               .dump(2, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace)
        << "\n";
  } else {
    WriteFacts(path, *backup, out);
  }
  return absl::OkStatus();
}

absl::Status Verify(const MemberPaths& paths, bool json, std::ostream& out) {
  auto lock = MemberLock::Take(paths, consensus::Env::PosixReadOnly());
  if (!lock.ok()) return lock.status();
  Progress progress;
  const MemberExamination member = ExamineMember(paths, &progress);
  if (json) {
    out << JsonOf(member).dump(2, ' ', /*ensure_ascii=*/true,
                               ordered_json::error_handler_t::replace)
        << "\n";
  } else {
    WriteFacts(member, out);
    WriteFindings(member, out);
    if (member.problems() == 0) out << "whole: a server can start from it\n";
  }
  if (member.problems() == 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(paths.data_dir, ": ", Count(member.problems(), "problem")));
}

}  // namespace quorate::tools
