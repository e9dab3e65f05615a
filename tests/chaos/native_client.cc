// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/native_client.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/assert.h"

namespace quorate::chaos {
namespace {

// How long operations wait for a session.
constexpr int64_t kConnectPatienceNs = 10'000 * kNsInMs;
constexpr int kConnectMs = 5000;
// The deadlines of calls. Some are short, so that expired deadlines occur too.
constexpr int kDeadlineMs = 30'000;
constexpr int kShortDeadlineMsMin = 20;
constexpr int kShortDeadlineMsMax = 1000;
constexpr double kShortDeadlines = 0.03;
// Only the answer to a transaction contains the zxid of a deletion.
constexpr double kDeletionsByTransaction = 0.7;
// How often reads that are not of one state are repeated.
constexpr int kAttemptsMax = 20;

std::chrono::steady_clock::time_point ToTime(int64_t ns) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns));
}

Stat ToStat(const quorate::Stat& stat) {
  return {.czxid = stat.created_zxid,
          .mzxid = stat.modified_zxid,
          .pzxid = stat.children_modified_zxid,
          .version = stat.version,
          .cversion = stat.children_version,
          .owner = stat.ephemeral_session,
          .length = stat.data_bytes};
}

CreateMode ToMode(const std::string& mode) {
  if (mode == "ephemeral") return CreateMode::kEphemeral;
  if (mode == "sequential") return CreateMode::kPersistentSequential;
  if (mode == "ephemeral-sequential") return CreateMode::kEphemeralSequential;
  ASSERT(mode == "persistent", "there is no other mode");
  return CreateMode::kPersistent;
}

std::optional<int32_t> ToVersion(int32_t version) {
  return version < 0 ? std::nullopt : std::make_optional(version);
}

Transaction ToTransaction(const std::vector<Step>& steps) {
  Transaction transaction;
  for (const Step& step : steps) {
    const std::optional<int32_t> version = ToVersion(step.version);
    if (step.function == "create") {
      transaction.Create(step.path, step.data, ToMode(step.mode));
    } else if (step.function == "set") {
      transaction.Set(step.path, step.data, version);
    } else if (step.function == "delete") {
      transaction.Delete(step.path, version);
    } else {
      ASSERT(step.function == "check", "there is no other step");
      transaction.Add(Transaction::CheckOperation{step.path, version, false});
    }
  }
  return transaction;
}

const char* NameOf(EventType type) {
  switch (type) {
    case EventType::kNodeCreated:
      return "created";
    case EventType::kNodeDeleted:
      return "deleted";
    case EventType::kNodeDataChanged:
      return "changed";
  }
  return "";
}

TlsOptions TlsOf(const std::string& directory) {
  if (directory.empty()) return {};
  return {.enabled = true,
          .ca_file = directory + "/ca.pem",
          .certificate_file = directory + "/client.pem",
          .key_file = directory + "/client.pem"};
}

Line OutcomeOf(const absl::Status& status) {
  Line outcome;
  outcome.what = What::kUnknown;
  if (const std::optional<ErrorCode> code = ErrorOf(status); code.has_value()) {
    Refusal refusal = RefusalOf(*code);
    if (refusal.is_certain) outcome.what = What::kRefused;
    outcome.error = std::move(refusal.name);
  } else {
    outcome.error = absl::StatusCodeToString(status.code());
  }
  return outcome;
}

}  // namespace

NativeClient::NativeClient(ClientSettings settings, Recorder* recorder)
    : settings_(std::move(settings)), recorder_(recorder), random_(settings_.seed, "deadlines") {}

NativeClient::~NativeClient() { Leave(); }

// --- Sessions ------------------------------------------------------------------------------------

bool NativeClient::Connect() {
  if (has_session()) return true;
  const int64_t until_ns = NowNs() + kConnectPatienceNs;
  while (NowNs() < until_ns) {
    Leave();
    absl::StatusOr<std::unique_ptr<quorate::Client>> client = quorate::Client::Connect(
        {.servers = absl::StrJoin(settings_.servers, ","),
         .session_timeout_ms = settings_.session_timeout_ms,
         .connect_timeout_ms = kConnectMs,
         .default_deadline_ms = kDeadlineMs,
         // The history has one session per client object.
         .on_session_loss = quorate::SessionLoss::kStop,
         .tls = TlsOf(settings_.tls_directory),
         .on_session_event = [this](const SessionEvent& event) { OnSessionEvent(event); }});
    if (!client.ok()) continue;
    client_ = *std::move(client);
    ++sessions_;
    std::unique_lock lock(mutex_);
    // The library reports the new session on another thread; its line has to come before those of
    // its operations.
    early_changed_.wait(lock, [this] { return !early_.empty(); });
    session_ = client_->session_id();
    timeout_ms_ = client_->session_timeout_ms();
    for (const SessionEvent& event : std::exchange(early_, {})) WriteSessionEvent(event);
    return !is_over_;
  }
  return false;
}

