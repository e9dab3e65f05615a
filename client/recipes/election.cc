// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/election.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/recipes/listener.h"
#include "client/recipes/lock_node.h"
#include "client/recipes/sequential_names.h"
#include "client/session_loss.h"

namespace quorate {

using internal::CallbackThread;
using internal::Deadline;
using internal::DeadlineIn;
using internal::LockNode;

namespace {

constexpr char kPrefix[] = "lock-";

}  // namespace

std::string_view NameOf(ElectionState state) {
  switch (state) {
    case ElectionState::kStart:
      return "START";
    case ElectionState::kOffer:
      return "OFFER";
    case ElectionState::kDetermine:
      return "DETERMINE";
    case ElectionState::kReady:
      return "READY";
    case ElectionState::kElected:
      return "ELECTED";
    case ElectionState::kSuspended:
      return "SUSPENDED";
    case ElectionState::kFailed:
      return "FAILED";
    case ElectionState::kStopped:
      return "STOPPED";
  }
  return "?";
}

// Shared with callbacks, which may run after the Election is destroyed.
class Election::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(Client* client, std::string path, ElectionOptions options, std::string prefix,
       StartNode start_node)
      : client_(client),
        path_(std::move(path)),
        id_(std::move(options.id)),
        prefix_(std::move(prefix)),
        start_node_(std::move(start_node)),
        listener_(std::move(options.listener)) {}

  absl::Status Start();
  void Stop();
  // Blocks until all znodes of this candidate are deleted, and none is being created.
  absl::Status WaitUntilGone(Deadline deadline);
  absl::Status Resign();
  void EndListener() { listener_.End(); }
  ElectionState state() const;
  absl::StatusOr<int64_t> AwaitLeadership(Deadline deadline);
  absl::StatusOr<std::vector<Participant>> Participants(ReadOptions options);
  // Of the leadership with `fencing_token`; nullopt: of any.
  absl::Status Guard(std::optional<int64_t> fencing_token, Transaction* transaction) const;

 private:
  // Makes the offer with the number `offer`, if that is still the current one. The znode of an
  // older offer never replaces that of a newer one, however late start_node_ returns it. REQUIRES:
  // called once for each number, in the state kOffer.
  void Offer(uint64_t offer);
  // Called when the znode of `offer` was deleted by another client, or with its session: makes the
  // next offer, if `offer` is the current one.
  void OfferAgain(uint64_t offer, const absl::Status& reason);
  // Adds `node`, if not null, to `leaving_`. REQUIRES: mutex_ is held; the caller releases `node`
  // after that.
  void Leave(std::shared_ptr<LockNode> node);
  // Releases all nodes in `leaving_`. REQUIRES: the listener was called with the new state.
  void ReleaseAll();
  void OnEvent(uint64_t offer, const LockNode& node, const LockNode::Event& event);
  // Makes `node` the one that Guard uses, if `offer` is the current one: its events can come before
  // start_node_ has returned it.
  void Adopt(uint64_t offer, const LockNode& node);
  // Changes to `state`, if `offer` is the current one.
  void Enter(uint64_t offer, ElectionState state, const LockNode* node = nullptr,
             const absl::Status& reason = absl::OkStatus());
  // REQUIRES: mutex_ is held; listener_.TellAll is called soon.
  void EnterLocked(ElectionState state, int64_t fencing_token, const absl::Status& reason);
  static bool IsCandidate(ElectionState state) {
    return state != ElectionState::kFailed && state != ElectionState::kStopped;
  }

  Client* const client_;
  const std::string path_;
  const std::string id_;
  const std::string prefix_;
  const StartNode start_node_;
  internal::Listener<ElectionEvent> listener_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_started_ = false;
  bool is_stopped_ = false;  // since the last Start
  uint64_t offer_ = 0;       // the current offer; events of other offers are ignored
  ElectionState state_ = ElectionState::kStart;
  absl::Status reason_;
  int64_t fencing_token_ = 0;
  std::shared_ptr<LockNode> node_;
  int offers_under_way_ = 0;
  // Nodes of offers that are given up, whose znodes may still exist.
  std::vector<std::shared_ptr<LockNode>> leaving_;
};

absl::Status Election::Core::Start() {
  uint64_t offer = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_started_ && IsCandidate(state_)) {
      return absl::FailedPreconditionError(absl::StrCat("this is already a candidate at ", path_));
    }
    is_started_ = true;
    is_stopped_ = false;
    offer = ++offer_;
    EnterLocked(ElectionState::kStart, 0, absl::OkStatus());
    EnterLocked(ElectionState::kOffer, 0, absl::OkStatus());
  }
  listener_.TellAll();
  Offer(offer);
  return absl::OkStatus();
}

