// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/persistent_node.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/thread.h"
#include "client/no_waiting.h"
#include "client/recipes/waiting.h"
#include "client/session_loss.h"

namespace quorate {
namespace {

constexpr int kNoDeadline = -1;
constexpr int kDestructorCloseMs = 2000;

// The pause before a retry; it doubles with each refusal in succession.
constexpr std::chrono::milliseconds kFirstPause{50}, kLongestPause{5000};

// Returns whether the error is a temporary lack of resources, in the client or on the servers.
bool MayPass(const absl::Status& status) { return absl::IsResourceExhausted(status); }

}  // namespace

// Creates the znode by a chain of asynchronous calls, of which at most one is pending (`is_busy_`).
// If the znode is deleted meanwhile, the chain starts again when it is over (`is_stale_`).
class PersistentNode::State : public std::enable_shared_from_this<State> {
 public:
  State(Client* client, std::string path, std::string data, Options options)
      : client_(client),
        path_(std::move(path)),
        options_(std::move(options)),
        takes_over_(options_.takes_over),
        data_(std::move(data)) {}

  absl::Status Begin() {
    const std::weak_ptr<State> weak = weak_from_this();
    session_ = client_->ListenToSession([weak](const SessionEvent& event) {
      if (const std::shared_ptr<State> state = weak.lock()) {
        state->OnCallback([&] { state->OnSessionEvent(event); });
      }
    });
    absl::StatusOr<WatchHandle> watch = client_->Watch(
        path_, WatchScope::kNode,
        [weak](const WatchNotification& notification) {
          const auto* event = std::get_if<Event>(&notification);
          const std::shared_ptr<State> state = weak.lock();
          if (state == nullptr || (event != nullptr && event->type != EventType::kNodeDeleted)) {
            return;
          }
          state->OnCallback([&] { state->Ensure(); });
        },
        {.deadline_ms = kNoDeadline});
    if (!watch.ok()) return watch.status();
    watch_ = *std::move(watch);
    OnCallback([this] { Ensure(); });
    return absl::OkStatus();
  }

  absl::Status WaitUntilThere(const internal::WaitDeadline& deadline) {
    if (absl::Status s = internal::CallbackThread::CheckMayBlock(); !s.ok()) return s;
    std::unique_lock<std::mutex> lock(mutex_);
    const auto is_over = [this] {
      return is_there_ || is_stopped_ || !status_.ok() || !refusal_.ok();
    };
    if (!deadline.end().has_value()) {
      changed_.wait(lock, is_over);
    } else if (!changed_.wait_until(lock, *deadline.end(), is_over)) {
      return absl::DeadlineExceededError(absl::StrCat("waited ", deadline.deadline_ms(), " ms for ",
                                                      path_, " to be a znode of this client"));
    }
    if (!status_.ok()) return status_;
    if (is_stopped_) return absl::CancelledError(absl::StrCat(path_, " was closed"));
    return refusal_;
  }
  bool is_there() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return is_there_;
  }

