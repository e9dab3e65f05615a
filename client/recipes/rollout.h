// SPDX-License-Identifier: Apache-2.0

// Lets each member of a group do a step, such as a restart or an upgrade, once in each rollout, at most
// a fixed number of members at a time; stops when a member fails.
//
//   quorate::Rollout rollout(client.get(), "/rollouts/shards", 2);
//   for (;;) {                                             // in a program beside each member
//     auto step = rollout.Begin("host-1");                 // blocks until its turn in a rollout
//     if (!step.ok()) return step.status();
//     absl::Status restarted = Restart();
//     absl::Status reported = restarted.ok() ? step->Done() : step->Fail(restarted.ToString());
//   }
//   rollout.Start(8);                                      // an operator begins rollout number 8
//
// Layout:
//   PATH                  the number of the current rollout (the generation), in decimal digits
//   PATH/stopped          exists while the rollout is stopped; its data is the reason
//   PATH/places           a semaphore (semaphore.h): a member in its step has a lease of it
//   PATH/steps/MEMBER     ephemeral, while the member is in its step
//   PATH/members/MEMBER   the member's last step: "GENERATION running", "GENERATION done" or
//                         "GENERATION failed REASON"
// Members wait for places in the order of their arrival, and a place that becomes free wakes one of them.
// Only Start wakes all members that have done the step of the rollout before. A step begins in one
// transaction, which fails if the rollout is stopped, if another one was started, or if the place was
// lost; so no step begins after a failure was reported. All users of a path must agree on the number of
// members at a time.
//
// A member whose session is lost in its step, or whose RolloutStep is destroyed without Done and Fail,
// has not done its step: its place becomes free, Progress reports kInterrupted, and Begin gives it
// another step of the same rollout. This does not stop the rollout. As the step ends with the session,
// the process that is restarted must not be the one that holds the step.
//
// A member that fails stops the rollout: steps that have begun go on, and no other begins until Resume,
// or until Start begins another rollout. Members that wait keep their places in line. The failed member
// has another step of the same rollout after Resume.
//
// If the session is lost, Begin in flight returns UNAUTHENTICATED; call it again. Done and Fail return
// ABORTED, or UNAUTHENTICATED with a message that says whether the outcome may have been recorded.
//
// Thread-safety: all functions may be called from any thread except the callback thread. Several
// threads or processes may call Begin for the same member: one of them gets the step. The client
// must outlive a Rollout and its steps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/recipes/listener.h"
#include "client/recipes/semaphore.h"

namespace quorate {

namespace internal {
class WaitDeadline;
}  // namespace internal

// What happens to a member that has called Begin.
struct RolloutEvent {
  // What has happened.
  enum class Type {
    kStopped,  // the member has a place, and waits until the rollout goes on
    kBegun,    // the member's step has begun
    kLost,     // the session was lost in the step: others may begin theirs
  };
  Type type{};
  std::string member{};
  // 0 for kStopped.
  int64_t generation = 0;
  // Why the rollout is stopped; otherwise empty.
  std::string reason{};
};

// Who hears of the steps.
struct RolloutOptions {
  // Called with one event at a time, on threads that call Begin and on the callback thread; it must not
  // block. Never called after the destructor of the Rollout has returned.
  std::function<void(const RolloutEvent&)> listener{};
};

// The last step of a member.
struct RolloutMember {
  // How far the step is.
  enum class State {
    kRunning,
    kDone,
    kFailed,
    kInterrupted,  // the member died in its step, and has not begun again
  };
  std::string id{};
  // The rollout to which the step belongs. If it is not the current one, the member has not begun
  // its step of that.
  int64_t generation = 0;
  State state{};
  // Of kFailed.
  std::string reason{};

