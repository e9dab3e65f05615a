// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/clients/worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace quorate::simulation {
namespace {

using tree::CreateMode;
using tree::ErrorCode;

constexpr char kProofPath[] = "/proof";
constexpr char kLargePath[] = "/large";
constexpr char kBankPath[] = "/bank";
constexpr char kBallastPath[] = "/ballast";
// After so many operations on a register the workers use the next one: this keeps the search for an
// order short and contention high.
constexpr size_t kRegisterOperationsMax = 100;
// How often per second an onlooker reads: several times during an election.
constexpr double kLookRate = 50;
constexpr size_t kEphemeralNames = 5;
constexpr size_t kBurstMax = 50;
// How many nodes have large values. With ClickHouse Keeper's operations there are more, so that
// servers read a list of them with their data in pieces.
constexpr size_t kLargeNames = 3;
constexpr size_t kKeeperLargeNames = 8;
// The longest sleep: workers do not wait for longer timeouts.
constexpr int64_t kSleepUsMax = 15'000'000;

bool IsAnswered(const Operation& operation, ErrorCode error) {
  return operation.outcome == Outcome::kAnswered && operation.reply.error == error;
}

bool IsOk(const Operation& operation) { return IsAnswered(operation, ErrorCode::kOk); }

}  // namespace

std::string Playground::Register(size_t number) {
  return absl::StrFormat("%s%03d", kRegisterPrefix, number);
}

std::string Playground::Account(size_t number) { return absl::StrCat(kBankPath, "/", number); }

std::vector<std::string> Playground::Accounts() {
  std::vector<std::string> accounts;
  for (size_t i = 0; i < kAccountCount; ++i) accounts.push_back(Account(i));
  return accounts;
}

std::string Playground::ProofPath(size_t worker) { return absl::StrCat(kProofPath, "/", worker); }

std::array<uint64_t, kActionCount> ChooseWeights(Random& random) {
  std::array<uint64_t, kActionCount> weights{};
  for (uint64_t& weight : weights) {
    weight = random.Chance(0.2) ? 0 : 10 * static_cast<uint64_t>(random.Between(1, 10));
  }
  // These actions cost more than many of the others.
  const auto make_rare = [&](Action action, uint64_t by) {
    weights[static_cast<size_t>(action)] /= by;
  };
  make_rare(Action::kBurst, 5);
  make_rare(Action::kLargeValue, 5);
  make_rare(Action::kMove, 10);
  make_rare(Action::kCloseSession, 20);
  make_rare(Action::kAbandon, 20);
  make_rare(Action::kSleep, 20);
  // Some action must always have a weight.
  weights[static_cast<size_t>(Action::kRead)] += 10;
  return weights;
}

void FavorKeeper(std::array<uint64_t, kActionCount>* weights) {
  for (const Action action : {Action::kRead, Action::kTreeWrite, Action::kMulti}) {
    (*weights)[static_cast<size_t>(action)] += 50;
  }
  (*weights)[static_cast<size_t>(Action::kEphemeral)] += 20;
  (*weights)[static_cast<size_t>(Action::kLargeValue)] += 5;
}

Request MakeSetUp(const Playground& playground, size_t worker_count) {
  std::vector<Step> steps;
  const auto create = [&steps](std::string path, std::string data = "") {
    steps.push_back(MakeStep(OperationKind::kCreate, std::move(path), std::move(data)));
  };
  for (const char* path : {kTreePath, kQueuePath, kEphemeralPath, kProofPath, kLargePath}) {
    create(path);
  }
  create("/reg");
  for (size_t i = 0; i < playground.register_count; ++i) {
    create(Playground::Register(i), kRegisterValue);
  }
  create(kBankPath);
  for (const std::string& account : Playground::Accounts()) {
    create(account, absl::StrCat(kOpeningBalance));
  }
  for (size_t i = 0; i < worker_count; ++i) create(Playground::ProofPath(i));
  if (playground.ballast_nodes > 0) create(kBallastPath);
  for (size_t i = 0; i < playground.ballast_nodes; ++i) {
    create(absl::StrCat(kBallastPath, "/", i), std::string(playground.ballast_bytes, 'b'));
  }
  return MakeMulti(std::move(steps));
}

