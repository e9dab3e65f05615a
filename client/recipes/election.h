// SPDX-License-Identifier: Apache-2.0

// Elects one of several candidates as the leader, and another one when the leader fails or resigns.
// LeaderLatch (leader_latch.h) is a simpler form.
//
//   quorate::Election election(
//       client.get(), "/elections/scheduler",
//       {.id = "host-1", .listener = [](const quorate::ElectionEvent& e) { ... }});
//   election.Start();
//
// Layout, that of Curator's LeaderSelector (an InterProcessMutex whose znodes have the candidates'
// ids as data), with which it can share a path:
//   PATH                                  a container, created when it is needed
//   PATH/_c_<uuid>-lock-<10 digits>       ephemeral sequential, one for each candidate, with its
//                                         id; the oldest is the leader's
// A candidate watches the znode before its own: when a leader fails, only the next candidate is
// notified.
//
// The states are those of the LeaderElectionSupport of ZooKeeper's recipes:
//   kStart      the Election was created, or is starting
//   kOffer      the offer (the znode) is being created
//   kDetermine  the candidate lists the znodes, to find its place in line
//   kReady      other candidates come before this one: it is ready to be elected
//   kElected    this candidate leads
//   kSuspended  this candidate led, and no member serves: another one may be elected at any time,
//               so act as if one were. Followed by kElected if the session continues
//   kFailed     the client's last session has ended, or the path cannot be used
//   kStopped    the candidate was stopped; its znode is deleted, or is being deleted
// If a candidate's znode is deleted by another client, the candidate makes a new offer, at the end
// of the line. It does the same if the session is lost and the client replaces it: a leader goes from
// kElected, in most cases by kSuspended, to kOffer, with the loss as the reason, and another
// candidate is elected. AwaitLeadership goes on waiting.
//
// The rules of mutex.h about fencing apply here, too: each leader's token is larger than all
// before.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/recipes/lock_node.h"

namespace quorate {

// The state of a candidate; the comment of this file describes each.
enum class ElectionState {
  kStart,
  kOffer,
  kDetermine,
  kReady,
  kElected,
  kSuspended,
  kFailed,
  kStopped,
};

// Returns the state's name, such as "ELECTED".
std::string_view NameOf(ElectionState state);

// A change of a candidate's state.
struct ElectionEvent {
  // The state that begins.
  ElectionState state{};
  // Set for kElected; otherwise 0.
  int64_t fencing_token = 0;
  // Set for kSuspended, kFailed, and for each kOffer after the first one.
  absl::Status reason{};
};

// Who a candidate is, and who hears of its states.
struct ElectionOptions {
  // The id of this candidate, which others see in Participants.
  std::string id{};
  // Called with each state as it begins, one call at a time, on the client's callback thread or on
  // a thread that calls Start, Stop or Resign; it must not block. Stop and Resign call the
  // listener, or wait for its calls, before others can be elected, so do not call them while
  // holding a lock that the listener takes. Never called after the destructor has returned.
  std::function<void(const ElectionEvent&)> listener{};
};

// A candidate, as the servers know it.
struct Participant {
  std::string id{};
  // The path of the candidate's znode.
  std::string node{};
  bool is_leader = false;

  bool operator==(const Participant&) const = default;
};

// Thread-safety: all functions may be called from any thread. The client must outlive this object.
class Election {
 public:
  Election(Client* client, std::string path, ElectionOptions options);
  // Stops without waiting for the deletion of the znode, and without calling the listener.
  ~Election();
  Election(const Election&) = delete;
  Election& operator=(const Election&) = delete;

  // Becomes a candidate; does not block. May be called again after Stop or kFailed.
  // FAILED_PRECONDITION: this is a candidate already.
  absl::Status Start();
  // Stops being a candidate, and blocks until its znode and those of earlier offers are deleted, at
  // most `deadline_ms`; 0: without a deadline. If this is not a candidate, only waits for znodes
  // that are still being deleted. DEADLINE_EXCEEDED: the candidate is stopped, and its znode is
  // deleted as soon as a member serves.
  absl::Status Stop(int deadline_ms = 0);
  // Gives up the leadership or the place in line, and makes a new offer at the end of the line.
  // Waits only for the listener. FAILED_PRECONDITION: this is not a candidate.
  absl::Status Resign();

  // Returns the state as it is known locally.
  ElectionState state() const;
  // Returns whether this candidate leads, as far as is known locally; false while it is suspended.
  bool is_leader() const { return state() == ElectionState::kElected; }
  // Blocks until this candidate leads, at most `deadline_ms`; 0: without a deadline. Returns the
  // fencing token. DEADLINE_EXCEEDED; FAILED_PRECONDITION: this is not a candidate; otherwise the
  // reason of kFailed.
  absl::StatusOr<int64_t> AwaitLeadership(int deadline_ms = 0);

  // Appends the condition that this candidate still leads to `transaction`. A transaction that is
  // committed after the leadership has ended fails with NO_NODE, and changes nothing.
  // FAILED_PRECONDITION: this candidate does not lead. ABORTED: it has just lost the leadership.
  absl::Status Guard(Transaction* transaction) const;

  // Returns all candidates, in the order in which they will lead. The first one is the leader.
  absl::StatusOr<std::vector<Participant>> Participants(ReadOptions options = {});
  // Returns the candidate that leads. NOT_FOUND: there is no candidate.
  absl::StatusOr<Participant> Leader(ReadOptions options = {});

 private:
  friend class LeaderLatch;
  friend class Leadership;
  friend class OutboxRelay;
  friend class ElectionTestAccess;
  class Core;
  // Creates the znode of an offer: LockNode::Start, or a test's wrapper around it.
  using StartNode = std::function<std::shared_ptr<internal::LockNode>(
      Client* client, internal::LockNode::Options options)>;
  Election(Client* client, std::string path, ElectionOptions options, std::string prefix,
           StartNode start_node = &internal::LockNode::Start);
  // As Guard, for the leadership with this token. FAILED_PRECONDITION also if this candidate leads
  // again, with another token.
  absl::Status GuardTerm(int64_t fencing_token, Transaction* transaction) const;

  const std::shared_ptr<Core> core_;
};

}  // namespace quorate
