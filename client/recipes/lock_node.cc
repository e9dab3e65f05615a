// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/lock_node.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "client/recipes/retry.h"
#include "client/session_loss.h"

namespace quorate::internal {
namespace {

constexpr int kNoDeadline = -1;

std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool IsDeletion(const WatchNotification& notification) {
  const auto* event = std::get_if<quorate::Event>(&notification);
  return event != nullptr && event->type == EventType::kNodeDeleted;
}

}  // namespace

Deadline DeadlineIn(int deadline_ms) {
  if (deadline_ms <= 0) return Deadline::max();
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(deadline_ms);
}

std::optional<LockNode::Blocker> LockNode::WaitForPrevious(const std::string& directory,
                                                           const std::vector<SequentialName>& all,
                                                           size_t own) {
  if (own == 0) return std::nullopt;
  return Blocker{directory + "/" + all[own - 1].name, WatchScope::kNode};
}

LockNode::LockNode(Client* client, Options options)
    : client_(client),
      options_(std::move(options)),
      protected_prefix_(NewProtectionPrefix() + options_.prefix) {}

std::shared_ptr<LockNode> LockNode::Start(Client* client, Options options) {
  std::shared_ptr<LockNode> node(new LockNode(client, std::move(options)));
  node->Begin();
  return node;
}

void LockNode::Begin() {
  auto listener = client_->ListenToSession([weak = weak_from_this()](const SessionEvent& event) {
    if (auto self = weak.lock()) self->OnSessionEvent(event);
  });
  {
    std::lock_guard<std::mutex> lock(mutex_);
    session_listener_ = std::move(listener);
  }
  Create();
}

// --- Creation ------------------------------------------------------------------------------------

void LockNode::Create() {
  const bool is_numbered = !options_.number.empty();
  const std::string path = options_.directory + "/" + protected_prefix_ + options_.number;
  if (is_numbered) return CreateNumbered(path);
  const auto self = shared_from_this();
  // Sends both calls together to save a round trip: the list follows the creation, and shows it.
  uint64_t round = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    round = ++round_;
  }
  CallUntilTaken(
      client_,
      [self, path] {
        return self->client_->AsyncCreate(
            path, self->options_.data,
            {.mode = CreateMode::kEphemeralSequential, .deadline_ms = kNoDeadline});
      },
      [self](absl::StatusOr<CreateResult> created) { self->OnCreated(std::move(created)); },
      [self] { return self->is_creating(); });
  CallWithoutWaiting([&] {
    return client_->AsyncList(options_.directory, {.deadline_ms = kNoDeadline});
  }).Then([self, round](absl::StatusOr<ListResult> listed) {
    self->OnListed(round, std::move(listed));
  });
}

void LockNode::CreateNumbered(const std::string& path) {
  Transaction transaction;
  transaction.CheckExists(options_.behind).Create(path, options_.data, CreateMode::kEphemeral);
  const auto self = shared_from_this();
  CallUntilTaken(
      client_,
      [self, transaction] {
        return self->client_->AsyncCommit(transaction, {.deadline_ms = kNoDeadline});
      },
      [self](absl::StatusOr<TransactionResult> made) {
        if (made.ok()) {
          const OperationResult& created = made->results[1];
          return self->OnCreated(CreateResult{created.path, created.stat, made->zxid});
        }
        if (ErrorOf(made.status()) != ErrorCode::kNoNode) return self->OnCreated(made.status());
        self->OnCreated(absl::AbortedError(self->options_.behind + " was deleted"));
      },
      [self] { return self->is_creating(); });
}

void LockNode::CreateDirectory() {
  // Containers, so that the servers delete the directory when no contender is left.
  const std::string& directory = options_.directory;
  for (size_t slash = directory.find('/', 1); slash != std::string::npos;
       slash = directory.find('/', slash + 1)) {
    CallWithoutWaiting([&] {
      return client_->AsyncCreate(directory.substr(0, slash), "",
                                  {.mode = CreateMode::kContainer, .deadline_ms = kNoDeadline});
    }).Then([](const auto&) {});  // if this fails, the last create fails, too
  }
  const auto self = shared_from_this();
  CallUntilTaken(
      client_,
      [self] {
        return self->client_->AsyncCreate(self->options_.directory, "",
                                          {.mode = CreateMode::kContainer,
                                           .create_parents = true,  // those above the chroot
                                           .deadline_ms = kNoDeadline});
      },
      [self](absl::StatusOr<CreateResult> created) {
        if (created.ok() || ErrorOf(created.status()) == ErrorCode::kNodeExists) {
          self->Create();
        } else {
          self->End(created.status());
          self->SetGone(absl::OkStatus());  // needed if the node was released meanwhile
        }
      },
      [self] { return self->is_creating(); });
}

