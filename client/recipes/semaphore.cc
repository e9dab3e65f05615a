// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/semaphore.h"

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "client/recipes/lock_listener.h"
#include "client/recipes/sequential_names.h"

namespace quorate {

using internal::CallbackThread;
using internal::Deadline;
using internal::DeadlineIn;
using internal::LockNode;

namespace {

constexpr char kLockPrefix[] = "lock-";
constexpr char kLeasePrefix[] = "lease-";

// Returns a function that grants a lease by its position, not by the number of znodes: the limit
// holds even if the lock of a waiting caller is deleted, and another caller gets the lock.
LockNode::Decide WaitForLease(int leases) {
  return [leases](const std::string& directory, const std::vector<SequentialName>&,
                  size_t own) -> std::optional<LockNode::Blocker> {
    if (own < static_cast<size_t>(leases)) return std::nullopt;
    return LockNode::Blocker{directory, WatchScope::kChildren};
  };
}

// Releases a LockNode at the end of a scope.
class Releaser {
 public:
  explicit Releaser(std::shared_ptr<LockNode> node) : node_(std::move(node)) {}
  ~Releaser() { node_->Release(); }
  Releaser(const Releaser&) = delete;
  Releaser& operator=(const Releaser&) = delete;

 private:
  const std::shared_ptr<LockNode> node_;
};

}  // namespace

absl::Status Lease::Return(int deadline_ms) {
  if (absl::Status s = CallbackThread::CheckMayBlock(); !s.ok()) return s;
  const Deadline deadline = DeadlineIn(deadline_ms);
  const std::shared_ptr<LockNode> node = std::move(node_);
  node_ = nullptr;
  if (node == nullptr) return absl::FailedPreconditionError("the lease was returned or moved");
  if (!node->Release()) {
    return absl::AbortedError(
        absl::StrCat(node->path(), " was lost while it was held: ", node->status().message()));
  }
  return node->WaitUntilGone(deadline);
}

Semaphore::Semaphore(Client* client, std::string path, int leases, LockOptions options)
    : client_(client),
      path_(std::move(path)),
      leases_(leases),
      data_(std::move(options.data)),
      listener_(std::make_shared<internal::Listener<LockEvent>>(std::move(options.listener))) {
  ASSERT(leases > 0);
}

Semaphore::~Semaphore() { listener_->End(); }

absl::StatusOr<Lease> Semaphore::Acquire(int deadline_ms) {
  absl::StatusOr<std::vector<Lease>> leases = AcquireMany(1, deadline_ms);
  if (!leases.ok()) return leases.status();
  return std::move(leases->front());
}

absl::StatusOr<std::vector<Lease>> Semaphore::AcquireMany(int count, int deadline_ms) {
  ASSERT(count > 0);
  if (absl::Status s = CallbackThread::CheckMayBlock(); !s.ok()) return s;
  if (count > leases_) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, " has ", leases_, " leases, not ", count));
  }
  const Deadline deadline = DeadlineIn(deadline_ms);
  LockNode::Options line;
  line.directory = path_ + "/locks";
  line.prefix = kLockPrefix;
  line.prefixes = {kLockPrefix};
  line.decide = &LockNode::WaitForPrevious;
  const std::shared_ptr<LockNode> head = LockNode::Start(client_, std::move(line));
  const Releaser releaser(head);
  if (absl::Status s = head->WaitForTurn(deadline); !s.ok()) return s;
  // If a later lease cannot be acquired, the destructor of this vector returns the earlier ones.
  std::vector<Lease> leases;
  std::vector<std::shared_ptr<LockNode>> nodes;
  for (int i = 0; i < count; ++i) {
    LockNode::Options options;
    options.directory = path_ + "/leases";
    options.prefix = kLeasePrefix;
    options.prefixes = {kLeasePrefix};
    options.data = data_;
    options.decide = WaitForLease(leases_);
    options.handler = internal::HandlerFor(listener_);
    const std::shared_ptr<LockNode> node = LockNode::Start(client_, std::move(options));
    leases.emplace_back(node);
    if (absl::Status s = node->WaitForTurn(deadline); !s.ok()) return s;
    // A lease may have been lost while a later one was awaited, for example with its session.
    for (const std::shared_ptr<LockNode>& each : nodes) {
      if (each->has_ended()) return each->status();
    }
    nodes.push_back(node);
  }
  return leases;
}

absl::StatusOr<std::vector<std::string>> Semaphore::ParticipantNodes(ReadOptions options) {
  const std::string directory = path_ + "/leases";
  absl::StatusOr<ListResult> listed = client_->List(directory, options);
  if (ErrorOf(listed.status()) == ErrorCode::kNoNode) return std::vector<std::string>();
  if (!listed.ok()) return listed.status();
  std::vector<std::string> nodes;
  for (const SequentialName& each :
       SortSequentialNames(std::move(listed->children), {kLeasePrefix})) {
    nodes.push_back(directory + "/" + each.name);
  }
  return nodes;
}

}  // namespace quorate
