// SPDX-License-Identifier: Apache-2.0

// Workloads counter and bank.

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tests/chaos/workload.h"

namespace quorate::chaos {
namespace {

using Nodes = std::vector<std::pair<std::string, std::string>>;

// The number before the token.
int64_t NumberOf(const std::string& data) { return std::strtoll(data.c_str(), nullptr, 10); }

class Counter : public Workload {
 public:
  Counter(Client* client, uint64_t seed, bool can_add)
      : Workload("counter", client, seed), can_add_(can_add) {}

  void Step() override {
    const std::string path = absl::StrCat(RootOf(name()), "/", Below(kCounters));
    if (can_add_ && Chance(0.5)) {
      Line add = Operation("add", absl::StrCat(RootOf(name()), "/", Below(kAdded)));
      add.delta = 1;
      Perform(add);
      return;
    }
    const Line read = Perform(Get(path, Chance(0.3)));
    if (read.what != What::kOk || Chance(0.2)) return;
    Perform(Workload::Set(path, absl::StrCat(NumberOf(read.data) + 1, " ", NewToken()),
                          read.stat->version));
  }

  bool Finish(int64_t until_ns) override {
    std::vector<Line> reads;
    for (const auto& [path, data] : Shared()) reads.push_back(Get(path, true));
    return PerformFinally(reads, until_ns);
  }

 private:
  static constexpr size_t kCounters = 4;
  // The first counters are changed by "add"; of the others each value is known, as of registers.
  static constexpr size_t kAdded = 2;

  Nodes Shared() const override {
    Nodes nodes;
    for (size_t i = 0; i < kCounters; ++i) {
      nodes.emplace_back(absl::StrCat(RootOf(name()), "/", i), "0");
    }
    return nodes;
  }

  const bool can_add_;
};

class Bank : public Workload {
 public:
  Bank(Client* client, uint64_t seed) : Workload("bank", client, seed) {}

  void Step() override {
    const Line read = Perform(GetAll(Chance(0.3)));
    if (read.what != What::kOk || Chance(0.3)) return;
    const std::vector<Result>& accounts = read.results;
    const size_t from = Below(kAccounts);
    const size_t to = (from + 1 + Below(kAccounts - 1)) % kAccounts;
    if (!accounts[from].stat.has_value() || !accounts[to].stat.has_value()) return;
    const int64_t balance = NumberOf(accounts[from].data);
    if (balance <= 0) return;
    const int64_t amount = random().Between(1, balance);
    Line transfer = Operation("multi");
    transfer.steps = {Change(from, accounts[from], -amount), Change(to, accounts[to], amount)};
    // This check fails, so neither account may change.
    if (Chance(0.1)) {
      transfer.steps.push_back(
          {"check", PathOf(from), "", accounts[from].stat->version + 1000, ""});
    }
    Perform(transfer);
  }

  bool Finish(int64_t until_ns) override { return PerformFinally({GetAll(true)}, until_ns); }

 private:
  static constexpr size_t kAccounts = 6;

  std::string PathOf(size_t account) const { return absl::StrCat(RootOf(name()), "/", account); }

  Nodes Shared() const override {
    Nodes nodes;
    for (size_t i = 0; i < kAccounts; ++i) nodes.emplace_back(PathOf(i), "100");
    return nodes;
  }

  Line GetAll(bool linearizable) const {
    Line operation = Operation("multi-get");
    operation.linearizable = linearizable;
    for (size_t i = 0; i < kAccounts; ++i) operation.paths.push_back(PathOf(i));
    return operation;
  }

  chaos::Step Change(size_t account, const Result& read, int64_t amount) {
    return {"set", PathOf(account), absl::StrCat(NumberOf(read.data) + amount, " ", NewToken()),
            read.stat->version, ""};
  }
};

}  // namespace

std::unique_ptr<Workload> MakeCounter(Client* client, uint64_t seed, bool is_native) {
  return std::make_unique<Counter>(client, seed, is_native);
}
std::unique_ptr<Workload> MakeBank(Client* client, uint64_t seed) {
  return std::make_unique<Bank>(client, seed);
}

}  // namespace quorate::chaos
