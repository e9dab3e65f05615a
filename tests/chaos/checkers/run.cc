// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/checkers/run.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace quorate::chaos {
namespace {

constexpr std::array<std::string_view, 12> kFunctions = {"get",       "exists", "list", "create",
                                                         "set",       "delete", "sync", "multi",
                                                         "multi-get", "watch",  "add",  "close"};

std::optional<Function> FunctionOf(std::string_view name) {
  const auto found = std::find(kFunctions.begin(), kFunctions.end(), name);
  if (found == kFunctions.end()) return std::nullopt;
  return static_cast<Function>(found - kFunctions.begin());
}

Outcome OutcomeOf(What what) {
  return what == What::kOk        ? Outcome::kOk
         : what == What::kRefused ? Outcome::kRefused
                                  : Outcome::kUnknown;
}

}  // namespace

bool Operation::IsWrite() const {
  switch (function) {
    case Function::kCreate:
    case Function::kSet:
    case Function::kDelete:
    case Function::kMulti:
    case Function::kAdd:
      return true;
    default:
      return false;
  }
}

int64_t Operation::WriteZxid() const {
  if (!ok() || !IsWrite()) return 0;
  if (stat) return function == Function::kCreate ? stat->czxid : stat->mzxid;
  for (const RunStep& step : steps) {
    if (step.stat && !step.check) return step.stat->mzxid;
  }
  return zxid;
}

std::string_view Run::Keep(const std::string& text) {
  if (text.empty()) return {};
  return *texts_.insert(text).first;
}

size_t Run::ClientOf(int32_t number) {
  const auto [at, fresh] = client_by_number_.emplace(number, clients_.size());
  if (fresh) {
    clients_.push_back({number, {}});
    session_of_client_.push_back(kNone);
  }
  return at->second;
}

absl::Status Run::AddFile(const std::string& path) {
  auto reader = HistoryReader::Open(path);
  if (!reader.ok()) return reader.status();
  const auto file = static_cast<int32_t>(files_.size());
  files_.push_back(path);
  while (true) {
    Line line;
    const absl::StatusOr<bool> more = (*reader)->Next(&line);
    if (!more.ok()) return more.status();
    if (!*more) return absl::OkStatus();
    const absl::Status status = Add(line, {file, (*reader)->offset()});
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", (*reader)->line_number(), ": ", status.message()));
    }
  }
}

absl::Status Run::Add(const Line& line, LineId id) {
  ++lines_;
  first_ns_ = std::min(first_ns_, line.time_ns);
  int64_t& last_sign = last_sign_[line.process];
  last_sign = std::max(last_sign, line.time_ns);
  const size_t client = ClientOf(line.client);
  switch (line.what) {
    case What::kInvoke:
      return AddInvoke(line, id, client);
    case What::kOk:
    case What::kRefused:
    case What::kUnknown:
      return AddAnswer(line, id);
    case What::kEvent:
    case What::kWatchReset:
      clients_[client].lines.push_back(
          {line.what, id, line.time_ns, session_of_client_[client], events_.size()});
      events_.push_back(
          {id, line.time_ns, Keep(line.path), Keep(line.type), line.zxid, line.watch});
      return absl::OkStatus();
    default:
      AddSessionLine(line, id, client);
      return absl::OkStatus();
  }
}

absl::Status Run::AddInvoke(const Line& line, LineId id, size_t client) {
  const std::optional<Function> function = FunctionOf(line.function);
  if (!function) {
    return absl::InvalidArgumentError(absl::StrCat("unknown function: ", line.function));
  }
  if (!open_.emplace(std::pair(line.process, line.operation), operations_.size()).second) {
    return absl::InvalidArgumentError(
        absl::StrCat("operation ", line.operation, " is invoked a second time"));
  }
  Operation operation;
  operation.id = operations_.size();
  operation.invoked_line = id;
  operation.invoked_ns = line.time_ns;
  operation.client = line.client;
  operation.function = *function;
  operation.linearizable = line.linearizable;
  operation.ephemeral = line.mode.starts_with("ephemeral");
  operation.sequential = line.mode.ends_with("sequential");
  operation.version = line.version;
  operation.session = session_of_client_[client];
  operation.workload = Keep(line.workload);
  operation.path = Keep(line.path);
  operation.written = Keep(line.data);
  operation.kind = Keep(line.kind);
  operation.delta = line.delta;
  operation.watch = line.watch;
  for (const std::string& path : line.paths) {
    operation.steps.emplace_back().path = Keep(path);
  }
  for (const Step& step : line.steps) {
    RunStep& to = operation.steps.emplace_back();
    to.check = step.function == "check";
    const std::optional<Function> of = FunctionOf(step.function);
    if (!of && !to.check) {
      return absl::InvalidArgumentError(absl::StrCat("unknown step: ", step.function));
    }
    to.function = of.value_or(Function::kGet);
    to.path = Keep(step.path);
    to.data = Keep(step.data);
    to.version = step.version;
    to.ephemeral = step.mode.starts_with("ephemeral");
    to.sequential = step.mode.ends_with("sequential");
  }
  clients_[client].lines.push_back({line.what, id, line.time_ns, operation.session, operation.id});
  if (operation.session != kNone) {
    sessions_[operation.session].operations.push_back(operation.id);
  }
  operations_.push_back(std::move(operation));
  return absl::OkStatus();
}