Worker::Worker(SimEnvironment* environment, Endpoint* endpoint, Checkers* checkers,
               Playground* playground, const ClientSettings& settings, size_t worker_count,
               bool only_looks)
    : environment_(environment),
      checkers_(checkers),
      playground_(playground),
      worker_count_(worker_count),
      only_looks_(only_looks),
      random_(environment->random("workload")),
      client_(environment, endpoint, &checkers->history(), settings) {
  if (playground->uses_keeper) keeper_.emplace(&environment->random("keeper operations"));
}

void Worker::Start() {
  client_.Start();
  Loop();
}

void Worker::Loop() {
  if (playground_->quiet) return;
  const double rate = only_looks_ ? kLookRate : playground_->operation_rate;
  const auto mean_us = static_cast<int64_t>(1e6 / rate);
  environment_->After(random_.LongTail(mean_us), [this] { Loop(); });
  if (!client_.connected()) return;
  if (!playground_->set_up) {
    SetUp();
    return;
  }
  if (client_.outstanding() >= playground_->outstanding_max) return;
  if (keeper_ && keeper_->Asks(client_.link())) {
    Submit(KeeperChoices::AskRequest(),
           [this](const Operation& operation) { keeper_->OnAsked(operation); });
  }
  if (only_looks_) return Look();
  uint64_t sum = 0;
  for (uint64_t weight : playground_->weights) sum += weight;
  uint64_t pick = random_.Below(sum);
  size_t action = 0;
  while (pick >= playground_->weights[action]) pick -= playground_->weights[action++];
  Do(static_cast<Action>(action));
}

// The first worker creates the nodes that all workers use. If an attempt was lost, the next one
// shows whether it succeeded.
void Worker::SetUp() {
  if (client_.number() != 0 || setting_up_) return;
  setting_up_ = true;
  client_.Submit(MakeSetUp(*playground_, worker_count_), [this](const Operation& operation) {
    setting_up_ = false;
    if (!IsOk(operation) || operation.reply.steps.empty()) return;
    const ErrorCode first = operation.reply.steps[0].error;
    if (first == ErrorCode::kOk || first == ErrorCode::kNodeExists) playground_->set_up = true;
  });
}

void Worker::Do(Action action) {
  switch (action) {
    case Action::kRegisterWrite:
      return WriteRegister(false);
    case Action::kRegisterSwap:
      return WriteRegister(true);
    case Action::kRegisterRead:
      return ReadRegister();
    case Action::kRead:
      return Read();
    case Action::kTreeWrite:
      return WriteTree();
    case Action::kQueuePut:
      return Submit(MakeCreate(absl::StrCat(kQueuePath, "/item-"), NewValue(),
                               CreateMode::kPersistentSequential, random_.Chance(0.8)));
    case Action::kQueueTake:
      return TakeFromQueue();
    case Action::kEphemeral:
      return UseEphemeral();
    case Action::kTransfer:
      return Transfer();
    case Action::kAudit:
      return Audit();
    case Action::kMulti:
      return DoMulti();
    case Action::kBurst:
      return Burst();
    case Action::kLargeValue:
      return UseLargeValue();
    case Action::kMove:
      return client_.Move();
    case Action::kCloseSession:
      return client_.CloseSession();
    case Action::kAbandon:
      return client_.Abandon(random_.Chance(0.5));
    case Action::kSleep:
      return client_.Sleep(
          random_.Between(0, std::min(kSleepUsMax, int64_t{3} * 1000 * client_.timeout_ms())));
  }
}