  absl::Status SetData(std::string data) {
    // Checked before taking the lock: its holder may be waiting for the callback thread.
    if (absl::Status s = internal::CallbackThread::CheckMayBlock(); !s.ok()) return s;
    std::lock_guard<std::mutex> setting(setting_mutex_);
    Stat ours;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!status_.ok()) return status_;
      data_ = data;
      ++data_version_;
      if (!is_there_) return absl::OkStatus();
      ours = ours_;
    }
    for (;;) {
      const absl::Status status = client_->Commit(IfOurs(ours).Set(path_, data)).status();
      if (status.ok() || ErrorOf(status) == ErrorCode::kNoNode) return absl::OkStatus();
      // The chain that the next session starts sets the data.
      if (internal::IsSessionReplaced(*client_, status)) return absl::OkStatus();
      if (!MustLookAgain(status)) return status;
      const absl::StatusOr<std::optional<Stat>> stat = client_->Exists(path_);
      if (internal::IsSessionReplaced(*client_, stat.status())) return absl::OkStatus();
      if (!stat.ok()) return stat.status();
      if (!stat->has_value() || !IsOurs(**stat)) return absl::OkStatus();
      ours = **stat;
    }
  }

  absl::Status Close(const internal::WaitDeadline& deadline) {
    if (absl::Status s = internal::CallbackThread::CheckMayBlock(); !s.ok()) return s;
    Stop();
    std::unique_lock<std::mutex> lock(mutex_);
    const auto is_idle = [this] { return !is_busy_; };
    if (!deadline.end().has_value()) {
      changed_.wait(lock, is_idle);
    } else if (!changed_.wait_until(lock, *deadline.end(), is_idle)) {
      return absl::DeadlineExceededError(
          absl::StrCat(path_, " was being created, and may exist until the session ends"));
    }
    if (is_session_over_ || is_deleted_ || options_.mode != CreateMode::kEphemeral) {
      return absl::OkStatus();
    }
    lock.unlock();
    absl::Status status = DeleteOurs(deadline);
    // Our znode has ended with its session.
    if (internal::IsSessionReplaced(*client_, status)) status = absl::OkStatus();
    lock.lock();
    // Later calls of Close must not delete a znode that another client has created since.
    if (status.ok()) is_deleted_ = true;
    return status;
  }

 private:
  // After Stop returns, callbacks do nothing any more.
  void Stop() {
    std::lock_guard<std::mutex> stopping(stopping_mutex_);
    watch_.End();
    session_.End();
    {
      std::lock_guard<std::mutex> telling(telling_mutex_);
      is_closed_ = true;
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_stopped_ = true;
      changed_.notify_all();
    }
    if (retries_.joinable()) retries_.join();
  }

  absl::Status DeleteOurs(const internal::WaitDeadline& deadline) {
    for (;;) {
      const absl::StatusOr<std::optional<Stat>> stat =
          client_->Exists(path_, {.deadline_ms = deadline.ReadDeadlineMs()});
      if (!stat.ok()) return stat.status();
      if (!stat->has_value() || !IsOurs(**stat)) return absl::OkStatus();
      const absl::Status status =
          client_->Commit(IfOurs(**stat).Delete(path_), {.deadline_ms = deadline.ReadDeadlineMs()})
              .status();
      if (ErrorOf(status) == ErrorCode::kNoNode) return absl::OkStatus();
      if (status.ok() || !MustLookAgain(status)) return status;
    }
  }

  // Runs `function`, one at a time; after Stop it only marks the chain as ended. The calls that
  // `function` makes do not wait for space: the callback thread may be waiting for this function.
  template <class Function>
  void OnCallback(Function function) {
    const internal::NoWaiting no_waiting;
    std::lock_guard<std::mutex> telling(telling_mutex_);
    if (!is_closed_) return function();
    std::lock_guard<std::mutex> lock(mutex_);
    is_busy_ = false;
    changed_.notify_all();
  }

  bool IsOurs(const Stat& stat) const {
    // A znode that is not ephemeral has the session 0, as a client without a session.
    return options_.mode != CreateMode::kEphemeral ||
           (stat.ephemeral_session != 0 && stat.ephemeral_session == client_->session_id());
  }
  // Returns a transaction with the condition that the znode is still ours. A znode that is not
  // ephemeral belongs to no session, so there is no condition.
  Transaction IfOurs(const Stat& ours) const {
    Transaction transaction;
    if (options_.mode != CreateMode::kEphemeral) return transaction;
    if (servers_know_creations_)
      return std::move(transaction.CheckCreated(path_, ours.created_zxid));
    return std::move(transaction.CheckVersion(path_, ours.version));
  }
  // Returns whether to read the Stat again after `status`: the znode is not ours, or ours was
  // created again, or some servers are of a version without CheckCreated (UNIMPLEMENTED from new
  // servers, BAD_ARGUMENTS from such a server).
  bool MustLookAgain(const absl::Status& status) {
    const std::optional<ErrorCode> error = ErrorOf(status);
    if (error == ErrorCode::kBadVersion) return true;
    return options_.mode == CreateMode::kEphemeral &&
           (error == ErrorCode::kUnimplemented || error == ErrorCode::kBadArguments) &&
           servers_know_creations_.exchange(false);
  }

  // --- With telling_mutex_ held ------------------------------------------------------------------

  void OnSessionEvent(const SessionEvent& event) {
    if (event.type != SessionEvent::Type::kLost) return;
    // If the session is replaced, a WatchReset follows, and the znode is created again.
    if (!event.is_final) {
      if (options_.mode == CreateMode::kEphemeral) BecomeGone();
      return;
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_session_over_ = true;
    }
    Finish(event.reason.ok() ? absl::CancelledError("the client was closed") : event.reason);
  }

  void CallListener(bool is_there) const {
    if (options_.listener != nullptr) options_.listener(is_there);
  }

  void BecomeGone() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!std::exchange(is_there_, false)) return;
      changed_.notify_all();
    }
    CallListener(false);
  }

  // Starts the chain; if a call is pending, the chain starts again after that.
  void Ensure() {
    BecomeGone();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!status_.ok()) return;
      is_stale_ = std::exchange(is_busy_, true);
      if (is_stale_) return;
      refusal_ = absl::OkStatus();
      retry_at_.reset();
    }
    Create();
  }

  void Create() {
    std::string data;
    uint64_t version = 0;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      data = data_;
      version = data_version_;
    }
    const std::shared_ptr<State> self = shared_from_this();
    client_
        ->AsyncCreate(path_, std::move(data),
                      {.mode = options_.mode,
                       .acl = options_.acl,
                       .create_parents = true,
                       .deadline_ms = kNoDeadline})
        .Then([self, version](absl::StatusOr<CreateResult> created) {
          self->OnCallback([&] {
            if (created.ok()) return self->BecomeThere(version, created->stat);
            if (ErrorOf(created.status()) != ErrorCode::kNodeExists) {
              return self->Finish(created.status());
            }
            self->Examine(std::nullopt);
          });
        });
  }

  // Checks to which session the existing znode belongs. `version` as for BecomeThere.
  void Examine(std::optional<uint64_t> version) {
    const std::shared_ptr<State> self = shared_from_this();
    client_->AsyncExists(path_, {.deadline_ms = kNoDeadline})
        .Then([self, version](absl::StatusOr<std::optional<Stat>> stat) {
          self->OnCallback([&] {
            if (!stat.ok()) return self->Finish(stat.status());
            if (!stat->has_value()) return self->Create();
            if (self->IsOurs(**stat)) return self->BecomeThere(version, **stat);
            if (std::exchange(self->takes_over_, false)) return self->Replace();
            // Wait for the event of its deletion.
            self->Finish(absl::OkStatus());
          });
        });
  }

  void Replace() {
    std::string data;
    uint64_t version = 0;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      data = data_;
      version = data_version_;
    }
    const std::shared_ptr<State> self = shared_from_this();
    client_
        ->AsyncCommit(
            Transaction().Delete(path_).Create(path_, std::move(data), options_.mode, options_.acl),
            {.deadline_ms = kNoDeadline})
        .Then([self, version](absl::StatusOr<TransactionResult> replaced) {
          self->OnCallback([&] {
            if (replaced.ok()) return self->BecomeThere(version, replaced->results[1].stat);
            if (ErrorOf(replaced.status()) != ErrorCode::kNoNode) {
              return self->Finish(replaced.status());
            }
            self->Create();
          });
        });
  }

  // Called when our znode exists. `version` is the data_version_ of its data, if that is known.
  void BecomeThere(std::optional<uint64_t> version, const Stat& stat) {
    takes_over_ = false;  // replace no znode that later takes the place of ours
    std::string data;
    bool is_stale = false, is_set = false, is_new = false;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ours_ = stat;
      is_stale = std::exchange(is_stale_, false);
      is_set = version == data_version_;
      data = data_;
      if (!is_set) version = data_version_;
      // Under the same lock as the check of the data version: a later SetData sees is_there_ and
      // sets the data itself.
      if (!is_stale && is_set) {
        is_new = !std::exchange(is_there_, true);
        pause_ = kFirstPause;
        changed_.notify_all();
      }
    }
    // A deletion was reported: of this znode, or of one that existed before it.
    if (is_stale) return Examine(is_set ? version : std::nullopt);
    if (is_set) {
      if (is_new) CallListener(true);
      return Finish(absl::OkStatus());
    }
    const std::shared_ptr<State> self = shared_from_this();
    client_->AsyncCommit(IfOurs(stat).Set(path_, std::move(data)), {.deadline_ms = kNoDeadline})
        .Then([self, version](absl::StatusOr<TransactionResult> set) {
          self->OnCallback([&] {
            if (set.ok()) return self->BecomeThere(version, set->results.back().stat);
            if (ErrorOf(set.status()) == ErrorCode::kNoNode) return self->Create();
            if (self->MustLookAgain(set.status())) return self->Examine(std::nullopt);
            self->Finish(set.status());
          });
        });
  }

  // Ends the chain with `status`, and starts it again if it is stale or if its session was lost.
  void Finish(const absl::Status& status) {
    bool is_stale = false;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_busy_ = false;
      is_stale = std::exchange(is_stale_, false) && status.ok();
      const bool is_session_replaced = internal::IsSessionReplaced(*client_, status);
      is_stale |= is_session_replaced;
      if (MayPass(status)) {
        refusal_ = status;
        retry_at_ = std::chrono::steady_clock::now() + pause_;
        pause_ = std::min(2 * pause_, kLongestPause);
        // Started only now, because few objects ever need the thread.
        if (!retries_.joinable()) retries_ = StartThread("quorate-retry", [this] { Retry(); });
      } else if (status_.ok() && !is_session_replaced) {
        status_ = status;
      }
      changed_.notify_all();
    }
    if (!status.ok()) BecomeGone();
    if (is_stale) Ensure();
  }

  // --- On a separate thread, which Stop ends -----------------------------------------------------

  void Retry() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!is_stopped_) {
      if (!retry_at_.has_value()) {
        changed_.wait(lock);
      } else if (const auto at = *retry_at_; std::chrono::steady_clock::now() < at) {
        changed_.wait_until(lock, at);
      } else {
        retry_at_.reset();
        lock.unlock();
        OnCallback([this] { EnsureAfterRefusal(); });
        lock.lock();
      }
    }
  }
  // Starts the chain, unless a deletion has started it again meanwhile.
  void EnsureAfterRefusal() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (is_busy_ || refusal_.ok()) return;
    }
    Ensure();
  }

  Client* const client_;
  const std::string path_;
  const Options options_;
  WatchHandle watch_, session_;

  // If false, our znode is recognized by its version, which a znode of another client can have,
  // too.
  std::atomic<bool> servers_know_creations_{true};

  std::mutex stopping_mutex_;
  std::thread retries_;       // not started before the first temporary refusal
  std::mutex setting_mutex_;  // held by SetData, to keep the order of concurrent calls
  std::mutex telling_mutex_;
  // Guarded by telling_mutex_.
  bool is_closed_ = false;
  bool takes_over_;  // whether to replace the next znode that is not ours

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string data_;
  uint64_t data_version_ = 0;
  Stat ours_;  // the last known Stat of our znode
  bool is_there_ = false;
  bool is_busy_ = false;
  bool is_stale_ = false;
  bool is_session_over_ = false;
  bool is_stopped_ = false;
  bool is_deleted_ = false;  // by Close
  absl::Status status_;      // not OK: the znode will not be created any more
  absl::Status refusal_;     // the temporary error of the last try; OK while a try is in progress
  std::optional<std::chrono::steady_clock::time_point> retry_at_;
  std::chrono::milliseconds pause_ = kFirstPause;
};

