// SPDX-License-Identifier: Apache-2.0

// Workloads register, set, sequence and append.

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/chaos/workload.h"

namespace quorate::chaos {
namespace {

using Nodes = std::vector<std::pair<std::string, std::string>>;

// "/chaos/NAME/0" to "/chaos/NAME/COUNT-1".
Nodes Numbered(const std::string& name, size_t count, const std::string& data = "") {
  Nodes nodes;
  for (size_t i = 0; i < count; ++i) nodes.emplace_back(absl::StrCat(RootOf(name), "/", i), data);
  return nodes;
}

class Register : public Workload {
 public:
  Register(Client* client, uint64_t seed) : Workload("register", client, seed) {}

  void Step() override {
    std::vector<Line> operations;
    // Several at once, so that connections break with more than one request under way.
    const size_t count = Chance(0.15) ? 2 + Below(4) : 1;
    for (size_t i = 0; i < count; ++i) operations.push_back(Any());
    const std::vector<Line> outcomes = Perform(operations);
    for (size_t i = 0; i < count; ++i) {
      if (outcomes[i].stat.has_value()) versions_[operations[i].path] = outcomes[i].stat->version;
      if (outcomes[i].error == "BadVersion") versions_.erase(operations[i].path);
    }
  }

  bool Finish(int64_t until_ns) override {
    std::vector<Line> reads;
    for (const auto& [path, data] : Shared()) reads.push_back(Get(path, true));
    return PerformFinally(reads, until_ns);
  }

 private:
  static constexpr size_t kRegisters = 24;
  // Half of the operations use these registers.
  static constexpr size_t kBusy = 4;

  Nodes Shared() const override { return Numbered(name(), kRegisters, "0"); }

  Line Any() {
    const size_t number = Below(Chance(0.5) ? kBusy : kRegisters);
    const std::string path = absl::StrCat(RootOf(name()), "/", number);
    const size_t dice = Below(100);
    if (dice < 25) return Get(path, true);
    if (dice < 50) return Get(path, false);
    if (dice < 55) return Operation("exists", path);
    if (dice < 58) return Operation("sync", path);
    const auto known = versions_.find(path);
    const bool with_version = dice < 80 && known != versions_.end();
    return Set(path, NewToken(), with_version ? known->second : -1);
  }

  std::map<std::string, int32_t> versions_;  // last seen
};

class Set : public Workload {
 public:
  Set(Client* client, uint64_t seed) : Workload("set", client, seed) {}

  void Step() override {
    const std::string parent = absl::StrCat(RootOf(name()), "/", Below(kParents));
    const size_t dice = Below(200);
    if (dice < 4) {
      Perform(List(parent, dice < 2));
    } else if (dice < 14 && !made_.empty()) {
      Line exists = Operation("exists", made_);
      exists.linearizable = Chance(0.3);
      Perform(exists);
    } else if (dice < 24) {
      CreateTwo(parent);
    } else {
      const std::string token = NewToken();
      const Line outcome = Perform(Create(absl::StrCat(parent, "/", token), token));
      if (outcome.what == What::kOk) made_ = outcome.path;
    }
  }

  bool Finish(int64_t until_ns) override {
    std::vector<Line> reads;
    for (const auto& [path, data] : Shared()) reads.push_back(List(path, true));
    return PerformFinally(reads, until_ns);
  }

 private:
  static constexpr size_t kParents = 8;
  static constexpr int32_t kNoVersion = 1000;  // a version that no parent has

  // Creates two nodes or none.
  void CreateTwo(const std::string& parent) {
    Line multi = Operation("multi");
    for (int i = 0; i < 2; ++i) {
      const std::string token = NewToken();
      multi.steps.push_back({"create", absl::StrCat(parent, "/", token), token, -1, "persistent"});
    }
    if (Chance(0.33)) multi.steps.push_back({"check", parent, "", kNoVersion, ""});
    const Line outcome = Perform(multi);
    if (outcome.what == What::kOk) made_ = outcome.results[0].path;
  }

  Nodes Shared() const override { return Numbered(name(), kParents); }

  std::string made_;  // last
};

class Sequence : public Workload {
 public:
  Sequence(Client* client, uint64_t seed) : Workload("sequence", client, seed) {}

  void Step() override {
    const std::string parent = absl::StrCat(RootOf(name()), "/", Below(kParents));
    const size_t dice = Below(100);
    if (dice < 6) {
      Perform(List(parent, dice < 3));
    } else if (dice < 45 && !own_.empty()) {
      // The name must not be given again.
      const std::string path = *std::next(own_.begin(), static_cast<ptrdiff_t>(Below(own_.size())));
      if (Perform(Operation("delete", path)).what != What::kUnknown) own_.erase(path);
    } else {
      std::vector<Line> operations;
      const size_t count = Chance(0.2) ? 2 + Below(3) : 1;
      for (size_t i = 0; i < count; ++i) {
        // A unique prefix makes it possible to count the nodes of each creation.
        const std::string token = NewToken();
        operations.push_back(Create(absl::StrCat(parent, "/", token, "-"), token, "sequential"));
      }
      for (const Line& outcome : Perform(operations)) {
        if (outcome.what == What::kOk) own_.insert(outcome.path);
      }
    }
  }

  bool Finish(int64_t until_ns) override {
    std::vector<Line> reads;
    for (const auto& [path, data] : Shared()) reads.push_back(List(path, true));
    return PerformFinally(reads, until_ns);
  }

 private:
  static constexpr size_t kParents = 4;

  Nodes Shared() const override { return Numbered(name(), kParents); }

  std::set<std::string> own_;
};

class Append : public Workload {
 public:
  Append(Client* client, uint64_t seed) : Workload("append", client, seed) {}

  void Step() override {
    const size_t log = Below(kLogs);
    const std::string path = absl::StrCat(RootOf(name()), "/", log, ".", generations_[log]);
    const Line read = Perform(Get(path, Chance(0.3)));
    if (read.error == "NoNode") {
      Perform(Create(path, ""));
    } else if (read.what == What::kOk && read.data.size() > kLogBytesMax) {
      ++generations_[log];
    } else if (read.what == What::kOk && Chance(0.8)) {
      const char* const blank = read.data.empty() ? "" : " ";
      Perform(Set(path, absl::StrCat(read.data, blank, NewToken()), read.stat->version));
    }
  }

  bool Finish(int64_t until_ns) override {
    Line logs;
    if (!PerformFinally(List(RootOf(name()), true), until_ns, &logs)) return false;
    std::vector<Line> reads;
    for (const std::string& child : logs.children) {
      reads.push_back(Get(absl::StrCat(RootOf(name()), "/", child), true));
    }
    return PerformFinally(reads, until_ns);
  }

 private:
  static constexpr size_t kLogs = 3;
  static constexpr size_t kLogBytesMax = 2000;

  Nodes Shared() const override { return {}; }

  size_t generations_[kLogs] = {};
};

}  // namespace

std::unique_ptr<Workload> MakeRegister(Client* client, uint64_t seed) {
  return std::make_unique<Register>(client, seed);
}
std::unique_ptr<Workload> MakeSet(Client* client, uint64_t seed) {
  return std::make_unique<Set>(client, seed);
}
std::unique_ptr<Workload> MakeSequence(Client* client, uint64_t seed) {
  return std::make_unique<Sequence>(client, seed);
}
std::unique_ptr<Workload> MakeAppend(Client* client, uint64_t seed) {
  return std::make_unique<Append>(client, seed);
}

}  // namespace quorate::chaos