void NativeClient::OnSessionEvent(const SessionEvent& event) {
  const std::lock_guard lock(mutex_);
  if (session_ == 0) {
    early_.push_back(event);
    early_changed_.notify_one();
  } else {
    WriteSessionEvent(event);
  }
}

void NativeClient::WriteSessionEvent(const SessionEvent& event) {
  if (is_over_) return;
  Line line;
  line.client = settings_.number;
  line.session = session_;
  switch (event.type) {
    case SessionEvent::Type::kConnected:
    case SessionEvent::Type::kReconnected:
    case SessionEvent::Type::kReplaced:
      server_ = event.server;
      line.what = What::kConnected;
      line.server = server_;
      line.frontend = "native";
      line.new_session = event.type != SessionEvent::Type::kReconnected;
      line.timeout_ms = timeout_ms_;
      break;
    case SessionEvent::Type::kSuspended:
      line.what = What::kDisconnected;
      line.server = server_;
      line.answered_ns = answered_ns_;
      line.reason = event.reason.ToString();
      break;
    case SessionEvent::Type::kLost:
      line.what = What::kExpired;
      line.answered_ns = answered_ns_;
      line.reason = event.reason.ToString();
      is_over_ = true;
  }
  recorder_->Write(std::move(line));
}

bool NativeClient::has_session() {
  const std::lock_guard lock(mutex_);
  return session_ != 0 && !is_over_;
}

void NativeClient::Leave() {
  std::map<int64_t, WatchHandle> watches;
  {
    const std::lock_guard lock(mutex_);
    watches.swap(watches_);
  }
  // The destructors wait for a notification whose callback is running.
  watches.clear();
  client_.reset();
  const std::lock_guard lock(mutex_);
  session_ = 0;
  is_over_ = false;
  answered_ns_ = 0;
  early_.clear();
}

void NativeClient::CloseSession() {
  if (!has_session()) return;
  Line close;
  close.client = settings_.number;
  close.workload = "session";
  close.function = "close";
  recorder_->WriteInvoke(&close);
  const absl::Status status = client_->Close();
  Line outcome;
  outcome.what = What::kOk;
  recorder_->WriteOutcome(close, status.ok() ? std::move(outcome) : OutcomeOf(status));
  Line end;
  end.client = settings_.number;
  end.what = status.ok() ? What::kClosed : What::kAbandoned;
  {
    const std::lock_guard lock(mutex_);
    end.session = session_;
    end.answered_ns = answered_ns_;
    if (!is_over_) recorder_->Write(std::move(end));
    // Later callbacks belong to no session any more.
    is_over_ = true;
  }
  Leave();
}

void NativeClient::Move(int64_t /*away_ms*/) {
  if (has_session()) client_->ChangeMember();
}
bool NativeClient::AbandonSession(bool /*silently*/) { return false; }

void NativeClient::Idle(int64_t until_ns) { std::this_thread::sleep_until(ToTime(until_ns)); }

// --- Operations ----------------------------------------------------------------------------------

std::vector<Line> NativeClient::Perform(std::vector<Line> operations) {
  Batch batch;
  batch.outcomes.assign(operations.size(), NotSent());
  if (!Connect()) return std::move(batch.outcomes);
  batch.under_way = operations.size();
  std::vector<OperationPtr> begun;
  for (size_t i = 0; i < operations.size(); ++i) {
    auto operation = std::make_shared<Operation>();
    operation->invoke = std::move(operations[i]);
    operation->invoke.client = settings_.number;
    if (operation->invoke.function == "watch") operation->invoke.watch = ++last_watch_;
    recorder_->WriteInvoke(&operation->invoke);
    operation->deadline_ms =
        random_.Chance(kShortDeadlines)
            ? static_cast<int>(random_.Between(kShortDeadlineMsMin, kShortDeadlineMsMax))
            : kDeadlineMs;
    operation->begun_ns = NowNs();
    operation->batch = &batch;
    operation->place = i;
    begun.push_back(std::move(operation));
  }
  for (const OperationPtr& operation : begun) Begin(operation);
  std::unique_lock lock(batch.mutex);
  batch.changed.wait(lock, [&batch] { return batch.under_way == 0; });
  return std::move(batch.outcomes);
}

void NativeClient::Finish(const OperationPtr& operation, Line outcome) {
  {
    const std::lock_guard lock(mutex_);
    if (outcome.what == What::kOk) {
      outcome.server = server_;
      outcome.watch = operation->invoke.watch;
    }
    if (outcome.what != What::kUnknown) answered_ns_ = std::max(answered_ns_, operation->begun_ns);
    recorder_->WriteOutcome(operation->invoke, outcome);
  }
  Batch& batch = *operation->batch;
  const std::lock_guard lock(batch.mutex);
  batch.outcomes[operation->place] = std::move(outcome);
  if (--batch.under_way == 0) batch.changed.notify_all();
}