PersistentNode::PersistentNode(std::shared_ptr<State> state) : state_(std::move(state)) {}
PersistentNode::~PersistentNode() { Close(kDestructorCloseMs).IgnoreError(); }

absl::StatusOr<std::unique_ptr<PersistentNode>> PersistentNode::Start(Client* client,
                                                                      std::string path,
                                                                      std::string data,
                                                                      Options options) {
  if (options.mode != CreateMode::kEphemeral && options.mode != CreateMode::kPersistent &&
      options.mode != CreateMode::kContainer) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a PersistentNode is ephemeral, persistent or a container"));
  }
  auto state =
      std::make_shared<State>(client, std::move(path), std::move(data), std::move(options));
  std::unique_ptr<PersistentNode> node(new PersistentNode(state));
  if (absl::Status s = state->Begin(); !s.ok()) return s;
  return node;
}

absl::Status PersistentNode::WaitUntilThere(int deadline_ms) {
  return state_->WaitUntilThere(internal::WaitDeadline(deadline_ms));
}
bool PersistentNode::is_there() const { return state_->is_there(); }
absl::Status PersistentNode::SetData(std::string data) { return state_->SetData(std::move(data)); }
absl::Status PersistentNode::Close(int deadline_ms) {
  return state_->Close(internal::WaitDeadline(deadline_ms));
}

}  // namespace quorate
