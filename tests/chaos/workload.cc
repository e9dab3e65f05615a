// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/workload.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/assert.h"

namespace quorate::chaos {
namespace {

constexpr char kRoot[] = "/chaos";
// The pause between two attempts.
constexpr int64_t kPauseNs = 100 * kNsInMs;
// How many final reads are under way at once.
constexpr size_t kTogether = 20;

}  // namespace

const std::vector<std::string>& WorkloadNames() {
  static const std::vector<std::string> names = {"register", "set",  "sequence",  "counter",
                                                 "append",   "bank", "ephemeral", "watch"};
  return names;
}

std::string RootOf(const std::string& workload) { return absl::StrCat(kRoot, "/", workload); }

std::unique_ptr<Workload> MakeWorkload(const std::string& name, Client* client, uint64_t seed,
                                       bool is_native) {
  if (name == "register") return MakeRegister(client, seed);
  if (name == "set") return MakeSet(client, seed);
  if (name == "sequence") return MakeSequence(client, seed);
  if (name == "counter") return MakeCounter(client, seed, is_native);
  if (name == "append") return MakeAppend(client, seed);
  if (name == "bank") return MakeBank(client, seed);
  if (name == "ephemeral") return MakeEphemeral(client, seed);
  ASSERT(name == "watch", "there is no other workload");
  return MakeWatch(client, seed, is_native);
}

bool Workload::Prepare(int64_t until_ns) {
  std::vector<std::pair<std::string, std::string>> nodes = Shared();
  nodes.insert(nodes.begin(), {{kRoot, ""}, {RootOf(name_), ""}});
  for (const auto& [path, data] : nodes) {
    Line outcome;
    if (!PerformFinally(Create(path, data), until_ns, &outcome)) return false;
  }
  return true;
}

Line Workload::Operation(std::string function, std::string path) const {
  Line operation;
  operation.workload = name_;
  operation.function = std::move(function);
  operation.path = std::move(path);
  return operation;
}

Line Workload::Get(std::string path, bool linearizable) const {
  Line operation = Operation("get", std::move(path));
  operation.linearizable = linearizable;
  return operation;
}

Line Workload::List(std::string path, bool linearizable) const {
  Line operation = Operation("list", std::move(path));
  operation.linearizable = linearizable;
  return operation;
}

Line Workload::Create(std::string path, std::string data, std::string mode) const {
  Line operation = Operation("create", std::move(path));
  operation.data = std::move(data);
  operation.mode = std::move(mode);
  return operation;
}

Line Workload::Set(std::string path, std::string data, int32_t version) const {
  Line operation = Operation("set", std::move(path));
  operation.data = std::move(data);
  operation.version = version;
  return operation;
}

Line Workload::Perform(Line operation) {
  return Perform(std::vector<Line>{std::move(operation)})[0];
}

std::vector<Line> Workload::Perform(std::vector<Line> operations) {
  operations_ += static_cast<int64_t>(operations.size());
  return client_->Perform(std::move(operations));
}

bool Workload::PerformFinally(Line operation, int64_t until_ns, Line* outcome) {
  for (;;) {
    *outcome = Perform(operation);
    const bool is_refused = outcome->what == What::kRefused && outcome->error != kNotSent;
    if (outcome->what == What::kOk || is_refused) return true;
    if (NowNs() >= until_ns) return false;
    client_->Idle(NowNs() + kPauseNs);
  }
}

bool Workload::PerformFinally(const std::vector<Line>& operations, int64_t until_ns) {
  for (size_t begin = 0; begin < operations.size(); begin += kTogether) {
    const size_t end = std::min(begin + kTogether, operations.size());
    const std::vector<Line> together(operations.begin() + static_cast<ptrdiff_t>(begin),
                                     operations.begin() + static_cast<ptrdiff_t>(end));
    const std::vector<Line> outcomes = Perform(together);
    for (size_t i = 0; i < together.size(); ++i) {
      Line outcome;
      const bool is_done = outcomes[i].what == What::kOk;
      if (!is_done && !PerformFinally(together[i], until_ns, &outcome)) return false;
    }
  }
  return true;
}

std::string Workload::NewToken() { return absl::StrCat(client_->number(), ".", ++tokens_); }

}  // namespace quorate::chaos
