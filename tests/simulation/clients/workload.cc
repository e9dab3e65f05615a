// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/clients/workload.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/assert.h"
#include "tests/simulation/checkers/checkers.h"
#include "tests/simulation/clients/native_client.h"
#include "tests/simulation/clients/worker.h"

namespace quorate::simulation {
namespace {

constexpr size_t kRegisterCount = 40;
constexpr int64_t kQuietStepUs = 20'000;
// The probability that an onlooker moves to a new leader, and the delay until it does.
constexpr double kFollowsChance = 0.7;
constexpr int64_t kFollowAfterUs = 1'000'000;
// The interval at which all clients send large writes together, and how many each sends.
constexpr int64_t kLargeWritesUs = 1'000'000;
constexpr size_t kLargeWritesAtOnce = 4;

CheckerSettings SettingsOf(const Options& options) {
  CheckerSettings settings;
  settings.accounts = Playground::Accounts();
  settings.sum = kOpeningBalance * static_cast<int64_t>(kAccountCount);
  settings.register_prefix = kRegisterPrefix;
  settings.register_value = kRegisterValue;
  settings.sequence_parents = {kQueuePath, kEphemeralPath};
  settings.clock_drift_max = options.member.clock_drift_max;
  // At a tick, servers count the time that has passed, but at most the time for which a leader may
  // sleep, with a tick to spare (rpc/member/replica.cc).
  settings.unnoticed_us =
      (options.limits.heartbeat_ticks + 1) * int64_t{options.limits.tick_ms} * 1000;
  return settings;
}

class MixedWorkload : public Workload, public ServerObserver {
 public:
  MixedWorkload(SimEnvironment* environment, Endpoint* endpoint, const Options& options,
                Endpoint* native)
      : environment_(environment), options_(options), checkers_(environment, SettingsOf(options)) {
    environment->AddObserver(this);
    Random& random = environment->random("workload");
    playground_.weights = ChooseWeights(random);
    playground_.uses_keeper = options.clients.uses_keeper;
    if (playground_.uses_keeper) FavorKeeper(&playground_.weights);
    playground_.operation_rate = options.clients.operation_rate;
    playground_.watch_chance = random.Unit() * 0.6;
    playground_.outstanding_max = static_cast<size_t>(random.Between(1, 100));
    playground_.large_bytes_max = random.Chance(0.2) ? 500'000 : 20'000;
    if (options.clients.large_write_bytes > 0) {
      playground_.large_bytes_max = options.clients.large_write_bytes;
      playground_.weights[static_cast<size_t>(Action::kLargeValue)] = 0;
    }
    playground_.register_count = kRegisterCount;
    playground_.ballast_nodes = options.clients.ballast_nodes;
    playground_.ballast_bytes = options.clients.ballast_bytes;
    const ClientOptions& limits = options.clients;
    for (size_t i = 0; i < limits.count; ++i) {
      ClientSettings settings;
      settings.number = i;
      // Mostly short timeouts, so that sessions end; some outside the servers' limits.
      settings.timeout_ms = static_cast<int32_t>(
          random.Chance(0.8)
              ? random.Between(limits.min_session_timeout_ms, 2 * limits.min_session_timeout_ms)
              : random.Between(limits.min_session_timeout_ms / 2,
                               limits.max_session_timeout_ms * 3 / 2));
      settings.set_watches_has_own_xid = random.Chance(0.5);
      settings.sends_read_only_flag = random.Chance(0.7);
      settings.remembers_zxid = random.Chance(0.5);
      // The first worker creates the nodes that all use, so it is no onlooker.
      const bool only_looks =
          i > 0 && environment->random("onlookers").Chance(limits.onlooker_chance);
      workers_.push_back(std::make_unique<Worker>(environment, endpoint, &checkers_, &playground_,
                                                  settings, limits.count, only_looks));
    }
    AddNativeClients(native);
  }

  // An onlooker moves to each new leader, so that it is there when the others lose contact with
  // that leader; but with a delay, so that it stays with the former leader while that one thinks it
  // leads.
  void OnLeads(size_t member, consensus::Term) override {
    for (auto& worker : workers_) {
      if (!worker->only_looks() || !environment_->random("onlookers").Chance(kFollowsChance))
        continue;
      environment_->After(kFollowAfterUs,
                          [worker = worker.get(), member] { worker->LookAt(member); });
    }
  }

  void Start() override {
    for (auto& worker : workers_) worker->Start();
    for (auto& client : native_clients_) client->Start();
    if (options_.clients.large_write_bytes > 0) WriteLargeLater();
  }

