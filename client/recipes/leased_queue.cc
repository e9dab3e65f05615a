// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/leased_queue.h"

#include <atomic>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/no_waiting.h"
#include "client/recipes/lock_node.h"
#include "client/recipes/sequential_names.h"
#include "client/recipes/waiting.h"

namespace quorate {
namespace {

constexpr char kItemPrefix[] = "item-";
constexpr char kLinePrefix[] = "waits-";
// A write without a deadline has a known outcome, unless its session is lost, and the lease with it.
constexpr CallOptions kNoDeadline{.deadline_ms = -1};

// Releases a LockNode at the end of a scope.
class PlaceInLine {
 public:
  PlaceInLine(Client* client, std::string directory) {
    internal::LockNode::Options options;
    options.directory = std::move(directory);
    options.prefix = kLinePrefix;
    options.prefixes = {kLinePrefix};
    options.decide = internal::LockNode::WaitForPrevious;
    node_ = internal::LockNode::Start(client, std::move(options));
  }
  ~PlaceInLine() { node_->Release(); }
  PlaceInLine(const PlaceInLine&) = delete;
  PlaceInLine& operator=(const PlaceInLine&) = delete;

  internal::LockNode& node() { return *node_; }

 private:
  std::shared_ptr<internal::LockNode> node_;
};

}  // namespace

class LeasedItem::State : public std::enable_shared_from_this<State> {
 public:
  State(Client* client, std::string node, std::string lease, std::string data, const Stat& stat)
      : client_(client),
        node_(std::move(node)),
        lease_(std::move(lease)),
        data_(std::move(data)),
        created_zxid_(stat.created_zxid),
        session_id_(stat.ephemeral_session) {}

  void Begin(std::function<void(const std::string&)> on_lost) {
    listener_ = client_->ListenToSession(
        [weak = weak_from_this(), on_lost = std::move(on_lost)](const SessionEvent& event) {
          const std::shared_ptr<State> self = weak.lock();
          if (self == nullptr || !self->IsLostBy(event)) return;
          if (self->is_held_.exchange(false) && on_lost != nullptr) on_lost(self->node_);
        });
    // A loss before the listener was added is not reported to it.
    if (client_->session_id() != session_id_) is_held_ = false;
  }

  const std::string& node() const { return node_; }
  const std::string& data() const { return data_; }
  bool is_held() const { return is_held_; }

  absl::Status Acknowledge() { return Finish(OfLease().Delete(node_).Delete(lease_)); }
  absl::Status Return() { return Finish(OfLease().Delete(lease_)); }
  void ReturnWithoutWaiting() {
    if (is_held_.exchange(false)) {
      const internal::NoWaiting no_waiting;
      client_->AsyncCommit(OfLease().Delete(lease_), kNoDeadline).Then([](const auto&) {});
    }
  }

 private:
  bool IsLostBy(const SessionEvent& event) const {
    return event.type == SessionEvent::Type::kLost ||
           (event.session_id != 0 && event.session_id != session_id_);
  }
  // Returns a transaction that is made only if the lease is the one that was taken.
  Transaction OfLease() const {
    return std::move(Transaction().CheckCreated(lease_, created_zxid_));
  }
  absl::Status Finish(const Transaction& transaction) {
    if (absl::Status s = internal::CallbackThread::CheckMayBlock(); !s.ok()) return s;
    if (std::exchange(is_finished_, true)) {
      return absl::FailedPreconditionError(
          absl::StrCat(node_, " was acknowledged or returned before"));
    }
    const absl::Status status = client_->Commit(transaction, kNoDeadline).status();
    const std::optional<ErrorCode> error = ErrorOf(status);
    is_held_ = false;
    if (error != ErrorCode::kNoNode && error != ErrorCode::kBadVersion) return status;
    return absl::AbortedError(absl::StrCat(
        node_, ": the lease was lost, and another consumer may have the item: ", status.message()));
  }