  bool operator==(const RolloutMember&) const = default;
};

// How far a rollout is.
struct RolloutProgress {
  // 0: no rollout was started.
  int64_t generation = 0;
  // Why the rollout is stopped; nothing if it is not.
  std::optional<std::string> stopped{};
  // The members that have begun a step of any rollout, in the order of their ids.
  std::vector<RolloutMember> members{};
};

// A member's step. Movable. The destructor ends a step that has not ended: the member is reported as
// kInterrupted.
class RolloutStep {
 public:
  class State;
  explicit RolloutStep(std::shared_ptr<State> state);
  ~RolloutStep();
  RolloutStep(RolloutStep&&) noexcept = default;
  RolloutStep& operator=(RolloutStep&&) noexcept;

  // Returns the number of the rollout.
  int64_t generation() const;
  // Returns whether the step is this object's, as far as is known locally.
  bool is_held() const;

  // Records that the member has done its step, and frees its place. ABORTED: the step was lost before,
  // and is not done. FAILED_PRECONDITION: Done or Fail was called before. After a refusal, by the servers
  // (ErrorOf) or by the client (RESOURCE_EXHAUSTED), nothing has changed: the step goes on, and Done or Fail
  // can be called again. After any other error the step has ended.
  absl::Status Done();
  // Records that the member has failed, stops the rollout, and frees the place. `reason` is cut after
  // 1,000 bytes. Errors are those of Done; after a refusal the place is kept, and after the others the
  // rollout is not stopped by this call.
  absl::Status Fail(std::string reason);

 private:
  std::shared_ptr<State> state_;
};

// Rollouts of a group of members, one after another.
class Rollout {
 public:
  // REQUIRES: at_a_time > 0.
  Rollout(Client* client, std::string path, int at_a_time, RolloutOptions options = {});
  // Steps that have begun go on.
  ~Rollout();
  Rollout(const Rollout&) = delete;
  Rollout& operator=(const Rollout&) = delete;

  // Begins the rollout with this number, also if the one before is stopped or has not ended: members
  // that have not begun their step of that get none. INVALID_ARGUMENT: the number is not positive.
  // ALREADY_EXISTS: this rollout is the current one. FAILED_PRECONDITION: a later one is.
  absl::Status Start(int64_t generation);
  // Stops the rollout, as a failure does. If it is stopped already, the reason of that stays.
  absl::Status Stop(std::string reason);
  // Lets a stopped rollout go on. OK if it is not stopped.
  absl::Status Resume();
  // Returns how far the current rollout is. Sees everything that was acknowledged before the call.
  absl::StatusOr<RolloutProgress> Progress();

  // Blocks until there is a rollout whose step `member` has not done, and it is the member's turn, at
  // most `deadline_ms`; 0: without a deadline. INVALID_ARGUMENT: `member` is not the name of a znode.
  // UNIMPLEMENTED: the cluster has servers of a version without Transaction::CheckCreated. Otherwise
  // errors are those of Semaphore::Acquire; after an error the member is not in its step.
  absl::StatusOr<RolloutStep> Begin(const std::string& member, int deadline_ms = 0);

 private:
  struct Current;
  // Waits until there is a step that the member has not done.
  absl::Status WaitUntilDue(const std::string& member, const internal::WaitDeadline& deadline);
  absl::Status WaitWhileStopped(const std::string& member, const internal::WaitDeadline& deadline);
  // Waits until no other process is in the member's step, such as one that has died and whose session
  // has not ended.
  absl::Status WaitUntilNotInStep(const std::string& member,
                                  const internal::WaitDeadline& deadline);
  absl::StatusOr<std::optional<Current>> Read(const std::string& member,
                                              const internal::WaitDeadline& deadline);
  absl::StatusOr<RolloutMember> ReadMember(const std::string& member);
  // Begins a step at the place `lease`. Returns nothing if there is no step to do any more.
  absl::StatusOr<std::optional<RolloutStep>> BeginAt(Lease lease, const std::string& member,
                                                     const internal::WaitDeadline& deadline);

  Client* const client_;
  const std::string path_, stopped_, steps_, members_;
  Semaphore places_;
  const std::shared_ptr<internal::Listener<RolloutEvent>> listener_;
};

}  // namespace quorate