absl::Status Run::AddAnswer(const Line& line, LineId id) {
  const auto open = open_.find(std::pair(line.process, line.operation));
  if (open == open_.end() || open->second == kNone) {
    return absl::InvalidArgumentError(
        absl::StrCat("operation ", line.operation, " is answered and not under way"));
  }
  Operation& operation = operations_[std::exchange(open->second, kNone)];
  if (operation.client != line.client) {
    return absl::InvalidArgumentError(
        absl::StrCat("operation ", line.operation, " is answered to another client"));
  }
  operation.outcome = OutcomeOf(line.what);
  operation.answered_line = id;
  operation.answered_ns = line.time_ns;
  operation.made = Keep(line.path);
  operation.read = Keep(line.data);
  operation.error = Keep(line.error);
  operation.zxid = line.zxid;
  operation.value = line.value;
  operation.stat = line.stat;
  if (line.watch != 0) operation.watch = line.watch;
  for (const std::string& child : line.children) operation.children.push_back(Keep(child));
  if (operation.ok() && !operation.steps.empty() && line.results.size() != operation.steps.size()) {
    return absl::InvalidArgumentError(absl::StrCat("operation ", line.operation, " has ",
                                                   operation.steps.size(), " steps and ",
                                                   line.results.size(), " results"));
  }
  for (size_t i = 0; operation.ok() && i < line.results.size(); ++i) {
    RunStep& step = operation.steps[i];
    if (operation.function == Function::kMultiGet) step.data = Keep(line.results[i].data);
    step.made = Keep(line.results[i].path);
    step.stat = line.results[i].stat;
    step.error = Keep(line.results[i].error);
  }
  const size_t client = ClientOf(line.client);
  clients_[client].lines.push_back({line.what, id, line.time_ns, operation.session, operation.id});
  if (operation.ok() && operation.session != kNone) {
    Session& session = sessions_[operation.session];
    session.answered_ns = std::max(session.answered_ns, operation.invoked_ns);
  }
  return absl::OkStatus();
}

void Run::AddSessionLine(const Line& line, LineId id, size_t client) {
  size_t& current = session_of_client_[client];
  if (line.what == What::kConnected &&
      (current == kNone || sessions_[current].id != line.session || line.new_session)) {
    current = sessions_.size();
    Session& session = sessions_.emplace_back();
    session.id = line.session;
    session.client = line.client;
    session.process = line.process;
    session.native = line.frontend == "native";
    session.began_line = id;
  }
  clients_[client].lines.push_back({line.what, id, line.time_ns, current, kNone});
  if (current == kNone) return;
  Session& session = sessions_[current];
  session.answered_ns = std::max(session.answered_ns, line.answered_ns);
  if (line.timeout_ms > 0) session.timeout_ms = line.timeout_ms;
  const SessionEnd end = line.what == What::kClosed      ? SessionEnd::kClosed
                         : line.what == What::kExpired   ? SessionEnd::kExpired
                         : line.what == What::kAbandoned ? SessionEnd::kAbandoned
                                                         : SessionEnd::kUnseen;
  if (end == SessionEnd::kUnseen) return;
  session.end = end;
  session.end_ns = line.time_ns;
  session.end_line = id;
  current = kNone;
}

void Run::Finish() {
  open_.clear();
  BoundUnknown();
  // Sorts operations by invocation, and updates all references to them.
  std::vector<size_t> order(operations_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return operations_[a].invoked_ns < operations_[b].invoked_ns;
  });
  std::vector<size_t> rank(order.size());
  for (size_t i = 0; i < order.size(); ++i) rank[order[i]] = i;
  std::vector<Operation> sorted;
  sorted.reserve(order.size());
  for (size_t i : order) sorted.push_back(std::move(operations_[i]));
  operations_ = std::move(sorted);
  for (Operation& operation : operations_) operation.id = rank[operation.id];
  for (Session& session : sessions_) {
    for (size_t& id : session.operations) id = rank[id];
  }
  for (Client& client : clients_) {
    for (ClientLine& line : client.lines) {
      if (line.what <= What::kUnknown) line.index = rank[line.index];
    }
  }
}

// The operations of a session take effect in order: an unknown one has happened by the time at
// which a later one of the session is answered, or the session's end is known, or it never happens.
void Run::BoundUnknown() {
  for (const Session& session : sessions_) {
    int64_t until_ns = kNever;
    if (session.end == SessionEnd::kClosed || session.end == SessionEnd::kExpired) {
      until_ns = session.end_ns;
    }
    for (size_t i = session.operations.size(); i > 0; --i) {
      Operation& operation = operations_[session.operations[i - 1]];
      if (operation.outcome == Outcome::kUnknown) operation.until_ns = until_ns;
      if (operation.ok()) until_ns = std::min(until_ns, operation.answered_ns);
    }
  }
}

int64_t Run::LastSignOf(int32_t process) const {
  const auto found = last_sign_.find(process);
  return found == last_sign_.end() ? 0 : found->second;
}

std::string Run::TextOf(const LineId& line) const {
  if (line.file < 0) return {};
  std::ifstream file(files_.at(static_cast<size_t>(line.file)));
  file.seekg(line.offset);
  std::string text;
  std::getline(file, text);
  return text;
}

}  // namespace quorate::chaos
