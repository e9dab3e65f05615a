// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/rollout.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/recipes/retry.h"
#include "client/recipes/waiting.h"
#include "client/session_loss.h"

namespace quorate {
namespace {

constexpr size_t kReasonBytesMax = 1000;
constexpr char kRunning[] = "running", kDone[] = "done", kFailed[] = "failed";
// A write ends with its answer or with the session: its outcome would be unknown otherwise.
constexpr CallOptions kNoDeadline{.deadline_ms = -1};

std::string DataOf(int64_t generation, const std::string& state) {
  return absl::StrCat(generation, " ", state);
}

// Parses the data of a znode of PATH/members. A running member is not known to be interrupted yet.
std::optional<RolloutMember> ParseMember(const std::string& id, std::string_view data) {
  const size_t space = data.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> generation = internal::ParseNumber(data.substr(0, space));
  if (!generation.has_value()) return std::nullopt;
  const std::string_view state = data.substr(space + 1);
  RolloutMember member{id, *generation, RolloutMember::State::kRunning, ""};
  if (state == kRunning) return member;
  member.state = RolloutMember::State::kDone;
  if (state == kDone) return member;
  member.state = RolloutMember::State::kFailed;
  const std::string failed = absl::StrCat(kFailed, " ");
  if (!state.starts_with(failed)) return std::nullopt;
  member.reason = state.substr(failed.size());
  return member;
}

absl::Status InvalidDataError(const std::string& path) {
  return absl::FailedPreconditionError(absl::StrCat(
      path, " has data that a Rollout does not write; delete it, or use another path"));
}

absl::Status MovedError() { return absl::FailedPreconditionError("the step was moved"); }

}  // namespace

class RolloutStep::State : public std::enable_shared_from_this<State> {
 public:
  State(Client* client, Lease lease, std::string path, std::string member, int64_t generation,
        const Stat& step)
      : client_(client),
        path_(std::move(path)),
        member_(std::move(member)),
        step_(absl::StrCat(path_, "/steps/", member_)),
        stopped_(path_ + "/stopped"),
        record_(absl::StrCat(path_, "/members/", member_)),
        generation_(generation),
        created_zxid_(step.created_zxid),
        session_id_(step.ephemeral_session),
        lease_(std::move(lease)) {}

  void Begin(const std::shared_ptr<internal::Listener<RolloutEvent>>& listener) {
    using Type = RolloutEvent::Type;
    listener->Tell({Type::kBegun, member_, generation_, ""});
    session_ = client_->ListenToSession([weak = weak_from_this(), listener](const SessionEvent& e) {
      const std::shared_ptr<State> self = weak.lock();
      if (self == nullptr || !self->IsLostBy(e) || !self->is_held_.exchange(false)) return;
      listener->Tell({Type::kLost, self->member_, self->generation_, ""});
    });
    // A loss before the listener was added is not reported to it.
    if (client_->session_id() != session_id_ && is_held_.exchange(false)) {
      listener->Tell({Type::kLost, member_, generation_, ""});
    }
  }

  int64_t generation() const { return generation_; }
  bool is_held() const { return is_held_; }

  absl::Status Done() {
    if (absl::Status s = BeginToEnd(); !s.ok()) return s;
    return End(client_->Commit(Ending(kDone), kNoDeadline).status());
  }

  absl::Status Fail(std::string reason) {
    if (absl::Status s = BeginToEnd(); !s.ok()) return s;
    reason.resize(std::min(reason.size(), kReasonBytesMax));
    for (bool is_stopped = false;; is_stopped = !is_stopped) {
      Transaction transaction = Ending(absl::StrCat(kFailed, " ", reason));
      const size_t last = transaction.operations().size();
      // The rollout is stopped in the same transaction, by this member or by another one before.
      if (is_stopped) {
        transaction.CheckExists(stopped_);
      } else {
        transaction.Create(stopped_, absl::StrCat(member_, ": ", reason));
      }
      const absl::Status status = client_->Commit(transaction, kNoDeadline).status();
      const std::optional<ErrorCode> other =
          is_stopped ? ErrorCode::kNoNode : ErrorCode::kNodeExists;
      if (FailedOperationOf(status) != last || ErrorOf(status) != other) return End(status);
    }
  }