void Worker::Look() {
  if (random_.Chance(0.5)) Submit(MakeSync("/"));
  Read();
}

void Worker::LookAt(size_t member) {
  if (!playground_->quiet && client_.connected()) client_.MoveTo(member);
}

void Worker::WriteLarge(size_t writes) {
  if (playground_->quiet || !client_.connected()) return;
  environment_->Count("workload: many large writes at once");
  const std::string path = absl::StrCat(kLargePath, "/", client_.number() % kLargeNames);
  for (size_t write = 0; write < writes; ++write) {
    std::string value = NewValue();
    value.resize(playground_->large_bytes_max, 'x');
    Submit(write == 0 ? MakeCreate(path, std::move(value)) : MakeSetData(path, std::move(value)));
  }
}

void Worker::Submit(Request request, Client::Done done) {
  if (client_.connected()) client_.Submit(std::move(request), std::move(done));
}

// --- Choices -------------------------------------------------------------------------------------

bool Worker::PicksKeeper(double probability) {
  return keeper_ && client_.connected() && keeper_->IsServedOn(client_.link()) &&
         keeper_->Chance(probability);
}

std::string Worker::NewValue() { return absl::StrCat("c", client_.number(), ".", ++values_); }

std::string Worker::PickRegister() {
  const std::string current = Playground::Register(playground_->current_register);
  if (checkers_->registers().size(current) < kRegisterOperationsMax) return current;
  if (playground_->current_register + 1 == playground_->register_count) return "";
  environment_->Count("workload: next register");
  return Playground::Register(++playground_->current_register);
}

std::string Worker::PickTreePath() {
  std::string path = kTreePath;
  for (int64_t depth = random_.Between(1, 3); depth > 0; --depth) {
    absl::StrAppend(&path, "/", std::string(1, static_cast<char>('a' + random_.Below(3))));
  }
  return path;
}

std::string Worker::PickPath() {
  switch (random_.Below(8)) {
    case 0:
      return "/";
    case 1:
      return kQueuePath;
    case 2:
      return kEphemeralPath;
    case 3:
      return absl::StrCat(kEphemeralPath, "/e", random_.Below(kEphemeralNames));
    case 4:
      return Playground::Account(random_.Below(kAccountCount));
    case 5:
      return kTreePath;
    default:
      return PickTreePath();
  }
}

int32_t Worker::PickVersion() {
  return random_.Chance(0.3) ? static_cast<int32_t>(random_.Below(3)) : tree::kAnyVersion;
}

Step Worker::PickTreeStep() {
  const std::string path = PickTreePath();
  if (PicksKeeper(0.5)) return keeper_->PickStep(path, NewValue(), PickVersion());
  switch (random_.Below(6)) {
    case 0:
    case 1: {
      Step step = MakeStep(OperationKind::kCreate, path, NewValue());
      step.wants_stat = random_.Chance(0.5);
      step.has_data = random_.Chance(0.9);
      if (!step.has_data) step.data.clear();
      if (random_.Chance(0.2)) step.mode = static_cast<CreateMode>(random_.Below(4));
      return step;
    }
    case 2:
      return MakeStep(OperationKind::kDelete, path, "", PickVersion());
    case 3:
      return MakeStep(OperationKind::kCheck, path, "", PickVersion());
    default:
      return MakeStep(OperationKind::kSetData, path, NewValue(), PickVersion());
  }
}

// --- Actions -------------------------------------------------------------------------------------

void Worker::WriteRegister(bool swap) {
  const std::string path = PickRegister();
  if (path.empty()) return;
  const auto seen = seen_.find(path);
  const int32_t version = !swap                 ? tree::kAnyVersion
                          : seen == seen_.end() ? 0
                                                : seen->second.version;
  Submit(MakeSetData(path, NewValue(), version), [this, path](const Operation& operation) {
    if (IsOk(operation)) seen_[path].version = operation.reply.steps[0].stat->version;
  });
}