void NativeClient::Fail(const OperationPtr& operation, const absl::Status& status) {
  Finish(operation, OutcomeOf(status));
}

template <class T, class Fill>
void NativeClient::Then(Call<T> call, const OperationPtr& operation, Fill fill) {
  call.Then([this, operation, fill](absl::StatusOr<T> result) {
    if (!result.ok()) return Fail(operation, result.status());
    Line outcome;
    outcome.what = What::kOk;
    fill(*result, &outcome);
    Finish(operation, std::move(outcome));
  });
}

void NativeClient::Begin(const OperationPtr& operation) {
  const Line& invoke = operation->invoke;
  const std::string& function = invoke.function;
  const ReadOptions options = {.linearizable = invoke.linearizable,
                               .deadline_ms = operation->deadline_ms};
  if (function == "get") {
    Then(client_->AsyncGet(invoke.path, options), operation, [](GetResult& got, Line* outcome) {
      outcome->data = std::move(got.data);
      outcome->stat = ToStat(got.stat);
      outcome->zxid = got.zxid;
    });
  } else if (function == "exists") {
    Then(client_->AsyncExists(invoke.path, options), operation,
         [](const std::optional<quorate::Stat>& stat, Line* outcome) {
           if (stat.has_value()) outcome->stat = ToStat(*stat);
         });
  } else if (function == "list") {
    Then(client_->AsyncList(invoke.path, options), operation, [](ListResult& got, Line* outcome) {
      outcome->children = std::move(got.children);
      outcome->stat = ToStat(got.stat);
      outcome->zxid = got.zxid;
    });
  } else if (function == "sync") {
    Then(client_->AsyncSync({.deadline_ms = operation->deadline_ms}), operation,
         [](Done, Line*) {});
  } else if (function == "watch") {
    BeginWatch(operation);
  } else if (function == "add") {
    BeginAdd(operation);
  } else if (function == "multi-get") {
    BeginMultiGet(operation);
  } else {
    BeginWrite(operation);
  }
}

void NativeClient::BeginWrite(const OperationPtr& operation) {
  const Line& invoke = operation->invoke;
  const int deadline_ms = operation->deadline_ms;
  const std::optional<int32_t> version = ToVersion(invoke.version);
  if (invoke.function == "create") {
    Then(client_->AsyncCreate(invoke.path, invoke.data,
                              {.mode = ToMode(invoke.mode), .deadline_ms = deadline_ms}),
         operation, [](CreateResult& created, Line* outcome) {
           outcome->path = std::move(created.path);
           outcome->stat = ToStat(created.stat);
           outcome->zxid = created.zxid;
         });
  } else if (invoke.function == "set") {
    Then(client_->AsyncSet(invoke.path, invoke.data,
                           {.version = version, .deadline_ms = deadline_ms}),
         operation, [](const quorate::Stat& stat, Line* outcome) {
           outcome->stat = ToStat(stat);
           outcome->zxid = stat.modified_zxid;
         });
  } else if (invoke.function == "delete" && random_.Chance(kDeletionsByTransaction)) {
    Transaction transaction;
    transaction.Delete(invoke.path, version);
    Then(client_->AsyncCommit(transaction, {.deadline_ms = deadline_ms}), operation,
         [](TransactionResult& done, Line* outcome) { outcome->zxid = done.zxid; });
  } else if (invoke.function == "delete") {
    Then(client_->AsyncDelete(invoke.path, {.version = version, .deadline_ms = deadline_ms}),
         operation, [](uint32_t, Line*) {});
  } else {
    ASSERT(invoke.function == "multi", "there is no other write");
    Then(client_->AsyncCommit(ToTransaction(invoke.steps), {.deadline_ms = deadline_ms}), operation,
         [steps = invoke.steps](TransactionResult& done, Line* outcome) {
           outcome->zxid = done.zxid;
           for (size_t i = 0; i < steps.size(); ++i) {
             Result& result = outcome->results.emplace_back();
             result.path = done.results[i].path;
             const bool has_stat = steps[i].function == "set" || steps[i].function == "create";
             if (has_stat) result.stat = ToStat(done.results[i].stat);
           }
         });
  }
}