  // Ends the step, if it has not ended. The place is free when its znode is deleted.
  void EndWithoutWaiting() {
    phase_ = Phase::kEnded;
    if (!is_held_.exchange(false)) return FreePlace();
    internal::CallUntilTaken(
        client_,
        [self = shared_from_this()] {
          return self->client_->AsyncCommit(self->OfStep().Delete(self->step_), kNoDeadline);
        },
        [self = shared_from_this()](const auto&) { self->FreePlace(); }, [] { return true; });
  }

 private:
  bool IsLostBy(const SessionEvent& event) const {
    return event.type == SessionEvent::Type::kLost ||
           (event.session_id != 0 && event.session_id != session_id_);
  }
  // Returns a transaction that is made only if the step is the one that has begun.
  Transaction OfStep() const { return std::move(Transaction().CheckCreated(step_, created_zxid_)); }
  Transaction Ending(const std::string& state) const {
    return std::move(OfStep().Set(record_, DataOf(generation_, state)).Delete(step_));
  }
  absl::Status BeginToEnd() {
    if (absl::Status s = internal::CallbackThread::CheckMayBlock(); !s.ok()) return s;
    Phase runs = Phase::kRuns;
    if (phase_.compare_exchange_strong(runs, Phase::kEnding)) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("the step of ", member_, " in rollout ",
                                                      generation_, " of ", path_,
                                                      " was reported before"));
  }
  absl::Status End(const absl::Status& status) {
    const std::optional<ErrorCode> error = ErrorOf(status);
    const bool is_lost = error == ErrorCode::kNoNode || error == ErrorCode::kBadVersion ||
                         error == ErrorCode::kSessionExpired;
    const bool is_refused = internal::IsRefusedByClient(status) || (error.has_value() && !is_lost);
    if (is_refused) {
      phase_ = Phase::kRuns;
      return status;
    }
    if (status.ok()) is_held_ = false;
    EndWithoutWaiting();
    if (error != ErrorCode::kNoNode && error != ErrorCode::kBadVersion) return status;
    return absl::AbortedError(
        absl::StrCat("the step of ", member_, " in rollout ", generation_, " of ", path_,
                     " was lost, and is not done: call Begin again: ", status.message()));
  }
  void FreePlace() {
    std::lock_guard<std::mutex> lock(mutex_);
    lease_.reset();
  }

  Client* const client_;
  const std::string path_, member_, step_, stopped_, record_;
  const int64_t generation_, created_zxid_, session_id_;
  std::mutex mutex_;
  std::optional<Lease> lease_;  // guarded by mutex_
  enum class Phase { kRuns, kEnding, kEnded };
  std::atomic<Phase> phase_{Phase::kRuns};  // kEnding: Done or Fail is called
  std::atomic<bool> is_held_{true};
  WatchHandle session_;
};

RolloutStep::RolloutStep(std::shared_ptr<State> state) : state_(std::move(state)) {}
RolloutStep::~RolloutStep() {
  if (state_ != nullptr) state_->EndWithoutWaiting();
}
RolloutStep& RolloutStep::operator=(RolloutStep&& other) noexcept {
  const std::shared_ptr<State> old = std::exchange(state_, std::exchange(other.state_, nullptr));
  if (old != nullptr && old != state_) old->EndWithoutWaiting();
  return *this;
}
int64_t RolloutStep::generation() const { return state_ == nullptr ? 0 : state_->generation(); }
bool RolloutStep::is_held() const { return state_ != nullptr && state_->is_held(); }
absl::Status RolloutStep::Done() { return state_ == nullptr ? MovedError() : state_->Done(); }
absl::Status RolloutStep::Fail(std::string reason) {
  return state_ == nullptr ? MovedError() : state_->Fail(std::move(reason));
}

// The current rollout, and the znode of a member.
struct Rollout::Current {
  int64_t generation = 0;
  int64_t created_zxid = 0;                 // of PATH
  int32_t version = 0;                      // of PATH
  std::optional<int32_t> record_version{};  // of PATH/members/MEMBER; nullopt: it does not exist
  bool is_done = false;
};

