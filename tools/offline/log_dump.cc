// SPDX-License-Identifier: Apache-2.0

#include "tools/offline/log_dump.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "consensus/core/membership.h"
#include "consensus/log/file_names.h"
#include "tools/offline/printing.h"
#include "tree/command.h"

namespace quorate::tools {
namespace {

using consensus::EntryKind;
using consensus::Index;
using consensus::RecordView;
using nlohmann::ordered_json;
using tree::CommandKind;
using tree::OpKind;

std::string_view NameOf(CommandKind kind) {
  switch (kind) {
    case CommandKind::kCreateSession:
      return "createSession";
    case CommandKind::kAttachSession:
      return "attachSession";
    case CommandKind::kCloseSession:
      return "closeSession";
    case CommandKind::kExpireSession:
      return "expireSession";
    case CommandKind::kRequest:
      return "request";
    case CommandKind::kDeleteContainer:
      return "deleteContainer";
    case CommandKind::kSequencedRequest:
      return "sequencedRequest";
  }
  return "unknown";
}

std::string_view NameOf(OpKind kind) {
  switch (kind) {
    case OpKind::kCreate:
      return "create";
    case OpKind::kDelete:
      return "delete";
    case OpKind::kSetData:
      return "setData";
    case OpKind::kCheck:
      return "check";
    case OpKind::kSetAcl:
      return "setAcl";
    case OpKind::kCreateContainer:
      return "createContainer";
    case OpKind::kCreateTtl:
      return "createTtl";
    case OpKind::kCheckAbsent:
      return "checkAbsent";
    case OpKind::kCheckCreated:
      return "checkCreated";
    case OpKind::kRefused:
      return "refused";
    case OpKind::kDeleteRecursive:
      return "deleteRecursive";
    case OpKind::kCheckNotExists:
      return "checkNotExists";
    case OpKind::kCreateIfNotExists:
      return "createIfNotExists";
    case OpKind::kRemoveSubtree:
      return "removeSubtree";
    case OpKind::kCheckStat:
      return "checkStat";
    case OpKind::kTryDelete:
      return "tryDelete";
    case OpKind::kGet:
      return "get";
    case OpKind::kExists:
      return "exists";
    case OpKind::kGetChildren:
      return "getChildren";
  }
  return "unknown";
}

std::string_view NameOf(tree::CompareTarget target) {
  switch (target) {
    case tree::CompareTarget::kExists:
      return "exists";
    case tree::CompareTarget::kCzxid:
      return "czxid";
    case tree::CompareTarget::kMzxid:
      return "mzxid";
    case tree::CompareTarget::kPzxid:
      return "pzxid";
    case tree::CompareTarget::kVersion:
      return "version";
    case tree::CompareTarget::kCversion:
      return "cversion";
    case tree::CompareTarget::kAversion:
      return "aversion";
    case tree::CompareTarget::kValue:
      return "data";
  }
  return "unknown";
}

std::string_view NameOf(tree::CompareRelation relation) {
  switch (relation) {
    case tree::CompareRelation::kEqual:
      return "=";
    case tree::CompareRelation::kNotEqual:
      return "!=";
    case tree::CompareRelation::kLess:
      return "<";
    case tree::CompareRelation::kGreater:
      return ">";
  }
  return "unknown";
}

std::string_view NameOf(tree::CreateMode mode) {
  switch (mode) {
    case tree::CreateMode::kPersistent:
      return "persistent";
    case tree::CreateMode::kEphemeral:
      return "ephemeral";
    case tree::CreateMode::kPersistentSequential:
      return "persistent sequential";
    case tree::CreateMode::kEphemeralSequential:
      return "ephemeral sequential";
    case tree::CreateMode::kContainer:
      return "container";
    case tree::CreateMode::kPersistentWithTtl:
      return "persistent with TTL";
    case tree::CreateMode::kPersistentSequentialWithTtl:
      return "persistent sequential with TTL";
  }
  return "unknown";
}

std::string_view NameOf(EntryKind kind) {
  switch (kind) {
    case EntryKind::kNoOp:
      return "no-op";
    case EntryKind::kCommand:
      return "command";
    case EntryKind::kMembership:
      return "membership";
    case EntryKind::kVersion:
      return "version";
  }
  return "unknown";
}

bool IsCreate(OpKind kind) {
  return kind == OpKind::kCreate || kind == OpKind::kCreateContainer ||
         kind == OpKind::kCreateTtl || kind == OpKind::kCreateIfNotExists;
}

// The facts of an entry by name, in the order in which a line shows them.
class EntryFacts {
 public:
  explicit EntryFacts(bool shows_data) : shows_data_(shows_data) {}