void NativeClient::BeginAdd(const OperationPtr& operation) {
  // Nothing was added yet, whatever the outcome of the read.
  const auto refuse = [this, operation](const absl::Status& status) {
    Line outcome = OutcomeOf(status);
    outcome.what = What::kRefused;
    Finish(operation, std::move(outcome));
  };
  client_->AsyncGet(operation->invoke.path, {.deadline_ms = operation->deadline_ms})
      .Then([this, operation, refuse](absl::StatusOr<GetResult> got) {
        if (!got.ok()) return refuse(got.status());
        const int64_t value =
            std::strtoll(got->data.c_str(), nullptr, 10) + operation->invoke.delta;
        const std::string data =
            absl::StrCat(value, " ", settings_.number, ".", operation->invoke.operation, ".",
                         operation->attempts++);
        client_
            ->AsyncSet(operation->invoke.path, data,
                       {.version = got->stat.version, .deadline_ms = operation->deadline_ms})
            .Then([this, operation, value](absl::StatusOr<quorate::Stat> stat) {
              if (ErrorOf(stat.status()) == ErrorCode::kBadVersion) return BeginAdd(operation);
              if (!stat.ok()) return Fail(operation, stat.status());
              Line outcome;
              outcome.what = What::kOk;
              outcome.value = value;
              outcome.stat = ToStat(*stat);
              outcome.zxid = stat->modified_zxid;
              Finish(operation, std::move(outcome));
            });
      });
}

void NativeClient::BeginMultiGet(const OperationPtr& operation) {
  const std::vector<std::string>& paths = operation->invoke.paths;
  operation->reads.assign(paths.size(), {});
  operation->reads_under_way = paths.size();
  for (size_t i = 0; i < paths.size(); ++i) {
    client_->AsyncGet(paths[i], {.deadline_ms = operation->deadline_ms})
        .Then([this, operation, i](absl::StatusOr<GetResult> got) {
          Result& read = operation->reads[i];
          if (got.ok()) {
            read.data = std::move(got->data);
            read.stat = ToStat(got->stat);
          } else {
            read.error = OutcomeOf(got.status()).error;
          }
          if (--operation->reads_under_way == 0) CheckReads(operation);
        });
  }
}

void NativeClient::CheckReads(const OperationPtr& operation) {
  Transaction transaction;
  for (size_t i = 0; i < operation->reads.size(); ++i) {
    const Result& read = operation->reads[i];
    if (!read.stat.has_value()) {
      Line outcome;
      outcome.what = What::kUnknown;
      outcome.error = read.error;
      return Finish(operation, std::move(outcome));
    }
    transaction.CheckVersion(operation->invoke.paths[i], read.stat->version);
  }
  client_->AsyncCommit(transaction, {.deadline_ms = operation->deadline_ms})
      .Then([this, operation](absl::StatusOr<TransactionResult> checked) {
        const bool has_changed = ErrorOf(checked.status()) == ErrorCode::kBadVersion;
        if (has_changed && ++operation->attempts < kAttemptsMax) return BeginMultiGet(operation);
        if (!checked.ok()) return Fail(operation, checked.status());
        Line outcome;
        outcome.what = What::kOk;
        outcome.results = std::move(operation->reads);
        outcome.zxid = checked->zxid;
        Finish(operation, std::move(outcome));
      });
}

// --- Watches -------------------------------------------------------------------------------------

void NativeClient::BeginWatch(const OperationPtr& operation) {
  const Line& invoke = operation->invoke;
  const WatchScope scope = invoke.kind == "recursive" ? WatchScope::kSubtree : WatchScope::kNode;
  const auto notify = [this, number = invoke.watch,
                       path = invoke.path](const WatchNotification& notification) {
    OnNotification(number, path, notification);
  };
  client_->AsyncWatch(invoke.path, scope, notify, {.deadline_ms = operation->deadline_ms})
      .Then([this, operation](absl::StatusOr<WatchHandle> handle) {
        if (!handle.ok()) return Fail(operation, handle.status());
        {
          const std::lock_guard lock(mutex_);
          watches_[operation->invoke.watch] = *std::move(handle);
        }
        Line outcome;
        outcome.what = What::kOk;
        Finish(operation, std::move(outcome));
      });
}

void NativeClient::OnNotification(int64_t watch, const std::string& path,
                                  const WatchNotification& notification) {
  Line line;
  line.client = settings_.number;
  line.watch = watch;
  if (const auto* event = std::get_if<Event>(&notification)) {
    line.what = What::kEvent;
    line.path = event->path;
    line.type = NameOf(event->type);
    line.zxid = event->zxid;
  } else {
    line.what = What::kWatchReset;
    line.path = path;
    line.zxid = std::get<WatchReset>(notification).zxid;
  }
  const std::lock_guard lock(mutex_);
  events_.push_back(line);
  recorder_->Write(std::move(line));
}

std::vector<Line> NativeClient::TakeEvents() {
  const std::lock_guard lock(mutex_);
  return std::exchange(events_, {});
}

}  // namespace quorate::chaos