  void BeginQuiet() override {
    ASSERT(!playground_.quiet);
    playground_.quiet = true;
    // Sessions that timed out while the servers were in trouble may still expire during this time.
    const int64_t settle_us = 3 * options_.clients.max_session_timeout_ms * int64_t{1000};
    checkers_.sessions().BeginSteadyPeriod(settle_us);
    checkers_.native().BeginSteadyPeriod(settle_us);
    for (auto& client : native_clients_) client->BeginQuiet();
    StepQuiet();
  }

  bool Idle() const override {
    return playground_.quiet && checkers_.sessions().LingeringSessions().empty() &&
           std::all_of(workers_.begin(), workers_.end(),
                       [](const auto& worker) {
                         return worker->quiet_stage() == Worker::QuietStage::kDone;
                       }) &&
           NativeClientsHaveReached(NativeClient::QuietStage::kDone);
  }

  std::string Describe() const override {
    std::vector<std::string> waiting;
    for (const auto& worker : workers_) {
      if (worker->quiet_stage() == Worker::QuietStage::kDone) continue;
      waiting.push_back(worker->client().Describe());
    }
    for (const auto& client : native_clients_) {
      if (client->quiet_stage() != NativeClient::QuietStage::kDone) {
        waiting.push_back(client->Describe());
      }
    }
    for (int64_t session : checkers_.sessions().LingeringSessions()) {
      waiting.push_back(absl::StrCat("session ", session, " was abandoned and has not ended"));
    }
    return absl::StrJoin(waiting, "; ");
  }

  void CheckFinal() override {
    std::set<int64_t> living;
    for (const auto& worker : workers_) living.insert(worker->client().session());
    for (const auto& client : native_clients_) living.insert(client->session());
    checkers_.CheckFinal(living);
  }

 private:
  void AddNativeClients(Endpoint* native) {
    const ClientOptions& limits = options_.clients;
    if (limits.native_count == 0) return;
    ASSERT(native != nullptr);
    Random& random = environment_->random("native workload");
    for (size_t i = 0; i < limits.native_count; ++i) {
      NativeSettings settings;
      settings.number = limits.count + i;
      settings.place = i;
      settings.count = limits.native_count;
      settings.timeout_ms = static_cast<int32_t>(
          random.Between(limits.min_session_timeout_ms, limits.max_session_timeout_ms / 2));
      settings.operation_rate = limits.operation_rate;
      settings.outstanding_max = static_cast<size_t>(random.Between(1, 50));
      settings.remembers_zxid = random.Chance(0.5);
      settings.makes_transactions = limits.makes_transactions;
      native_clients_.push_back(std::make_unique<NativeClient>(
          environment_, native, &checkers_.history(), &checkers_.native(), settings));
    }
  }

  // The native protocol is available once all members are known to support it, which broken members
  // may prevent: until then the run does not wait for native clients.
  bool NativeClientsHaveReached(NativeClient::QuietStage stage) const {
    const bool served = std::any_of(native_clients_.begin(), native_clients_.end(),
                                    [](const auto& client) { return client->has_had_session(); });
    return !served ||
           std::all_of(native_clients_.begin(), native_clients_.end(),
                       [&](const auto& client) { return client->quiet_stage() >= stage; });
  }

  void WriteLargeLater() {
    environment_->After(kLargeWritesUs, [this] {
      for (auto& worker : workers_) worker->WriteLarge(kLargeWritesAtOnce);
      if (!playground_.quiet) WriteLargeLater();
    });
  }

  void StepQuiet() {
    const bool all_proved =
        checkers_.sessions().LingeringSessions().empty() &&
        std::all_of(workers_.begin(), workers_.end(),
                    [](const auto& worker) {
                      return worker->quiet_stage() >= Worker::QuietStage::kProved;
                    }) &&
        NativeClientsHaveReached(NativeClient::QuietStage::kProved);
    for (auto& worker : workers_) worker->StepQuiet(all_proved);
    for (auto& client : native_clients_) client->StepQuiet(all_proved);
    environment_->After(kQuietStepUs, [this] { StepQuiet(); });
  }

  SimEnvironment* const environment_;
  const Options options_;
  Checkers checkers_;
  Playground playground_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<NativeClient>> native_clients_;
};

}  // namespace

std::unique_ptr<Workload> MakeWorkload(SimEnvironment* environment, Endpoint* endpoint,
                                       const Options& options, Endpoint* native) {
  return std::make_unique<MixedWorkload>(environment, endpoint, options, native);
}

}  // namespace quorate::simulation