Rollout::Rollout(Client* client, std::string path, int at_a_time, RolloutOptions options)
    : client_(client),
      path_(std::move(path)),
      stopped_(path_ + "/stopped"),
      steps_(path_ + "/steps"),
      members_(path_ + "/members"),
      places_(client, path_ + "/places", at_a_time),
      listener_(std::make_shared<internal::Listener<RolloutEvent>>(std::move(options.listener))) {}

Rollout::~Rollout() { listener_->End(); }

absl::Status Rollout::Start(int64_t generation) {
  if (generation <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("the number of a rollout of ", path_,
                                                   " has to be positive, not ", generation));
  }
  for (const std::string& path : {steps_, members_}) {
    if (absl::Status s = internal::EnsureZnode(client_, path); !s.ok()) return s;
  }
  for (int attempts = 1;; ++attempts) {
    const absl::StatusOr<GetResult> read = client_->Get(path_, {.linearizable = true});
    if (!read.ok()) return read.status();
    const std::optional<int64_t> current =
        read->data.empty() ? 0 : internal::ParseNumber(read->data);
    if (!current.has_value()) return InvalidDataError(path_);
    if (*current == generation) {
      return absl::AlreadyExistsError(
          absl::StrCat("rollout ", generation, " of ", path_,
                       " was started before; a new one needs a larger number"));
    }
    if (*current > generation) {
      return absl::FailedPreconditionError(
          absl::StrCat("rollout ", *current, " of ", path_, " was started, which is later than ",
                       generation, "; a new one needs a larger number"));
    }
    const absl::StatusOr<std::optional<Stat>> stopped = client_->Exists(stopped_);
    if (!stopped.ok()) return stopped.status();
    Transaction transaction;
    transaction.Set(path_, absl::StrCat(generation), read->stat.version);
    if (stopped->has_value()) {
      transaction.Delete(stopped_);
    } else {
      transaction.CheckAbsent(stopped_);
    }
    const absl::Status status = client_->Commit(transaction, kNoDeadline).status();
    // Another client has started a rollout, stopped it or resumed it meanwhile.
    const std::optional<ErrorCode> error = ErrorOf(status);
    if (error != ErrorCode::kBadVersion && error != ErrorCode::kNodeExists &&
        error != ErrorCode::kNoNode) {
      return status;
    }
    internal::PauseAfterConflict(attempts);
  }
}

absl::Status Rollout::Stop(std::string reason) {
  reason.resize(std::min(reason.size(), kReasonBytesMax));
  const absl::Status status =
      client_->Create(stopped_, std::move(reason), {.create_parents = true}).status();
  return ErrorOf(status) == ErrorCode::kNodeExists ? absl::OkStatus() : status;
}

absl::Status Rollout::Resume() {
  const absl::Status status = client_->Delete(stopped_).status();
  return ErrorOf(status) == ErrorCode::kNoNode ? absl::OkStatus() : status;
}

absl::StatusOr<RolloutMember> Rollout::ReadMember(const std::string& id) {
  const std::string record = absl::StrCat(members_, "/", id);
  for (;;) {
    const absl::StatusOr<GetResult> read = client_->Get(record);
    if (!read.ok()) return read.status();
    std::optional<RolloutMember> member = ParseMember(id, read->data);
    if (!member.has_value()) return InvalidDataError(record);
    if (member->state != RolloutMember::State::kRunning) return *member;
    const absl::StatusOr<std::optional<Stat>> step = client_->Exists(absl::StrCat(steps_, "/", id));
    if (!step.ok()) return step.status();
    if (step->has_value()) return *member;
    // Whether the step had ended without an outcome, or with one after the first read.
    const absl::StatusOr<std::optional<Stat>> again = client_->Exists(record);
    if (!again.ok()) return again.status();
    if (again->has_value() && (*again)->modified_zxid != read->stat.modified_zxid) continue;
    member->state = RolloutMember::State::kInterrupted;
    return *member;
  }
}

