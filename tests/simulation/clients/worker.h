// SPDX-License-Identifier: Apache-2.0

// The work of one simulated client: a mix of operations that a seed chooses.
//
// Thread-safety: none; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/checkers/checkers.h"
#include "tests/simulation/clients/client.h"
#include "tests/simulation/clients/keeper_choices.h"
#include "tests/simulation/clients/operation.h"
#include "tests/simulation/random.h"
#include "tests/simulation/sim_environment.h"

namespace quorate::simulation {

// The kinds of actions of a client.
enum class Action : uint8_t {
  kRegisterWrite,
  kRegisterSwap,  // succeeds only at the version that was last seen
  kRegisterRead,  // sync and read
  kRead,
  kTreeWrite,
  kQueuePut,
  kQueueTake,
  kEphemeral,
  kTransfer,
  kAudit,
  kMulti,
  kBurst,
  kLargeValue,
  kMove,
  kCloseSession,
  kAbandon,
  kSleep,  // until the session may have ended
};
inline constexpr size_t kActionCount = 17;

// What all workers of a run share.
struct Playground {
  // How often each action is chosen, relative to the others.
  std::array<uint64_t, kActionCount> weights{};
  double operation_rate = 20;  // of one worker, per second
  double watch_chance = 0.3;   // of a read
  size_t outstanding_max = 64;
  size_t large_bytes_max = 100'000;

  size_t ballast_nodes = 0;
  size_t ballast_bytes = 0;  // of each

  size_t register_count = 0;
  size_t current_register = 0;
  bool set_up = false;
  bool quiet = false;
  bool uses_keeper = false;  // clients also make the operations of ClickHouse Keeper

  static std::string Register(size_t number);
  static std::string Account(size_t number);
  static std::vector<std::string> Accounts();
  static std::string ProofPath(size_t worker);
};

inline constexpr int64_t kOpeningBalance = 100;
inline constexpr size_t kAccountCount = 4;
inline constexpr char kRegisterPrefix[] = "/reg/";
inline constexpr char kRegisterValue[] = "initial";
inline constexpr char kQueuePath[] = "/queue";
inline constexpr char kEphemeralPath[] = "/eph";
inline constexpr char kTreePath[] = "/tree";

// Weights in which some actions are frequent, some rare and some missing.
std::array<uint64_t, kActionCount> ChooseWeights(Random& random);
// Makes the actions that have variants with operations of ClickHouse Keeper more frequent.
void FavorKeeper(std::array<uint64_t, kActionCount>* weights);
// Creates the nodes that a run begins with, in one multi.
Request MakeSetUp(const Playground& playground, size_t worker_count);

class Worker {
 public:
  // The objects behind pointers must outlive the worker. With `only_looks` it only syncs and reads,
  // so that no write of its own delays what a server without contact with the others answers.
  Worker(SimEnvironment* environment, Endpoint* endpoint, Checkers* checkers,
         Playground* playground, const ClientSettings& settings, size_t worker_count,
         bool only_looks);

  void Start();

  enum class QuietStage {
    kWorking,  // works, or has to prove again that its session is usable
    kProving,
    kProved,  // a write in its session was answered
    kReading,
    kDone,  // the client has also received all events of the writes
  };
  // After Playground::quiet: advances to the next stage, if possible. `all_proved`: no client will
  // write any more.
  void StepQuiet(bool all_proved);
  QuietStage quiet_stage() const;
  bool only_looks() const { return only_looks_; }
  // Moves to this member, if possible.
  void LookAt(size_t member);
  // Sends `writes` writes of full size at once.
  void WriteLarge(size_t writes);
  const Client& client() const { return client_; }

 private:
  void Loop();
  void SetUp();
  void Do(Action action);
  void Look();
  void Submit(Request request, Client::Done done = nullptr);

  void WriteRegister(bool swap);
  void ReadRegister();
  void Read();
  void WriteTree();
  void TakeFromQueue();
  void UseEphemeral();
  void Transfer();
  void TransferNow(size_t from, size_t to);
  void Audit();
  void DoMulti();
  void Burst();
  void UseLargeValue();

  // Whether an operation of ClickHouse Keeper should be made in the place of another.
  bool PicksKeeper(double probability);
  // Returns text that no other write contains.
  std::string NewValue();
  std::string PickRegister();
  std::string PickTreePath();
  std::string PickPath();
  Step PickTreeStep();
  int32_t PickVersion();

  SimEnvironment* const environment_;
  Checkers* const checkers_;
  Playground* const playground_;
  const size_t worker_count_;
  const bool only_looks_;
  Random& random_;
  Client client_;
  uint64_t values_ = 0;
  bool setting_up_ = false;
  struct Seen {
    int32_t version = 0;
    std::string data;
  };
  std::map<std::string, Seen> seen_;  // registers and accounts, as last read
  std::optional<KeeperChoices> keeper_;
  QuietStage quiet_stage_ = QuietStage::kWorking;
  LinkId quiet_link_ = 0;  // the link on which the stage was reached
};

}  // namespace quorate::simulation
