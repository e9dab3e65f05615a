// Elects one of the candidates for an office, and another one when that fails or resigns; and a
// smaller form of the same, LeaderLatch (leader_latch.h).
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
// A candidate watches the znode before its own: when a leader fails, one hears of it.
//
// The states are those of the LeaderElectionSupport of ZooKeeper's recipes:
//   kStart      it was created, or is starting
//   kOffer      the offer (the znode) is being made
//   kDetermine  it is found out who comes before
//   kReady      others come before: it is ready to be elected
//   kElected    it leads
//   kSuspended  it led, and no member serves: another one may be elected any time. Do as if it were
//               so. kElected again, if the session went on
//   kFailed     the session has ended (another Client is needed), or the path cannot be used
//   kStopped    it was stopped, and its znode is gone
// If somebody deletes a candidate's znode, it makes another offer, at the end of the line.
//
// What is said in mutex.h about fencing holds here, too: the token is larger for each leader.
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

// "ELECTED".
std::string_view NameOf(ElectionState state);

struct ElectionEvent {
  // That begins.
  ElectionState state{};
  // Of kElected.
  int64_t fencing_token = 0;
  // Of kSuspended, kFailed, and of kOffer if it is not the first one.
  absl::Status reason{};
};

struct ElectionOptions {
  // By which others know the candidate.
  std::string id{};
  // Told each state as it begins, one after another, on the client's thread of callbacks or on one
  // that calls Start, Stop or Resign; it must not block. Who stops or resigns is told before others
  // can be elected, so do not call them with a lock held that the listener takes. Not called any
  // more after the destructor.
  std::function<void(const ElectionEvent&)> listener{};
};

struct Participant {
  std::string id{};
  // The path of its znode.
  std::string node{};
  bool is_leader = false;

  bool operator==(const Participant&) const = default;
};

// Thread-safety: all functions from any thread. The client must live longer.
class Election {
 public:
  Election(Client* client, std::string path, ElectionOptions options);
  // As Stop, without waiting.
  ~Election();
  Election(const Election&) = delete;
  Election& operator=(const Election&) = delete;

  // Becomes a candidate; does not block. Again after Stop or kFailed. FAILED_PRECONDITION: it is
  // one already.
  absl::Status Start();
  // Blocks until its znode is gone, with those of offers that it has given up, `deadline_ms` at
  // most; 0: without a deadline. All the same if it is no candidate. DEADLINE_EXCEEDED: it is
  // stopped, and its znode goes as soon as a member serves.
  absl::Status Stop(int deadline_ms = 0);
  // Gives the office or the place in line up, and makes another offer at the end of the line. Does
  // not block. FAILED_PRECONDITION: it is no candidate.
  absl::Status Resign();

  ElectionState state() const;
  // Whether it leads now, as far as is known here: not while it is suspended.
  bool is_leader() const { return state() == ElectionState::kElected; }
  // Blocks until it leads, `deadline_ms` at most; 0: without a deadline. The fencing token.
  // DEADLINE_EXCEEDED; FAILED_PRECONDITION: it is no candidate; or why it failed.
  absl::StatusOr<int64_t> AwaitLeadership(int deadline_ms = 0);

  // All candidates, in the order in which they will lead.
  absl::StatusOr<std::vector<Participant>> Participants(ReadOptions options = {});
  // NOT_FOUND: there is no candidate.
  absl::StatusOr<Participant> Leader(ReadOptions options = {});

 private:
  friend class LeaderLatch;
  friend class ElectionTestAccess;
  class Core;
  // Makes the znode of an offer: LockNode::Start, or what a test does around it.
  using StartNode = std::function<std::shared_ptr<internal::LockNode>(
      Client* client, internal::LockNode::Options options)>;
  Election(Client* client, std::string path, ElectionOptions options, std::string prefix,
           StartNode start_node = &internal::LockNode::Start);

  const std::shared_ptr<Core> core_;
};

}  // namespace quorate