  Client* const client_;
  const std::string node_, lease_, data_;
  const int64_t created_zxid_, session_id_;
  bool is_finished_ = false;  // Acknowledge or Return was called
  std::atomic<bool> is_held_{true};
  WatchHandle listener_;
};

LeasedItem::LeasedItem(std::shared_ptr<State> state) : state_(std::move(state)) {}
LeasedItem::~LeasedItem() {
  if (state_ != nullptr) state_->ReturnWithoutWaiting();
}
LeasedItem& LeasedItem::operator=(LeasedItem&& other) noexcept {
  const std::shared_ptr<State> old = std::exchange(state_, std::exchange(other.state_, nullptr));
  if (old != nullptr && old != state_) old->ReturnWithoutWaiting();
  return *this;
}

const std::string& LeasedItem::data() const { return state_->data(); }
const std::string& LeasedItem::node() const { return state_->node(); }
bool LeasedItem::is_held() const { return state_ != nullptr && state_->is_held(); }

absl::Status LeasedItem::Acknowledge() { return state_->Acknowledge(); }
absl::Status LeasedItem::Return() { return state_->Return(); }

LeasedQueue::LeasedQueue(Client* client, std::string path, LeasedQueueOptions options)
    : client_(client),
      path_(std::move(path)),
      items_(path_ + "/items"),
      leases_(path_ + "/leases"),
      options_(std::move(options)) {}

absl::Status LeasedQueue::Offer(std::string_view data) {
  return client_
      ->Create(absl::StrCat(items_, "/", kItemPrefix), std::string(data),
               {.mode = CreateMode::kPersistentSequential, .create_parents = true})
      .status();
}

absl::StatusOr<int64_t> LeasedQueue::Size() {
  const absl::StatusOr<ListResult> items = client_->List(items_, {.linearizable = true});
  if (ErrorOf(items.status()) == ErrorCode::kNoNode) return 0;
  if (!items.ok()) return items.status();
  return static_cast<int64_t>(items->children.size());
}

absl::StatusOr<std::optional<LeasedItem>> LeasedQueue::TryTake(int deadline_ms) {
  absl::StatusOr<ListResult> items =
      client_->List(items_, {.linearizable = true, .deadline_ms = deadline_ms});
  if (ErrorOf(items.status()) == ErrorCode::kNoNode) return std::nullopt;
  if (!items.ok()) return items.status();
  // Listed after the items: an item whose lease has ended by an acknowledgement is not taken again,
  // because its znode is gone, too.
  absl::StatusOr<ListResult> leases = client_->List(leases_, {.deadline_ms = deadline_ms});
  if (ErrorOf(leases.status()) == ErrorCode::kNoNode) {
    if (absl::Status s = internal::EnsureZnode(client_, leases_); !s.ok()) return s;
    leases = ListResult();
  }
  if (!leases.ok()) return leases.status();
  const std::set<std::string> leased(leases->children.begin(), leases->children.end());
  for (const SequentialName& item :
       SortSequentialNames(std::move(items->children), {kItemPrefix})) {
    if (leased.contains(item.name)) continue;
    absl::StatusOr<std::optional<LeasedItem>> taken = TryTake(item.name, deadline_ms);
    if (!taken.ok() || taken->has_value()) return taken;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<LeasedItem>> LeasedQueue::TryTake(const std::string& name,
                                                               int deadline_ms) {
  const std::string node = absl::StrCat(items_, "/", name),
                    lease = absl::StrCat(leases_, "/", name);
  absl::StatusOr<GetResult> read = client_->Get(node, {.deadline_ms = deadline_ms});
  if (ErrorOf(read.status()) == ErrorCode::kNoNode) return std::nullopt;
  if (!read.ok()) return read.status();
  const absl::StatusOr<TransactionResult> made = client_->Commit(
      Transaction().CheckExists(node).Create(lease, "", CreateMode::kEphemeral), kNoDeadline);
  // Another consumer has taken or acknowledged the item meanwhile.
  const std::optional<ErrorCode> error = ErrorOf(made.status());
  if (error == ErrorCode::kNodeExists || error == ErrorCode::kNoNode) return std::nullopt;
  if (!made.ok()) return made.status();
  auto state = std::make_shared<LeasedItem::State>(client_, node, lease, std::move(read->data),
                                                   made->results.back().stat);
  state->Begin(options_.on_lost);
  return LeasedItem(std::move(state));
}

absl::StatusOr<std::optional<LeasedItem>> LeasedQueue::Poll() { return TryTake(0); }

absl::StatusOr<LeasedItem> LeasedQueue::Take(int deadline_ms) {
  if (absl::Status s = internal::CallbackThread::CheckMayBlock(); !s.ok()) return s;
  const internal::WaitDeadline deadline(deadline_ms);
  PlaceInLine place(client_, path_ + "-line");
  const absl::Status turn =
      place.node().WaitForTurn(deadline.end().value_or(internal::Deadline::max()));
  if (!turn.ok()) return turn;
  std::optional<LeasedItem> taken;
  const absl::Status status = internal::WaitUntil(
      client_, path_, WatchScope::kSubtree, deadline, absl::StrCat("an item in the queue ", path_),
      [&]() -> absl::StatusOr<bool> {
        absl::StatusOr<std::optional<LeasedItem>> item = TryTake(deadline.ReadDeadlineMs());
        if (!item.ok()) return item.status();
        taken = *std::move(item);
        return taken.has_value();
      },
      place.node().session_id());
  if (!status.ok()) return status;
  return *std::move(taken);
}

}  // namespace quorate
