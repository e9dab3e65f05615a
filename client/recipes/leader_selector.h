// SPDX-License-Identifier: Apache-2.0

// Leader election by a function: it runs while this candidate leads, and leads until it returns.
//
//   quorate::LeaderSelector selector(client.get(), "/elections/scheduler",
//                                    [](const quorate::Leadership& leadership) {
//                                      while (!leadership.stop().stop_requested()) { ... }
//                                    },
//                                    {.id = "host-1"});
//   selector.Start();
//
// Layout and order: those of Election (election.h), and so of Curator's LeaderSelector, with which it
// can share a path.
//
// The function is asked to return (Leadership::stop) when the leadership is lost or may be lost:
// another client deleted the znode, the session was lost, or no member serves. Another candidate can
// lead while the function has not returned yet: each write that must not be made then needs
// Leadership::Guard, or a check of the fencing token. The function is never called while an earlier
// call of it runs.
//
// When it has returned, the candidate gives up the leadership. It goes to the end of the line if
// LeaderSelectorOptions::requeues is set or Requeue was called meanwhile; otherwise it is no candidate
// any more. If the session is lost while it waits in line, it goes to the end of the line in any
// case.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/recipes/election.h"

namespace quorate {

class LeaderSelector;

// A time in which this candidate leads. Valid until the function has returned.
//
// Thread-safety: all functions may be called from any thread.
class Leadership {
 public:
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  // Returns the token, which is larger than those of all leaders before.
  int64_t fencing_token() const { return fencing_token_; }
  // Returns what asks the function to return. Callbacks of the token (std::stop_callback) can run on the
  // client's callback thread, and must not block.
  std::stop_token stop() const { return stop_; }
  // Appends the condition that this leadership still lasts to `transaction`. A transaction that is
  // committed after it has ended fails with NO_NODE, and changes nothing. FAILED_PRECONDITION or
  // ABORTED: it has ended already.
  absl::Status Guard(Transaction* transaction) const;

 private:
  friend class LeaderSelector;
  Leadership(const Election* election, int64_t fencing_token, std::stop_token stop)
      : election_(election), fencing_token_(fencing_token), stop_(std::move(stop)) {}

  const Election* const election_;
  const int64_t fencing_token_;
  const std::stop_token stop_;
};

// Who a candidate is, and what it does after it has led.
struct LeaderSelectorOptions {
  // The id of this candidate, which others see in Participants.
  std::string id{};
  // Whether the candidate goes to the end of the line when its function has returned.
  bool requeues = true;
  // As ElectionOptions::listener.
  std::function<void(const ElectionEvent&)> listener{};
};

// Thread-safety: all functions may be called from any thread. The client must outlive this object.
class LeaderSelector {
 public:
  // `lead` is called on a thread of this object.
  LeaderSelector(Client* client, std::string path, std::function<void(const Leadership&)> lead,
                 LeaderSelectorOptions options);
  // Asks the function to return, waits until it has, and gives up the place in line without waiting
  // for the servers. REQUIRES: not called by the function, nor on the callback thread.
  ~LeaderSelector();
  LeaderSelector(const LeaderSelector&) = delete;
  LeaderSelector& operator=(const LeaderSelector&) = delete;

  // Becomes a candidate; does not block. FAILED_PRECONDITION: this was started before.
  absl::Status Start();
  // Becomes a candidate again: at once, or, if this candidate leads, when the function has returned.
  // FAILED_PRECONDITION: this is a candidate that waits in line, was not started, or was closed.
  absl::Status Requeue();
  // Asks the function to return. Returns whether it was running.
  bool Interrupt();
  // Asks the function to return, waits until it has, and gives up the place in line, so that the
  // znode is deleted; all at most `deadline_ms`; 0: without a deadline. DEADLINE_EXCEEDED: the function
  // has not returned, and the leadership is kept until it has, or the znode is still being deleted; Close
  // can be called again. FAILED_PRECONDITION: called by the function or on the callback thread.
  absl::Status Close(int deadline_ms = 0);

  // Returns whether this candidate leads, as far as is known locally; false while no member serves.
  bool HasLeadership() const { return election_.is_leader(); }
  // As those of Election.
  absl::StatusOr<std::vector<Participant>> Participants(ReadOptions options = {}) {
    return election_.Participants(options);
  }
  absl::StatusOr<Participant> Leader(ReadOptions options = {}) { return election_.Leader(options); }

 private:
  // A leadership that the function was called for, or has to be called for.
  struct Term {
    int64_t fencing_token = 0;
    std::stop_source stop{};
  };
  // Becomes a candidate, unless this is closed. REQUIRES: mutex_ is not held.
  absl::Status StartElection();
  void OnEvent(const ElectionEvent& event);
  // Calls the function for each leadership, until the selector is closed.
  void Run();
  // Gives up the leadership `fencing_token`, if it lasts. REQUIRES: mutex_ is not held.
  void EndTerm(int64_t fencing_token, bool is_candidate_again);
  // Ends the thread as soon as the function has returned. REQUIRES: as EndTerm.
  void RequestClose();

  const std::string path_;
  const std::function<void(const Leadership&)> lead_;
  const bool requeues_;
  const std::function<void(const ElectionEvent&)> listener_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  bool is_started_ = false;
  bool is_closed_ = false;
  bool is_running_ = false;      // the function, or what is done after it
  bool is_over_ = false;         // the thread calls the function no more
  bool requeue_wanted_ = false;  // Requeue was called while the function ran
  int64_t held_token_ = 0;       // of the leadership that lasts, suspended or not; 0: none
  std::optional<Term> next_;     // the leadership for which the function has to be called
  std::optional<Term> current_;  // the one for which it was called last

  std::thread thread_;
  Election election_;  // the last member: its events end before the others are destroyed
};

}  // namespace quorate