void LockNode::OnCreated(absl::StatusOr<CreateResult> created) {
  bool is_wanted = false;
  bool is_list_due = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_wanted = state_ == State::kCreating;
    is_list_due = std::exchange(is_list_due_, false);
    if (!created.ok()) ++round_;  // the answer of the pending list is to be ignored
    if (created.ok()) {
      path_ = created->path;
      session_id_ = created->stat.ephemeral_session;
      fencing_token_ =
          options_.fencing_token != 0 ? options_.fencing_token : created->stat.created_zxid;
      if (is_wanted) {
        had_turn_ = !options_.number.empty();
        state_ = had_turn_ ? State::kTurn : State::kWaiting;
        changed_.notify_all();
      }
    }
  }
  if (!is_wanted) {
    if (created.ok()) return Delete();
    return SetGone(absl::OkStatus());
  }
  if (ErrorOf(created.status()) == ErrorCode::kNoNode) return CreateDirectory();
  if (!created.ok()) return End(created.status());
  WatchOwn(created->stat.created_zxid);
  Tell({Event::Type::kCreated});
  if (has_turn()) Tell({Event::Type::kTurn});
  if (is_list_due) List();
}

// --- The own znode -------------------------------------------------------------------------------

void LockNode::WatchOwn(int64_t created_zxid) {
  const auto self = shared_from_this();
  CallUntilTaken(
      client_,
      [self, created_zxid] {
        return self->client_->AsyncWatch(
            self->path(), WatchScope::kNode,
            [weak = self->weak_from_this()](const WatchNotification& notification) {
              if (auto live = weak.lock()) live->OnOwnNotification(notification);
            },
            {.after_zxid = created_zxid, .deadline_ms = kNoDeadline});
      },
      [self](absl::StatusOr<WatchHandle> watch) {
        if (!watch.ok()) return self->End(watch.status());
        std::lock_guard<std::mutex> lock(self->mutex_);
        // On the callback thread, ending a handle never waits, so the lock may be held.
        if (self->state_ != State::kEnded) self->own_watch_ = *std::move(watch);
      },
      [self] { return !self->has_ended(); });
}

void LockNode::OnOwnNotification(const WatchNotification& notification) {
  if (!IsDeletion(notification)) return CheckOwn();
  // The znode may have been deleted because the session ended. Then this call fails after kLost was
  // reported, and the node has ended with that reason.
  const auto self = shared_from_this();
  CallUntilTaken(
      client_,
      [self] { return self->client_->AsyncExists(self->path(), {.deadline_ms = kNoDeadline}); },
      [self](const auto&) {
        self->End(absl::AbortedError(absl::StrCat(self->path(), " was deleted")));
      },
      [self] { return !self->has_ended(); });
}

void LockNode::CheckOwn() {
  const auto self = shared_from_this();
  CallUntilTaken(
      client_,
      [self] { return self->client_->AsyncGet(self->path(), {.deadline_ms = kNoDeadline}); },
      [self](const absl::StatusOr<GetResult>& read) {
        if (self->has_ended()) return;
        if (ErrorOf(read.status()) == ErrorCode::kNoNode) {
          return self->End(absl::AbortedError(absl::StrCat(self->path(), " was deleted")));
        }
        if (read.ok() && read->data == kRevocationMessage) self->Tell({Event::Type::kRevoked});
      },
      [self] { return !self->has_ended(); });
}

// --- The line ------------------------------------------------------------------------------------

void LockNode::List() {
  uint64_t round = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    round = ++round_;
  }
  const auto self = shared_from_this();
  CallUntilTaken(
      client_,
      [self] {
        return self->client_->AsyncList(self->options_.directory, {.deadline_ms = kNoDeadline});
      },
      [self, round](absl::StatusOr<ListResult> listed) {
        self->OnListed(round, std::move(listed));
      },
      [self, round] { return self->is_waiting_in(round); });
}