absl::StatusOr<RolloutProgress> Rollout::Progress() {
  RolloutProgress progress;
  const absl::StatusOr<GetResult> current = client_->Get(path_, {.linearizable = true});
  if (ErrorOf(current.status()) == ErrorCode::kNoNode) return progress;
  if (!current.ok()) return current.status();
  const std::optional<int64_t> generation =
      current->data.empty() ? 0 : internal::ParseNumber(current->data);
  if (!generation.has_value()) return InvalidDataError(path_);
  progress.generation = *generation;
  const absl::StatusOr<GetResult> stopped = client_->Get(stopped_);
  if (stopped.ok()) progress.stopped = stopped->data;
  if (!stopped.ok() && ErrorOf(stopped.status()) != ErrorCode::kNoNode) return stopped.status();
  const absl::StatusOr<ListResult> members = client_->List(members_);
  if (ErrorOf(members.status()) == ErrorCode::kNoNode) return progress;
  if (!members.ok()) return members.status();
  for (const std::string& id : members->children) {
    absl::StatusOr<RolloutMember> member = ReadMember(id);
    // Another client has deleted it meanwhile.
    if (ErrorOf(member.status()) == ErrorCode::kNoNode) continue;
    if (!member.ok()) return member.status();
    progress.members.push_back(*std::move(member));
  }
  return progress;
}

absl::StatusOr<std::optional<Rollout::Current>> Rollout::Read(
    const std::string& member, const internal::WaitDeadline& deadline) {
  const absl::StatusOr<GetResult> read =
      client_->Get(path_, {.deadline_ms = deadline.ReadDeadlineMs()});
  if (ErrorOf(read.status()) == ErrorCode::kNoNode) return std::nullopt;
  if (!read.ok()) return read.status();
  if (read->data.empty()) return std::nullopt;
  const std::optional<int64_t> generation = internal::ParseNumber(read->data);
  if (!generation.has_value()) return InvalidDataError(path_);
  Current current{*generation, read->stat.created_zxid, read->stat.version};
  const std::string record = absl::StrCat(members_, "/", member);
  const absl::StatusOr<GetResult> last =
      client_->Get(record, {.deadline_ms = deadline.ReadDeadlineMs()});
  if (ErrorOf(last.status()) == ErrorCode::kNoNode) return current;
  if (!last.ok()) return last.status();
  const std::optional<RolloutMember> step = ParseMember(member, last->data);
  if (!step.has_value()) return InvalidDataError(record);
  current.record_version = last->stat.version;
  current.is_done =
      step->generation >= current.generation && step->state == RolloutMember::State::kDone;
  return current;
}

absl::Status Rollout::WaitUntilDue(const std::string& member,
                                   const internal::WaitDeadline& deadline) {
  return internal::WaitUntil(
      client_, path_, WatchScope::kNode, deadline,
      absl::StrCat("a rollout of ", path_, " whose step ", member, " has not done"),
      [&]() -> absl::StatusOr<bool> {
        const auto current = Read(member, deadline);
        if (!current.ok()) return current.status();
        return current->has_value() && !(*current)->is_done;
      });
}

absl::Status Rollout::WaitWhileStopped(const std::string& member,
                                       const internal::WaitDeadline& deadline) {
  bool is_told = false;
  return internal::WaitUntil(
      client_, stopped_, WatchScope::kNode, deadline,
      absl::StrCat("the rollout of ", path_, ", which is stopped, to be resumed"),
      [&]() -> absl::StatusOr<bool> {
        const absl::StatusOr<GetResult> stopped =
            client_->Get(stopped_, {.deadline_ms = deadline.ReadDeadlineMs()});
        if (ErrorOf(stopped.status()) == ErrorCode::kNoNode) return true;
        if (!stopped.ok()) return stopped.status();
        if (!std::exchange(is_told, true)) {
          listener_->Tell({RolloutEvent::Type::kStopped, member, 0, stopped->data});
        }
        return false;
      });
}

