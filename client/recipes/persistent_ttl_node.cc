// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/persistent_ttl_node.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/recipes/persistent_node.h"
#include "client/recipes/retry.h"
#include "client/recipes/waiting.h"
#include "client/session_loss.h"
#include "client/timer.h"

namespace quorate {
namespace {

constexpr char kTouch[] = "/touch";
constexpr int kNoDeadline = -1;
constexpr int kDestructorCloseMs = 2000;
// ZooKeeper has 40 bits for a TTL.
constexpr int64_t kTtlMaxMs = (int64_t{1} << 40) - 1;
constexpr std::chrono::milliseconds kLongestPauseAfterError{1000};

}  // namespace

// Touches by a chain of asynchronous calls, of which at most one is pending (`is_touching_`), and a
// timer between them. A touch that becomes due while one is pending follows that (`is_due_`).
class PersistentTtlNode::State : public std::enable_shared_from_this<State> {
 public:
  State(Client* client, const std::string& path, PersistentTtlNodeOptions options)
      : client_(client),
        path_(path),
        touch_(path + kTouch),
        period_(std::max<int64_t>(options.ttl_ms / options.touches_per_ttl, 1)),
        options_(std::move(options)) {}

  absl::Status Begin(std::string data) {
    PersistentNode::Options options;
    options.mode = CreateMode::kContainer;
    options.acl = options_.acl;
    options.listener = [weak = weak_from_this()](bool is_there) {
      if (const std::shared_ptr<State> state = weak.lock()) state->OnContainer(is_there);
    };
    auto node = PersistentNode::Start(client_, path_, std::move(data), std::move(options));
    if (!node.ok()) return node.status();
    node_ = *std::move(node);
    return absl::OkStatus();
  }

  absl::Status WaitUntilThere(const internal::WaitDeadline& deadline) {
    const absl::Status late = absl::DeadlineExceededError(absl::StrCat(
        "waited ", deadline.deadline_ms(), " ms for ", path_, " and ", touch_, " to exist"));
    if (deadline.is_over()) return late;
    const int node_ms = deadline.end().has_value() ? deadline.ReadDeadlineMs() : 0;
    if (absl::Status s = node_->WaitUntilThere(node_ms); !s.ok()) return s;
    std::unique_lock<std::mutex> lock(mutex_);
    const auto is_over = [this] { return is_touched_ || is_closed_ || !refusal_.ok(); };
    if (!deadline.end().has_value()) {
      changed_.wait(lock, is_over);
    } else if (!changed_.wait_until(lock, *deadline.end(), is_over)) {
      return late;
    }
    if (is_closed_) return absl::CancelledError(absl::StrCat(path_, " was closed"));
    return refusal_;
  }

  bool is_there() const {
    if (!node_->is_there()) return false;
    std::lock_guard<std::mutex> lock(mutex_);
    return is_touched_;
  }

  absl::Status SetData(std::string data) { return node_->SetData(std::move(data)); }

  absl::Status Close(int deadline_ms) {
    if (absl::Status s = internal::CallbackThread::CheckMayBlock(); !s.ok()) return s;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_closed_ = true;
      changed_.notify_all();
    }
    return node_->Close(deadline_ms);
  }

 private:
  void OnContainer(bool is_there) {
    if (!is_there) {
      std::lock_guard<std::mutex> lock(mutex_);
      is_touched_ = false;
    } else {
      Touch();
    }
    if (options_.listener != nullptr) options_.listener(is_there);
  }