  ordered_json Of(const RecordView& entry, uint64_t offset) const {
    ordered_json facts = {{"index", entry.index.value()},
                          {"term", entry.term.value()},
                          {"kind", NameOf(entry.kind)},
                          {"offset", offset},
                          {"bytes", entry.payload.size()}};
    if (absl::Status status = CheckEntry(entry); !status.ok()) {
      facts["malformed"] = std::string(status.message());
      return facts;
    }
    switch (entry.kind) {
      case EntryKind::kNoOp:
        if (!entry.payload.empty()) facts["cluster_id"] = Hex(entry.payload);
        break;
      case EntryKind::kMembership:
        facts["membership"] = ToString(*consensus::DecodeMembership(entry.payload));
        break;
      case EntryKind::kVersion:
        facts["version"] = *consensus::DecodeVersion(entry.payload);
        break;
      case EntryKind::kCommand:
        AddCommand(entry.payload, &facts);
        break;
    }
    return facts;
  }

 private:
  void AddCommand(std::string_view command, ordered_json* facts) const {
    const tree::CommandHeader header = *tree::DecodeHeader(command);
    (*facts)["kind"] = NameOf(header.kind);
    (*facts)["time_ms"] = header.time_ms;
    (*facts)["session"] = HexNumber(static_cast<uint64_t>(header.session.value()));
    (*facts)["proposer"] = {{"member", header.proposer.member},
                            {"incarnation", header.proposer.incarnation},
                            {"sequence", header.sequence}};
    switch (header.kind) {
      case CommandKind::kCreateSession:
      case CommandKind::kAttachSession:
        (*facts)["timeout_ms"] = tree::DecodeSessionBody(command)->timeout_ms;
        break;
      case CommandKind::kDeleteContainer:
        SetText("path", *tree::DecodeDeleteContainer(command), facts);
        break;
      case CommandKind::kRequest:
        AddRequest(*tree::DecodeRequest(command), facts);
        break;
      case CommandKind::kSequencedRequest: {
        const tree::SequencedRequest sequenced = *tree::DecodeSequencedRequest(command);
        (*facts)["sequence"] = sequenced.sequence;
        (*facts)["acknowledged"] = sequenced.acknowledged;
        AddRequest(sequenced.request, facts);
        break;
      }
      case CommandKind::kCloseSession:
      case CommandKind::kExpireSession:
        break;
    }
  }

  void AddRequest(const tree::Request& request, ordered_json* facts) const {
    if (request.multi) (*facts)["multi"] = true;
    (*facts)["operations"] = ordered_json::array();
    for (const tree::Op& op : request.ops) {
      ordered_json one = {{"operation", NameOf(op.kind)}};
      SetText("path", op.path, &one);
      if (IsCreate(op.kind)) one["mode"] = NameOf(op.mode);
      if (op.kind == OpKind::kCreateTtl) one["ttl_ms"] = op.ttl_ms;
      if (!IsCreate(op.kind) && op.version != tree::kAnyVersion) one["version"] = op.version;
      if (op.with_parents) one["with_parents"] = true;
      if (op.kind == OpKind::kCheckCreated) one["created_zxid"] = op.created_zxid.value();
      if (op.kind == OpKind::kRefused) one["why"] = tree::ToString(op.refusal);
      if (IsCreate(op.kind) || op.kind == OpKind::kSetData) {
        one["data_bytes"] = op.data.size();
        if (shows_data_ && !op.has_data) one["data"] = nullptr;
        if (shows_data_ && op.has_data) SetText("data", op.data, &one);
      }
      (*facts)["operations"].push_back(std::move(one));
    }
    if (request.has_branches) AddBranches(request, facts);
  }

  // Adds the compares, and how many of the operations are those of the first branch.
  void AddBranches(const tree::Request& request, ordered_json* facts) const {
    (*facts)["then"] = request.then_count;
    (*facts)["compares"] = ordered_json::array();
    for (const tree::Compare& compare : request.compares) {
      ordered_json one = {{"target", NameOf(compare.target)},
                          {"relation", NameOf(compare.relation)}};
      SetText("path", compare.path, &one);
      if (compare.target != tree::CompareTarget::kValue) {
        one["number"] = compare.number;
      } else {
        one["data_bytes"] = compare.value.size();
        if (shows_data_) SetText("data", compare.value, &one);
      }
      (*facts)["compares"].push_back(std::move(one));
    }
  }

