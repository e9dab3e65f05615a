// Several participants do something all together, or none of them does.
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
// Layout: the data of the znode at `path` says what is to be done. `participants` has a child for
// each of them: its data is empty, then `yes` or `no`, then `yes done` or `no done`. `decision` is
// made once, with `commit` or `abort`. Curator has no such class.
//
// Commit needs the yes of all; the first no decides for abort in the same transaction. Who creates
// `decision` decides: there is only one, and it never changes. A vote cannot be changed.
//
// Crashes: all that matters is in the tree. A participant that comes back asks again by the same
// name: Vote says what it had voted, WaitForDecision what was decided. A coordinator that comes
// back goes on with Resume; so can anybody else in its place. While there is none, a participant
// that voted yes waits, unless the last vote comes: the last to vote yes decides for commit. A
// participant that does not come is outvoted by the time that the coordinator gives.
//
// The coordinator watches the transaction, each participant the decision only.
//
// Thread-safety: all functions from any thread but that of callbacks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace quorate {

enum class Decision { kCommit, kAbort };

class TwoPhaseCoordinator {
 public:
  // Makes the transaction. NODE_EXISTS: there is one at `path`; Resume it. INVALID_ARGUMENT: no
  // participants. REQUIRES: `client` lives longer.
  static absl::StatusOr<TwoPhaseCoordinator> Begin(Client* client, std::string path,
                                                   const std::vector<std::string>& participants,
                                                   std::string request);
  // Goes on with one that was begun. NO_NODE: there is none.
  static absl::StatusOr<TwoPhaseCoordinator> Resume(Client* client, std::string path);

  // Waits until all have voted yes or one no, and decides. After `deadline_ms` it decides for
  // abort; 0: it waits without a deadline.
  // Returns what was decided, also if somebody else was first.
  absl::StatusOr<Decision> Decide(int deadline_ms = 0);

  // Waits until all participants have acknowledged, and removes the transaction.
  // DEADLINE_EXCEEDED after `deadline_ms`, and it stays; 0: without a deadline.
  // FAILED_PRECONDITION: nothing was decided.
  absl::Status Finish(int deadline_ms = 0);

 private:
  TwoPhaseCoordinator(Client* client, std::string path) : client_(client), path_(std::move(path)) {}

  Client* client_;
  std::string path_;
};

class TwoPhaseParticipant {
 public:
  // REQUIRES: `client` lives longer; `name` is one of those that the coordinator named.
  TwoPhaseParticipant(Client* client, std::string path, std::string name)
      : client_(client), path_(std::move(path)), own_(path_ + "/participants/" + name) {}

  // What is to be done. NO_NODE: there is no such transaction.
  absl::StatusOr<std::string> Request();

  // Votes, unless it has voted before. Returns the vote that counts. NO_NODE: there is no such
  // transaction, or it is no participant. ABORTED: it was decided without this vote.
  absl::StatusOr<bool> Vote(bool yes);

  // Waits for the decision. DEADLINE_EXCEEDED after `deadline_ms`; 0: without a deadline. NO_NODE:
  // the transaction was removed, so that this participant has acknowledged it.
  absl::StatusOr<Decision> WaitForDecision(int deadline_ms = 0);

  // Says that it has done what was decided. Nothing happens if it has said so before, or the
  // transaction was removed. FAILED_PRECONDITION: nothing was decided.
  absl::Status Acknowledge();

 private:
  Client* const client_;
  const std::string path_;
  const std::string own_;
};

}  // namespace quorate