  bool is_closed() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return is_closed_;
  }

  void Touch() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (is_closed_) return;
      is_due_ = std::exchange(is_touching_, true);
      if (is_due_) return;
      ++touches_;
    }
    const std::shared_ptr<State> self = shared_from_this();
    internal::CallUntilTaken(
        client_,
        [self] { return self->client_->AsyncSet(self->touch_, "", {.deadline_ms = kNoDeadline}); },
        [self](const absl::StatusOr<Stat>& set) {
          if (ErrorOf(set.status()) == ErrorCode::kNoNode) return self->Create();
          self->Finish(set.status());
        },
        [self] { return !self->is_closed(); });
  }

  void Create() {
    const std::shared_ptr<State> self = shared_from_this();
    internal::CallUntilTaken(
        client_,
        [self] {
          return self->client_->AsyncCreate(self->touch_, "",
                                            {.mode = CreateMode::kPersistentWithTtl,
                                             .acl = self->options_.acl,
                                             .ttl_ms = self->options_.ttl_ms,
                                             .deadline_ms = kNoDeadline});
        },
        [self](const absl::StatusOr<CreateResult>& created) {
          // Another holder has created it meanwhile, which is as good as a touch.
          const bool exists = ErrorOf(created.status()) == ErrorCode::kNodeExists;
          self->Finish(exists ? absl::OkStatus() : created.status());
        },
        [self] { return !self->is_closed(); });
  }

  // Ends the touch with `status`, and begins the next one, now or later.
  void Finish(const absl::Status& status) {
    std::chrono::milliseconds pause = period_;
    uint64_t touches = 0;
    const bool is_session_replaced = internal::IsSessionReplaced(*client_, status);
    bool is_due = false;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_touching_ = false;
      is_due = std::exchange(is_due_, false) || is_session_replaced;
      touches = touches_;
      if (status.ok()) {
        // If PATH was deleted meanwhile, the next touch is due.
        is_touched_ = !is_due;
        refusal_ = absl::OkStatus();
      } else if (!is_session_replaced) {
        is_touched_ = false;
        pause = std::min(pause, kLongestPauseAfterError);
        // Without PATH there is no touch; the PersistentNode creates PATH, and then OnContainer touches.
        if (ErrorOf(status) != ErrorCode::kNoNode) refusal_ = status;
      }
      changed_.notify_all();
    }
    const Client::State state = client_->state();
    if (state == Client::State::kLost || state == Client::State::kClosed) return;
    if (is_due) return Touch();
    internal::RunAfter(client_, pause, [weak = weak_from_this(), touches] {
      if (const std::shared_ptr<State> self = weak.lock()) self->TouchAfter(touches);
    });
  }

  // Touches, unless another touch has begun since the one with the number `touches`.
  void TouchAfter(uint64_t touches) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (touches_ != touches) return;
    }
    Touch();
  }

  Client* const client_;
  const std::string path_, touch_;
  const std::chrono::milliseconds period_;
  const PersistentTtlNodeOptions options_;
  std::unique_ptr<PersistentNode> node_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t touches_ = 0;  // how many have begun
  bool is_touching_ = false;
  bool is_due_ = false;
  bool is_touched_ = false;  // the last touch has succeeded, and PATH was not deleted since
  bool is_closed_ = false;
  absl::Status refusal_;  // of the last touch
};

PersistentTtlNode::PersistentTtlNode(std::shared_ptr<State> state) : state_(std::move(state)) {}
PersistentTtlNode::~PersistentTtlNode() { Close(kDestructorCloseMs).IgnoreError(); }

absl::StatusOr<std::unique_ptr<PersistentTtlNode>> PersistentTtlNode::Start(
    Client* client, std::string path, std::string data, PersistentTtlNodeOptions options) {
  if (options.ttl_ms <= 0 || options.ttl_ms > kTtlMaxMs) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": a TTL of ", options.ttl_ms,
                                                   " ms is not possible; it has to be from 1 to ",
                                                   kTtlMaxMs));
  }
  if (options.touches_per_ttl < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": touches_per_ttl is ", options.touches_per_ttl,
        "; it has to be 2 or more, so that the znode does not expire while its holder lives"));
  }
  auto state = std::make_shared<State>(client, path, std::move(options));
  if (absl::Status s = state->Begin(std::move(data)); !s.ok()) return s;
  return std::unique_ptr<PersistentTtlNode>(new PersistentTtlNode(std::move(state)));
}

absl::Status PersistentTtlNode::WaitUntilThere(int deadline_ms) {
  if (absl::Status s = internal::CallbackThread::CheckMayBlock(); !s.ok()) return s;
  return state_->WaitUntilThere(internal::WaitDeadline(deadline_ms));
}
bool PersistentTtlNode::is_there() const { return state_->is_there(); }
absl::Status PersistentTtlNode::SetData(std::string data) {
  return state_->SetData(std::move(data));
}
absl::Status PersistentTtlNode::Close(int deadline_ms) { return state_->Close(deadline_ms); }

}  // namespace quorate