void Worker::ReadRegister() {
  const std::string path = PickRegister();
  if (path.empty()) return;
  Submit(MakeSync(path));
  Submit(MakeRead(OperationKind::kGetData, path), [this, path](const Operation& operation) {
    if (IsOk(operation)) seen_[path].version = operation.reply.stat->version;
  });
}

void Worker::Read() {
  if (PicksKeeper(0.4)) {
    std::string path = keeper_->Chance(0.2) ? kLargePath : PickPath();
    Request request = keeper_->PickRead(std::move(path), random_.Chance(playground_->watch_chance));
    return Submit(std::move(request));
  }
  static constexpr OperationKind kKinds[] = {OperationKind::kExists, OperationKind::kGetData,
                                             OperationKind::kGetChildren};
  const OperationKind kind = kKinds[random_.Below(std::size(kKinds))];
  Request request = MakeRead(kind, PickPath(), random_.Chance(playground_->watch_chance));
  if (kind == OperationKind::kGetChildren) request.wants_stat = random_.Chance(0.7);
  if (!keeper_) return Submit(std::move(request));
  Submit(std::move(request), [this](const Operation& operation) { keeper_->Remember(operation); });
}

void Worker::WriteTree() {
  Step step = PickTreeStep();
  if (step.kind == OperationKind::kCheck) step.kind = OperationKind::kSetAcl;
  Submit(MakeWrite(std::move(step)));
}

void Worker::TakeFromQueue() {
  Submit(MakeRead(OperationKind::kGetChildren, kQueuePath), [this](const Operation& operation) {
    if (!IsOk(operation) || operation.reply.children.empty() || playground_->quiet) return;
    const OperationKind kind =
        PicksKeeper(0.5) ? OperationKind::kTryRemove : OperationKind::kDelete;
    Submit(MakeWrite(MakeStep(kind, absl::StrCat(kQueuePath, "/", operation.reply.children[0]))));
  });
}

void Worker::UseEphemeral() {
  const std::string path = absl::StrCat(kEphemeralPath, "/e", random_.Below(kEphemeralNames));
  if (PicksKeeper(0.3)) return Submit(keeper_->PickEphemeral(path, NewValue()));
  switch (random_.Below(5)) {
    case 0:
      return Submit(MakeDelete(path));
    case 1:
      return Submit(MakeCreate(absl::StrCat(kEphemeralPath, "/member-"), NewValue(),
                               CreateMode::kEphemeralSequential));
    case 2:
      return Submit(MakeRead(OperationKind::kExists, path, true));
    default:
      return Submit(MakeCreate(path, NewValue(), CreateMode::kEphemeral, random_.Chance(0.5)));
  }
}

void Worker::Transfer() {
  const size_t from = random_.Below(kAccountCount);
  const size_t to = (from + 1 + random_.Below(kAccountCount - 1)) % kAccountCount;
  for (size_t account : {from, to}) {
    const std::string path = Playground::Account(account);
    Submit(MakeRead(OperationKind::kGetData, path),
           [this, path, account, from, to](const Operation& operation) {
             if (!IsOk(operation)) return;
             seen_[path] = {operation.reply.stat->version, operation.reply.data};
             if (account == to && !playground_->quiet) TransferNow(from, to);
           });
  }
}

void Worker::TransferNow(size_t from, size_t to) {
  const std::string paths[] = {Playground::Account(from), Playground::Account(to)};
  int64_t balances[] = {0, 0};
  int32_t versions[] = {0, 0};
  for (size_t i = 0; i < 2; ++i) {
    const auto seen = seen_.find(paths[i]);
    if (seen == seen_.end() || !absl::SimpleAtoi(seen->second.data, &balances[i])) return;
    versions[i] = seen->second.version;
  }
  const int64_t amount = random_.Between(1, 20);
  std::vector<Step> steps;
  steps.push_back(
      MakeStep(OperationKind::kSetData, paths[0], absl::StrCat(balances[0] - amount), versions[0]));
  steps.push_back(
      MakeStep(OperationKind::kSetData, paths[1], absl::StrCat(balances[1] + amount), versions[1]));
  if (random_.Chance(0.2)) {
    // The last step fails, so that the steps before it have to be rolled back.
    steps.push_back(MakeStep(OperationKind::kCheck, kBankPath, "", 1'000'000));
  }
  Submit(MakeMulti(std::move(steps)));
}