void LockNode::OnListed(uint64_t round, absl::StatusOr<ListResult> listed) {
  std::string own_name;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_list_due_ |= round == round_ && state_ == State::kCreating;
    if (round != round_ || state_ != State::kWaiting) return;
    own_name = NameOf(path_);
  }
  // The client can refuse only the list that was sent together with the creation.
  if (IsRefusedByClient(listed.status())) return List();
  if (!listed.ok() && ErrorOf(listed.status()) != ErrorCode::kNoNode) return End(listed.status());
  std::vector<SequentialName> all;
  if (listed.ok()) all = SortSequentialNames(std::move(listed->children), options_.prefixes);
  const auto own = std::find_if(all.begin(), all.end(),
                                [&](const SequentialName& each) { return each.name == own_name; });
  if (own == all.end()) {
    return End(absl::AbortedError(absl::StrCat(path(), " was deleted")));
  }
  const std::optional<Blocker> blocker =
      options_.decide(options_.directory, all, static_cast<size_t>(own - all.begin()));
  WatchHandle old;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (round != round_ || state_ != State::kWaiting) return;
    is_blocked_ = blocker.has_value();
    had_turn_ = !is_blocked_;
    if (had_turn_) state_ = State::kTurn;
    old = std::move(blocker_watch_);
    changed_.notify_all();
  }
  if (!blocker.has_value()) return Tell({Event::Type::kTurn});
  // The watch begins at the zxid of the list, so that no deletion is missed: it also reports those
  // that have happened already.
  WatchBlocker(round, *blocker, listed->zxid);
  Tell({Event::Type::kWaits});
}

void LockNode::WatchBlocker(uint64_t round, const Blocker& blocker, int64_t after_zxid) {
  const auto self = shared_from_this();
  CallUntilTaken(
      client_,
      [self, round, blocker, after_zxid] {
        return self->client_->AsyncWatch(
            blocker.path, blocker.scope,
            [weak = self->weak_from_this(), round](const WatchNotification& notification) {
              if (auto live = weak.lock()) live->OnBlockerNotification(round, notification);
            },
            {.after_zxid = after_zxid, .deadline_ms = kNoDeadline});
      },
      [self, round](absl::StatusOr<WatchHandle> watch) {
        const absl::Status status = watch.status();
        {
          std::lock_guard<std::mutex> lock(self->mutex_);
          if (round != self->round_ || self->state_ != State::kWaiting) return;
          if (status.ok()) self->blocker_watch_ = *std::move(watch);
        }
        if (!status.ok()) self->End(status);
      },
      [self, round] { return self->is_waiting_in(round); });
}

void LockNode::OnBlockerNotification(uint64_t round, const WatchNotification& notification) {
  if (!IsDeletion(notification) && !std::holds_alternative<WatchReset>(notification)) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (round != round_ || state_ != State::kWaiting) return;
  }
  Tell({Event::Type::kMovesUp});
  List();
}

// --- The session ---------------------------------------------------------------------------------

void LockNode::OnSessionEvent(const SessionEvent& event) {
  bool is_lost = event.type == SessionEvent::Type::kLost;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // An event of a later session shows the loss, too, if kLost was merged into it.
    is_lost |= session_id_ != 0 && event.session_id != 0 && event.session_id != session_id_;
    is_session_over_ |= is_lost;
  }
  if (is_lost) {
    End(event.type == SessionEvent::Type::kLost
            ? event.reason
            : SessionLostError(absl::StrCat("the session of ", path(), " has ended")));
    return SetGone(absl::OkStatus());
  }
  const bool is_suspended = event.type == SessionEvent::Type::kSuspended;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(is_suspended_, is_suspended) == is_suspended) return;
  }
  if (has_ended()) return;
  Tell({is_suspended ? Event::Type::kSuspended : Event::Type::kResumed, event.reason});
}

// --- The end -------------------------------------------------------------------------------------

void LockNode::End(const absl::Status& status) {
  ASSERT(!status.ok());
  bool is_there = false;
  WatchHandle own, blocker;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (state_ == State::kEnded) return;
    is_there = !path_.empty() && !is_session_over_;
    state_ = State::kEnded;
    status_ = status;
    own = std::move(own_watch_);
    blocker = std::move(blocker_watch_);
    changed_.notify_all();
  }
  // A node that cannot continue must not block others: delete its znode.
  if (is_there) {
    Delete();
  } else {
    SetGone(absl::OkStatus());
  }
  Tell({Event::Type::kEnded, status});
}