absl::Status Rollout::WaitUntilNotInStep(const std::string& member,
                                         const internal::WaitDeadline& deadline) {
  const std::string step = absl::StrCat(steps_, "/", member);
  return internal::WaitUntil(
      client_, step, WatchScope::kNode, deadline,
      absl::StrCat("another process to end the step of ", member), [&]() -> absl::StatusOr<bool> {
        const absl::StatusOr<std::optional<Stat>> stat =
            client_->Exists(step, {.deadline_ms = deadline.ReadDeadlineMs()});
        if (!stat.ok()) return stat.status();
        return !stat->has_value();
      });
}

absl::StatusOr<std::optional<RolloutStep>> Rollout::BeginAt(
    Lease lease, const std::string& member, const internal::WaitDeadline& deadline) {
  const std::string step = absl::StrCat(steps_, "/", member),
                    record = absl::StrCat(members_, "/", member);
  for (int attempts = 1;; ++attempts) {
    if (absl::Status s = WaitWhileStopped(member, deadline); !s.ok()) return s;
    const absl::StatusOr<std::optional<Current>> current = Read(member, deadline);
    if (!current.ok()) return current.status();
    if (!current->has_value() || (*current)->is_done) return std::nullopt;
    const std::string data = DataOf((*current)->generation, kRunning);
    Transaction transaction;
    transaction.CheckExists(lease.node())
        .CheckVersion(path_, (*current)->version)
        .CheckAbsent(stopped_)
        .Create(step, "", CreateMode::kEphemeral);
    if ((*current)->record_version.has_value()) {
      transaction.Set(record, data, *(*current)->record_version);
    } else {
      transaction.Create(record, data);
    }
    // Fails now, and not when the step is reported, if a server does not know this operation.
    transaction.CheckCreated(path_, (*current)->created_zxid);
    const absl::StatusOr<TransactionResult> begun = client_->Commit(transaction, kNoDeadline);
    if (begun.ok()) {
      auto state = std::make_shared<RolloutStep::State>(
          client_, std::move(lease), path_, member, (*current)->generation, begun->results[3].stat);
      state->Begin(listener_);
      return RolloutStep(std::move(state));
    }
    const std::optional<size_t> failed = FailedOperationOf(begun.status());
    if (!failed.has_value()) return begun.status();
    if (*failed == 0 && ErrorOf(begun.status()) == ErrorCode::kNoNode) {
      return internal::SessionLostError(absl::StrCat("the place of ", member, " in the rollout of ",
                                                     path_, " was lost; call Begin again"));
    }
    const bool exists = ErrorOf(begun.status()) == ErrorCode::kNodeExists;
    if (*failed == 3 && exists) {
      const absl::Status gone = WaitUntilNotInStep(member, deadline);
      if (!gone.ok()) return gone;
      continue;
    }
    // PATH, PATH/stopped or the member's record was changed or deleted after it was read.
    const std::optional<ErrorCode> error = ErrorOf(begun.status());
    const bool is_deleted = error == ErrorCode::kNoNode && *failed != 3 &&
                            (*failed != 4 || (*current)->record_version.has_value());
    const bool is_changed = exists || error == ErrorCode::kBadVersion || is_deleted;
    if (!is_changed) return begun.status();
    internal::PauseAfterConflict(attempts);
  }
}

absl::StatusOr<RolloutStep> Rollout::Begin(const std::string& member, int deadline_ms) {
  if (absl::Status s = internal::CallbackThread::CheckMayBlock(); !s.ok()) return s;
  if (member.empty() || member.find('/') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("the member \"", member, "\" of a rollout is not the name of a znode"));
  }
  const internal::WaitDeadline deadline(deadline_ms);
  for (;;) {
    if (absl::Status s = WaitUntilDue(member, deadline); !s.ok()) return s;
    absl::StatusOr<Lease> lease = places_.Acquire(deadline.ReadDeadlineMs());
    if (!lease.ok()) return lease.status();
    absl::StatusOr<std::optional<RolloutStep>> step = BeginAt(*std::move(lease), member, deadline);
    if (!step.ok()) return step.status();
    if (step->has_value()) return **std::move(step);
  }
}

}  // namespace quorate