void Election::Core::Offer(uint64_t offer) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (offer != offer_ || is_stopped_) return;
    ++offers_under_way_;
  }
  LockNode::Options options;
  options.directory = path_;
  options.prefix = prefix_;
  options.prefixes = {prefix_};
  options.data = id_;
  options.decide = &LockNode::WaitForPrevious;
  options.handler = [weak = weak_from_this(), offer](const LockNode& node,
                                                     const LockNode::Event& event) {
    if (auto self = weak.lock()) self->OnEvent(offer, node, event);
  };
  std::shared_ptr<LockNode> node = start_node_(client_, std::move(options));
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (offer == offer_ && !is_stopped_) {
      if (node_ == node) {
        node = nullptr;  // adopted before
      } else {
        node.swap(node_);
      }
    }
    // `node` is now the node of the previous offer, or that of this one if it is not wanted any
    // more.
    Leave(node);
    --offers_under_way_;
    changed_.notify_all();
  }
  if (node != nullptr) node->Release();
}

void Election::Core::OfferAgain(uint64_t offer, const absl::Status& reason) {
  uint64_t next = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (offer != offer_ || is_stopped_) return;
    next = ++offer_;
    EnterLocked(ElectionState::kOffer, 0, reason);
  }
  listener_.TellAll();
  Offer(next);
}

void Election::Core::Leave(std::shared_ptr<LockNode> node) {
  std::erase_if(leaving_, [](const auto& each) { return each->is_gone(); });
  if (node != nullptr) leaving_.push_back(std::move(node));
}

void Election::Core::ReleaseAll() {
  std::vector<std::shared_ptr<LockNode>> leaving;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    leaving = leaving_;
  }
  for (const std::shared_ptr<LockNode>& node : leaving) node->Release();
}

void Election::Core::Adopt(uint64_t offer, const LockNode& node) {
  std::shared_ptr<LockNode> before;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (offer != offer_ || is_stopped_ || node_.get() == &node) return;
    before = std::exchange(node_, std::const_pointer_cast<LockNode>(node.shared_from_this()));
    Leave(before);
  }
  if (before != nullptr) before->Release();
}

void Election::Core::OnEvent(uint64_t offer, const LockNode& node, const LockNode::Event& event) {
  using Type = LockNode::Event::Type;
  switch (event.type) {
    case Type::kCreated:
      Adopt(offer, node);
      Enter(offer, ElectionState::kDetermine);
      return;
    case Type::kMovesUp:
      Enter(offer, ElectionState::kDetermine);
      return;
    case Type::kWaits:
      Enter(offer, ElectionState::kReady);
      return;
    case Type::kTurn:
      Enter(offer, ElectionState::kElected, &node);
      return;
    case Type::kSuspended:
      if (node.has_turn()) Enter(offer, ElectionState::kSuspended, nullptr, event.reason);
      return;
    case Type::kResumed:
      if (node.has_turn()) Enter(offer, ElectionState::kElected, &node);
      return;
    case Type::kRevoked:
    case Type::kReleased:
      return;
    case Type::kEnded:
      if (absl::IsAborted(event.reason) || internal::IsSessionReplaced(*client_, event.reason)) {
        return OfferAgain(offer, event.reason);
      }
      Enter(offer, ElectionState::kFailed, nullptr, event.reason);
      return;
  }
}

void Election::Core::Enter(uint64_t offer, ElectionState state, const LockNode* node,
                           const absl::Status& reason) {
  const int64_t fencing_token = node == nullptr ? 0 : node->fencing_token();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (offer != offer_ || is_stopped_) return;
    EnterLocked(state, fencing_token, reason);
  }
  listener_.TellAll();
}

void Election::Core::EnterLocked(ElectionState state, int64_t fencing_token,
                                 const absl::Status& reason) {
  state_ = state;
  reason_ = reason;
  fencing_token_ = fencing_token;
  changed_.notify_all();
  listener_.Add({state, fencing_token, reason});
}

void Election::Core::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!is_started_ || !IsCandidate(state_)) return;
    is_stopped_ = true;
    EnterLocked(ElectionState::kStopped, 0, absl::OkStatus());
    Leave(std::exchange(node_, nullptr));
  }
  // The listener is called before others can be elected.
  listener_.TellAllAndWait();
  ReleaseAll();
}

absl::Status Election::Core::WaitUntilGone(Deadline deadline) {
  std::vector<std::shared_ptr<LockNode>> leaving;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    while (offers_under_way_ > 0) {
      if (deadline == Deadline::max()) {
        changed_.wait(lock);
      } else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) {
        return absl::DeadlineExceededError(absl::StrCat(path_, ": the candidate is being stopped"));
      }
    }
    leaving = leaving_;
  }
  absl::Status status;
  for (const std::shared_ptr<LockNode>& node : leaving) {
    status.Update(node->WaitUntilGone(deadline));
  }
  return status;
}