bool LockNode::Release() {
  bool is_there = false;
  WatchHandle own, blocker;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (state_ == State::kEnded) return false;
    is_released_ = true;
    is_there = state_ != State::kCreating;
    state_ = State::kEnded;
    status_ = absl::CancelledError("the node was released");
    own = std::move(own_watch_);
    blocker = std::move(blocker_watch_);
    changed_.notify_all();
  }
  // Otherwise OnCreated deletes the znode when its creation is answered.
  if (is_there) Delete();
  return true;
}

void LockNode::Delete() {
  const auto self = shared_from_this();
  CallUntilTaken(
      client_,
      [self] { return self->client_->AsyncDelete(self->path(), {.deadline_ms = kNoDeadline}); },
      [self](const absl::StatusOr<uint32_t>& deleted) {
        const bool was_gone = ErrorOf(deleted.status()) == ErrorCode::kNoNode;
        self->SetGone(was_gone ? absl::OkStatus() : deleted.status());
      },
      [] { return true; });
}

void LockNode::SetGone(const absl::Status& status) {
  bool is_told = false;
  WatchHandle listener;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(is_gone_, true)) return;
    is_told = is_released_;
    delete_status_ = status;
    listener = std::move(session_listener_);
    changed_.notify_all();
  }
  if (is_told) Tell({Event::Type::kReleased});
}

absl::Status LockNode::WaitForTurn(Deadline deadline, const std::stop_token& stop) {
  absl::Status status;
  {
    // Its destructor waits until the callback has returned, if that runs.
    const std::stop_callback on_stop(stop, [this] { Release(); });
    status = WaitForTurn(deadline);
  }
  if (stop.stop_requested() && has_ended() && (status.ok() || absl::IsCancelled(status))) {
    return absl::CancelledError(
        absl::StrCat(options_.directory, ": the wait for the lock was cancelled"));
  }
  return status;
}

absl::Status LockNode::WaitForTurn(Deadline deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (state_ == State::kCreating || state_ == State::kWaiting) {
    if (deadline == Deadline::max()) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) {
      break;
    }
  }
  if (state_ == State::kTurn) return absl::OkStatus();
  if (state_ == State::kEnded) return status_;
  return absl::DeadlineExceededError(absl::StrCat(
      options_.directory, ": not acquired before the deadline, because others held it"));
}

absl::StatusOr<bool> LockNode::WaitForFirstDecision(Deadline deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (state_ == State::kCreating || (state_ == State::kWaiting && !is_blocked_)) {
    if (deadline == Deadline::max()) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) {
      return absl::DeadlineExceededError(
          absl::StrCat(options_.directory, ": no member answered until the deadline"));
    }
  }
  if (state_ == State::kEnded) return status_;
  return state_ == State::kTurn;
}

absl::Status LockNode::WaitUntilGone(Deadline deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!is_gone_) {
    if (deadline == Deadline::max()) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) {
      return absl::DeadlineExceededError(
          absl::StrCat(path_, " is still being deleted; the deletion continues"));
    }
  }
  return delete_status_;
}

void LockNode::Tell(Event event) const {
  if (options_.handler != nullptr) options_.handler(*this, event);
}

bool LockNode::has_turn() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return state_ == State::kTurn;
}
bool LockNode::had_turn() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return had_turn_;
}
bool LockNode::has_ended() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return state_ == State::kEnded;
}
bool LockNode::is_creating() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return state_ == State::kCreating;
}
bool LockNode::is_waiting_in(uint64_t round) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return round == round_ && state_ == State::kWaiting;
}
bool LockNode::is_gone() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return is_gone_;
}
bool LockNode::is_suspended() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return is_suspended_;
}
absl::Status LockNode::status() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}
std::string LockNode::path() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return path_;
}
absl::Status LockNode::Guard(Transaction* transaction) const {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (state_ == State::kTurn) {
      transaction->CheckExists(path_);
      return absl::OkStatus();
    }
    if (state_ != State::kEnded || is_released_) {
      return absl::FailedPreconditionError(
          absl::StrCat(options_.directory, ": the lock is not held; acquire it first"));
    }
  }
  return LostError();
}
absl::Status LockNode::LostError() const {
  return absl::AbortedError(
      absl::StrCat(options_.directory, " was lost while it was held: ", status().message()));
}
int64_t LockNode::session_id() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return session_id_;
}
int64_t LockNode::fencing_token() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return fencing_token_;
}

}  // namespace quorate::internal
