// SPDX-License-Identifier: Apache-2.0

// Two-phase commit: several participants all carry out a transaction, or none of them does.
//
//   // The coordinator:
//   auto transaction = quorate::TwoPhaseCoordinator::Begin(client.get(), "/transfers/1",
//                                                          {"bank-a", "bank-b"}, "what to do");
//   absl::StatusOr<quorate::Decision> decision = transaction->Decide(10'000);
//
//   // Each participant:
//   quorate::TwoPhaseParticipant participant(client.get(), "/transfers/1", "bank-a");
//   absl::StatusOr<std::string> request = participant.Request();
//   participant.Vote(can_do_it);
//   absl::StatusOr<quorate::Decision> decision = participant.WaitForDecision();
//   ...                                          // does it, or undoes its preparations
//   participant.Acknowledge();
//
// Layout: the data of the znode at `path` is the request, which describes the work. `participants`
// has a child for each participant: its data is empty, then `yes` or `no`, then `yes done` or `no
// done`. `decision` is created once, with the data `commit` or `abort`. Curator has no such class.
//
// Commit needs the votes yes of all participants; the first vote no creates the decision to abort
// in the same transaction. The client that creates `decision` decides: the znode exists only once,
// and never changes. A vote cannot be changed.
//
// Crashes: the whole state is in the tree. A participant that restarts uses the same name again:
// Vote returns its earlier vote, and WaitForDecision returns the decision. A coordinator that
// restarts continues with Resume; any other client can do the same in its place. While there is no
// coordinator, a participant that voted yes waits, until the last vote arrives: the participant
// that votes yes as the last one decides to commit. If a participant does not vote, the coordinator
// decides to abort after its deadline.
//
// The loss of a session is no crash: a call in flight returns UNAUTHENTICATED (kSessionExpired), and
// each of them, except Begin, may be repeated at once. A Begin of which the message says that it may
// have been made is followed by Resume.
//
// The coordinator watches the whole transaction, each participant only the decision.
//
// Thread-safety: all functions may be called from any thread except the callback thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace quorate {

// The outcome of a transaction.
enum class Decision { kCommit, kAbort };

// The one that begins a transaction and decides it.
class TwoPhaseCoordinator {
 public:
  // Creates the transaction. NODE_EXISTS: there is one at `path`; Resume it. INVALID_ARGUMENT: no
  // participants. REQUIRES: `client` outlives the returned object.
  static absl::StatusOr<TwoPhaseCoordinator> Begin(Client* client, std::string path,
                                                   const std::vector<std::string>& participants,
                                                   std::string request);
  // Continues a transaction that was begun. NO_NODE: there is none.
  static absl::StatusOr<TwoPhaseCoordinator> Resume(Client* client, std::string path);

  // Blocks until all participants have voted yes, or one has voted no, and decides. Decides to
  // abort after `deadline_ms`; 0: without a deadline.
  // Returns the decision, even if another client made it.
  absl::StatusOr<Decision> Decide(int deadline_ms = 0);

  // Blocks until all participants have acknowledged, and removes the transaction. Returns OK even
  // if it was removed already. DEADLINE_EXCEEDED after `deadline_ms`: the transaction stays; 0:
  // without a deadline. FAILED_PRECONDITION: there is no decision yet.
  absl::Status Finish(int deadline_ms = 0);

 private:
  TwoPhaseCoordinator(Client* client, std::string path) : client_(client), path_(std::move(path)) {}

  Client* client_;
  std::string path_;
};

// One that votes on a transaction and carries it out.
class TwoPhaseParticipant {
 public:
  // REQUIRES: `client` outlives this object; `name` is one of the coordinator's `participants`.
  TwoPhaseParticipant(Client* client, std::string path, std::string name)
      : client_(client), path_(std::move(path)), own_(path_ + "/participants/" + name) {}

  // Returns the request. NO_NODE: the transaction does not exist.
  absl::StatusOr<std::string> Request();

  // Votes, unless this participant has voted before. Returns its vote: the first one counts.
  // NO_NODE: the transaction does not exist, or has no such participant. ABORTED: the decision was
  // made without this vote.
  absl::StatusOr<bool> Vote(bool yes);

  // Blocks until there is a decision, and returns it. DEADLINE_EXCEEDED after `deadline_ms`; 0:
  // without a deadline. NO_NODE: the transaction was removed, so this participant has acknowledged
  // it before.
  absl::StatusOr<Decision> WaitForDecision(int deadline_ms = 0);

  // Records that this participant has carried out the decision. Does nothing if it has acknowledged
  // before, or the transaction was removed. FAILED_PRECONDITION: there is no decision yet.
  absl::Status Acknowledge();

 private:
  Client* const client_;
  const std::string path_;
  const std::string own_;
};

}  // namespace quorate