absl::Status Election::Core::Resign() {
  uint64_t offer = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!is_started_ || !IsCandidate(state_)) {
      return absl::FailedPreconditionError(absl::StrCat("this is not a candidate at ", path_));
    }
    offer = ++offer_;
    EnterLocked(ElectionState::kOffer, 0, absl::CancelledError("the candidate resigned"));
    Leave(std::exchange(node_, nullptr));
  }
  // The listener is called before others can be elected.
  listener_.TellAllAndWait();
  ReleaseAll();
  Offer(offer);
  return absl::OkStatus();
}

absl::Status Election::Core::Guard(std::optional<int64_t> fencing_token,
                                   Transaction* transaction) const {
  std::shared_ptr<LockNode> node;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const bool leads = state_ == ElectionState::kElected || state_ == ElectionState::kSuspended;
    if (leads) node = node_;
  }
  if (node != nullptr && fencing_token.value_or(node->fencing_token()) != node->fencing_token()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the leadership at ", path_,
        " has ended, and this candidate leads in a later one, which has its own token"));
  }
  if (node == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("this candidate does not lead at ", path_));
  }
  return node->Guard(transaction);
}

ElectionState Election::Core::state() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return state_;
}

absl::StatusOr<int64_t> Election::Core::AwaitLeadership(Deadline deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (is_started_ && state_ != ElectionState::kElected && IsCandidate(state_)) {
    if (deadline == Deadline::max()) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) {
      return absl::DeadlineExceededError(absl::StrCat(path_, ": others led until the deadline"));
    }
  }
  if (!is_started_ || state_ == ElectionState::kStopped) {
    return absl::FailedPreconditionError(absl::StrCat("this is not a candidate at ", path_));
  }
  if (state_ == ElectionState::kFailed) return reason_;
  return fencing_token_;
}

absl::StatusOr<std::vector<Participant>> Election::Core::Participants(ReadOptions options) {
  if (absl::Status s = CallbackThread::CheckMayBlock(); !s.ok()) return s;
  absl::StatusOr<ListResult> listed = client_->List(path_, options);
  std::vector<Participant> participants;
  if (ErrorOf(listed.status()) == ErrorCode::kNoNode) return participants;
  if (!listed.ok()) return listed.status();
  std::vector<Call<GetResult>> calls;
  for (const SequentialName& each : SortSequentialNames(std::move(listed->children), {prefix_})) {
    participants.push_back({.node = path_ + "/" + each.name});
    calls.push_back(client_->AsyncGet(participants.back().node, options));
  }
  std::vector<Participant> there;
  for (size_t i = 0; i < calls.size(); ++i) {
    absl::StatusOr<GetResult> read = calls[i].Wait();
    if (ErrorOf(read.status()) == ErrorCode::kNoNode) continue;  // the candidate left meanwhile
    if (!read.ok()) return read.status();
    there.push_back(std::move(participants[i]));
    there.back().id = std::move(read->data);
    there.back().is_leader = there.size() == 1;
  }
  return there;
}

Election::Election(Client* client, std::string path, ElectionOptions options)
    : Election(client, std::move(path), std::move(options), kPrefix) {}

Election::Election(Client* client, std::string path, ElectionOptions options, std::string prefix,
                   StartNode start_node)
    : core_(std::make_shared<Core>(client, std::move(path), std::move(options), std::move(prefix),
                                   std::move(start_node))) {}

Election::~Election() {
  core_->EndListener();
  core_->Stop();
}

absl::Status Election::Start() { return core_->Start(); }
absl::Status Election::Stop(int deadline_ms) {
  if (absl::Status s = CallbackThread::CheckMayBlock(); !s.ok()) return s;
  const Deadline deadline = DeadlineIn(deadline_ms);
  core_->Stop();
  return core_->WaitUntilGone(deadline);
}
absl::Status Election::Resign() { return core_->Resign(); }
ElectionState Election::state() const { return core_->state(); }
absl::Status Election::Guard(Transaction* transaction) const {
  return core_->Guard(std::nullopt, transaction);
}
absl::Status Election::GuardTerm(int64_t fencing_token, Transaction* transaction) const {
  return core_->Guard(fencing_token, transaction);
}
absl::StatusOr<int64_t> Election::AwaitLeadership(int deadline_ms) {
  if (absl::Status s = CallbackThread::CheckMayBlock(); !s.ok()) return s;
  return core_->AwaitLeadership(DeadlineIn(deadline_ms));
}
absl::StatusOr<std::vector<Participant>> Election::Participants(ReadOptions options) {
  return core_->Participants(options);
}
absl::StatusOr<Participant> Election::Leader(ReadOptions options) {
  absl::StatusOr<std::vector<Participant>> participants = Participants(options);
  if (!participants.ok()) return participants.status();
  if (participants->empty()) return absl::NotFoundError("the election has no candidate");
  return participants->front();
}

}  // namespace quorate