  const bool shows_data_;
};

// Returns the value of a text member that SetText has set.
std::string TextOf(const ordered_json& facts, const std::string& name) {
  if (facts.contains(name)) {
    return facts[name].is_null() ? "null" : Escape(facts[name].get<std::string>());
  }
  return "hex:" + facts[name + "_hex"].get<std::string>();
}

std::string OperationText(const ordered_json& operation) {
  std::string text =
      absl::StrCat(operation["operation"].get<std::string>(), " ", TextOf(operation, "path"));
  if (operation.contains("version")) {
    absl::StrAppend(&text, " version ", operation["version"].get<int64_t>());
  }
  if (operation.contains("created_zxid")) {
    absl::StrAppend(&text, " zxid ", operation["created_zxid"].get<int64_t>());
  }
  if (operation.contains("why")) {
    absl::StrAppend(&text, ": ", operation["why"].get<std::string>());
  }
  if (operation.contains("with_parents")) text += " with parents";
  if (operation.contains("mode") && operation["mode"] != "persistent") {
    absl::StrAppend(&text, " ", operation["mode"].get<std::string>());
  }
  if (operation.contains("ttl_ms")) {
    absl::StrAppend(&text, " of ", operation["ttl_ms"].get<int64_t>(), " ms");
  }
  if (operation.contains("data_bytes")) {
    absl::StrAppend(&text, " (", operation["data_bytes"].get<uint64_t>(), " bytes)");
  }
  if (operation.contains("data")) {
    absl::StrAppend(
        &text, " ",
        operation["data"].is_null() ? "null" : TextOrHex(operation["data"].get<std::string>()));
  } else if (operation.contains("data_hex")) {
    absl::StrAppend(&text, " hex:", operation["data_hex"].get<std::string>());
  }
  return text;
}

std::string CompareText(const ordered_json& compare) {
  std::string text =
      absl::StrCat(compare["target"].get<std::string>(), " of ", TextOf(compare, "path"), " ",
                   compare["relation"].get<std::string>(), " ");
  if (compare.contains("number")) {
    return absl::StrCat(text, compare["number"].get<int64_t>());
  }
  if (compare.contains("data") || compare.contains("data_hex")) {
    return text + TextOf(compare, "data");
  }
  return absl::StrCat(text, "(", compare["data_bytes"].get<uint64_t>(), " bytes)");
}

// Returns the line of an entry: "12 term 3 setData ...". The operations of a transaction follow on
// further lines.
std::string LineOf(const ordered_json& facts) {
  std::string line =
      absl::StrCat(facts["index"].get<uint64_t>(), "  term ", facts["term"].get<uint64_t>(), "  ");
  if (facts.contains("malformed")) {
    return absl::StrCat(line, "MALFORMED ", facts["kind"].get<std::string>(), ", ",
                        facts["bytes"].get<uint64_t>(), " bytes at offset ",
                        facts["offset"].get<uint64_t>(), ": ",
                        Escape(facts["malformed"].get<std::string>()));
  }
  if (facts.contains("time_ms")) {
    absl::StrAppend(&line, TimeText(facts["time_ms"].get<int64_t>()), "  session ",
                    facts["session"].get<std::string>(), "  ");
  }
  if (facts.contains("operations")) {
    const ordered_json& operations = facts["operations"];
    const bool is_multi = facts.contains("multi");
    if (is_multi) absl::StrAppend(&line, "multi of ", Count(operations.size(), "operation"));
    if (facts.contains("compares")) {
      for (const ordered_json& compare : facts["compares"]) {
        absl::StrAppend(&line, "\n    if ", CompareText(compare));
      }
    }
    size_t place = 0;
    for (const ordered_json& operation : operations) {
      if (facts.contains("then") && facts["then"] == place++) line += "\n   otherwise";
      absl::StrAppend(&line, is_multi ? "\n    " : "", OperationText(operation));
    }
    return line;
  }
  line += facts["kind"].get<std::string>();
  if (facts.contains("timeout_ms")) {
    absl::StrAppend(&line, " timeout ", facts["timeout_ms"].get<int64_t>(), " ms");
  }
  if (facts.contains("path") || facts.contains("path_hex")) line += " " + TextOf(facts, "path");
  if (facts.contains("cluster_id")) {
    absl::StrAppend(&line, ": cluster ", facts["cluster_id"].get<std::string>(), " begins");
  }
  if (facts.contains("membership")) line += " " + Escape(facts["membership"].get<std::string>());
  if (facts.contains("version")) {
    absl::StrAppend(&line, " ", facts["version"].get<uint64_t>());
  }
  return line;
}

// Writes items one after another, as lines or as elements of a JSON array.
class Writer {
 public:
  Writer(const LogDumpOptions& options, std::ostream& out)
      : options_(options), facts_(options.data), out_(out) {}