void Worker::Audit() {
  for (const std::string& account : Playground::Accounts()) {
    Submit(MakeRead(OperationKind::kGetData, account));
  }
}

void Worker::DoMulti() {
  std::vector<Step> steps;
  for (uint64_t count = random_.Below(6); count > 0; --count) steps.push_back(PickTreeStep());
  if (random_.Chance(0.2)) {
    for (int i = 0; i < 2; ++i) {
      Step step = MakeStep(OperationKind::kCreate, absl::StrCat(kQueuePath, "/both-"), NewValue());
      step.mode = CreateMode::kPersistentSequential;
      step.wants_stat = true;
      steps.push_back(std::move(step));
    }
  }
  Submit(MakeMulti(std::move(steps)));
}

void Worker::Burst() {
  static constexpr Action kActions[] = {Action::kRegisterWrite, Action::kRead,  Action::kTreeWrite,
                                        Action::kQueuePut,      Action::kAudit, Action::kEphemeral,
                                        Action::kRead,          Action::kMulti};
  for (uint64_t count = 5 + random_.Below(kBurstMax); count > 0; --count) {
    Do(kActions[random_.Below(std::size(kActions))]);
  }
}

void Worker::UseLargeValue() {
  const std::string path =
      absl::StrCat(kLargePath, "/", random_.Below(keeper_ ? kKeeperLargeNames : kLargeNames));
  switch (random_.Below(4)) {
    case 0:
      return Submit(MakeRead(OperationKind::kGetData, path));
    case 1:
      return Submit(MakeDelete(path));
    default: {
      std::string value = NewValue();
      value.resize(1 + random_.Below(playground_->large_bytes_max), 'x');
      return Submit(random_.Chance(0.5) ? MakeCreate(path, std::move(value))
                                        : MakeSetData(path, std::move(value)));
    }
  }
}

// --- The end -------------------------------------------------------------------------------------

Worker::QuietStage Worker::quiet_stage() const {
  const bool here = client_.connected() && client_.link() == quiet_link_;
  return here ? quiet_stage_ : QuietStage::kWorking;
}

void Worker::StepQuiet(bool all_proved) {
  if (!client_.connected() || !client_.idle()) return;
  const QuietStage stage = quiet_stage();
  const LinkId link = client_.link();
  if (stage == QuietStage::kWorking) {
    quiet_stage_ = QuietStage::kProving;
    quiet_link_ = link;
    client_.Submit(MakeSetData(Playground::ProofPath(client_.number()), NewValue()),
                   [this](const Operation& operation) {
                     // NoNode: there was no time for the setup.
                     const bool usable =
                         IsOk(operation) || IsAnswered(operation, ErrorCode::kNoNode);
                     quiet_stage_ = usable ? QuietStage::kProved : QuietStage::kWorking;
                   });
  } else if (stage == QuietStage::kProved && all_proved) {
    quiet_stage_ = QuietStage::kReading;
    client_.Submit(MakeSync("/"));
    for (const std::string& account : Playground::Accounts()) {
      client_.Submit(MakeRead(OperationKind::kGetData, account));
    }
    client_.Submit(MakeRead(OperationKind::kGetChildren, "/"), [this](const Operation& operation) {
      quiet_stage_ = IsOk(operation) ? QuietStage::kDone : QuietStage::kWorking;
    });
  }
}

}  // namespace quorate::simulation