  void Begin(const consensus::RecoveredLog& log) {
    if (!options_.json) return;
    out_ << "{\n\"base_index\": " << log.base_index.value()
         << ",\n\"base_term\": " << log.base_term.value() << ",\n\"items\": [";
  }

  void Entry(const RecordView& entry, uint64_t offset) {
    if (entry.index.value() < options_.from || entry.index.value() > options_.to) return;
    const ordered_json facts = facts_.Of(entry, offset);
    options_.json ? Item(facts) : Line(LineOf(facts));
  }

  // Writes an item that is not an entry.
  void Note(std::string_view kind, const std::string& file, std::optional<uint64_t> offset,
            std::string_view what) {
    if (options_.json) {
      ordered_json item = {{std::string(kind), what}, {"file", file}};
      if (offset.has_value()) item["offset"] = *offset;
      return Item(item);
    }
    Line(absl::StrCat("-- ", ToAbsl(kind), ": ", Escape(file),
                      offset.has_value() ? absl::StrCat(" at offset ", *offset) : "", ": ",
                      Escape(what)));
  }

  void End() {
    if (options_.json) out_ << "\n]\n}\n";
  }

 private:
  void Line(const std::string& line) { out_ << line << '\n'; }
  void Item(const ordered_json& item) {
    out_ << separator_
         << item.dump(-1, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace);
    separator_ = ",\n";
  }

  const LogDumpOptions& options_;
  const EntryFacts facts_;
  std::ostream& out_;
  const char* separator_ = "\n";
};

void RecordDamage(const consensus::LogExamination& log, Writer* writer) {
  std::string_view what = ToStd(log.status.message());
  if (what.ends_with(consensus::kRejoinAdvice)) {
    what.remove_suffix(consensus::kRejoinAdvice.size());
  }
  if (log.damaged_path.empty()) return writer->Note("unreadable", "log", std::nullopt, what);
  if (what.starts_with(log.damaged_path + ": ")) what.remove_prefix(log.damaged_path.size() + 2);
  writer->Note("damage", log.damaged_path, log.damaged_offset, what);
}

// Writes the records of all files. Damage of the log is reported before or after the records of its
// file.
absl::Status WriteSegments(const consensus::LogExamination& log, Writer* writer) {
  bool noted = log.status.ok();
  for (size_t i = 0; i < log.segments.size(); ++i) {
    if (log.segments[i] == nullptr) continue;
    const consensus::Segment& segment = *log.segments[i];
    const bool is_damaged = !log.status.ok() && segment.path == log.damaged_path;
    const bool at_begin = log.damaged_offset.value_or(0) == 0;
    if (is_damaged && at_begin) {
      RecordDamage(log, writer);
      noted = true;
    }
    // Entries that a newer file replaces are not part of the log.
    const bool is_last = i + 1 == log.segments.size() || log.segments[i + 1] == nullptr;
    const Index end = is_last ? segment.next : log.segments[i + 1]->name.first;
    absl::Status status = ForEachEntry(segment, [&](const RecordView& entry, uint64_t offset) {
      if (entry.index < end) writer->Entry(entry, offset);
    });
    if (!status.ok()) return status;
    if (is_damaged && !at_begin) {
      RecordDamage(log, writer);
      noted = true;
    }
  }
  if (!noted) RecordDamage(log, writer);
  if (log.status.ok() && log.log.torn_bytes > 0) {
    const consensus::Segment& last = *log.segments.back();
    writer->Note("torn", last.path, last.end,
                 absl::StrCat(log.log.torn_bytes,
                              " bytes of what was being written when the server stopped; the next "
                              "start removes them"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DumpLog(const MemberPaths& paths, const LogDumpOptions& options, std::ostream& out) {
  consensus::Env* env = consensus::Env::PosixReadOnly();
  auto lock = MemberLock::Take(paths, env);
  if (!lock.ok()) return lock.status();
  const std::string log_path = paths.In(consensus::kLogName);
  if (!env->Exists(log_path)) {
    return absl::NotFoundError(absl::StrCat(
        log_path, ": does not exist; give a member's dataDir, and its dataLogDir with --log-dir"));
  }
  Index durable_index;
  const std::string hard_state_path = paths.In(consensus::kHardStateName);
  auto hard_state = consensus::HardStateFile::Examine(env, hard_state_path);
  if (hard_state.ok() && hard_state->newest().has_value()) {
    durable_index = hard_state->newest()->content.durable_index;
  }
  const consensus::LogExamination log = consensus::ExamineLog(env, log_path, durable_index);
  Writer writer(options, out);
  writer.Begin(log.log);
  absl::Status status = WriteSegments(log, &writer);
  writer.End();
  if (!status.ok()) return status;
  return log.status;
}

}  // namespace quorate::tools
