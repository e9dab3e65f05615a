// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/two_phase_commit.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/recipes/waiting.h"

namespace quorate {
namespace {

constexpr char kParticipants[] = "/participants";
constexpr char kDecision[] = "/decision";
constexpr char kYes[] = "yes";
constexpr char kNo[] = "no";
constexpr char kDone[] = " done";
constexpr char kCommitted[] = "commit";
constexpr char kAborted[] = "abort";

// Returns the decision; nothing if there is none yet. NO_NODE: there is no transaction at `path`.
absl::StatusOr<std::optional<Decision>> ReadDecision(Client* client, const std::string& path,
                                                     int deadline_ms) {
  const absl::StatusOr<GetResult> read =
      client->Get(path + kDecision, {.linearizable = true, .deadline_ms = deadline_ms});
  if (ErrorOf(read.status()) == ErrorCode::kNoNode) {
    const auto stat = client->Exists(path, {.deadline_ms = deadline_ms});
    if (!stat.ok()) return stat.status();
    if (!stat->has_value()) return read.status();
    return std::nullopt;
  }
  if (!read.ok()) return read.status();
  if (read->data == kCommitted) return Decision::kCommit;
  if (read->data == kAborted) return Decision::kAbort;
  return absl::FailedPreconditionError(absl::StrCat(path, kDecision, " is not a decision"));
}

// Creates `decision`, unless there is one already. Returns the decision that exists.
absl::StatusOr<Decision> MakeDecision(Client* client, const std::string& path, Decision decision) {
  const char* const data = decision == Decision::kCommit ? kCommitted : kAborted;
  const absl::Status status = client->Create(path + kDecision, data).status();
  if (status.ok()) return decision;
  if (ErrorOf(status) != ErrorCode::kNodeExists) return status;
  const absl::StatusOr<std::optional<Decision>> made = ReadDecision(client, path, 0);
  if (!made.ok()) return made.status();
  if (!made->has_value()) return status;
  return **made;
}

struct Votes {
  size_t participants = 0;
  size_t yes = 0;
  size_t no = 0;
  size_t done = 0;
};

absl::StatusOr<Votes> ReadVotes(Client* client, const std::string& path, int deadline_ms) {
  const absl::StatusOr<ListResult> list =
      client->List(path + kParticipants, {.deadline_ms = deadline_ms});
  if (!list.ok()) return list.status();
  std::vector<Call<GetResult>> reads;
  for (const std::string& name : list->children) {
    reads.push_back(client->AsyncGet(absl::StrCat(path, kParticipants, "/", name),
                                     {.deadline_ms = deadline_ms}));
  }
  Votes votes;
  votes.participants = list->children.size();
  for (Call<GetResult>& each : reads) {
    const absl::StatusOr<GetResult> read = each.Wait();
    if (!read.ok()) return read.status();
    if (read->data.starts_with(kYes)) ++votes.yes;
    if (read->data.starts_with(kNo)) ++votes.no;
    if (read->data.ends_with(kDone)) ++votes.done;
  }
  return votes;
}

}  // namespace

// --- The coordinator -----------------------------------------------------------------------------

absl::StatusOr<TwoPhaseCoordinator> TwoPhaseCoordinator::Begin(
    Client* client, std::string path, const std::vector<std::string>& participants,
    std::string request) {
  if (participants.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": a transaction must have participants"));
  }
  if (const std::optional<std::string> parent = internal::ParentOf(path)) {
    if (absl::Status s = internal::EnsureZnode(client, *parent); !s.ok()) return s;
  }
  Transaction transaction;
  transaction.Create(path, std::move(request)).Create(path + kParticipants);
  for (const std::string& name : participants) {
    transaction.Create(absl::StrCat(path, kParticipants, "/", name));
  }
  if (absl::Status s = client->Commit(transaction).status(); !s.ok()) return s;
  return TwoPhaseCoordinator(client, std::move(path));
}

absl::StatusOr<TwoPhaseCoordinator> TwoPhaseCoordinator::Resume(Client* client, std::string path) {
  const absl::StatusOr<GetResult> read = client->Get(path, {.linearizable = true});
  if (!read.ok()) return read.status();
  return TwoPhaseCoordinator(client, std::move(path));
}

absl::StatusOr<Decision> TwoPhaseCoordinator::Decide(int deadline_ms) {
  const internal::WaitDeadline deadline(deadline_ms);
  std::optional<Decision> decision;
  const absl::Status waited = internal::WaitUntil(
      client_, path_, WatchScope::kSubtree, deadline, absl::StrCat("votes on ", path_),
      [&]() -> absl::StatusOr<bool> {
        const absl::StatusOr<std::optional<Decision>> made =
            ReadDecision(client_, path_, deadline.ReadDeadlineMs());
        if (!made.ok()) return made.status();
        decision = *made;
        if (decision.has_value()) return true;
        const absl::StatusOr<Votes> votes = ReadVotes(client_, path_, deadline.ReadDeadlineMs());
        if (!votes.ok()) return votes.status();
        if (votes->no > 0) decision = Decision::kAbort;
        if (votes->yes == votes->participants) decision = Decision::kCommit;
        return decision.has_value();
      });
  // Decide to abort only if this call's own deadline has passed, not a deadline of the client.
  if (!waited.ok() && !(absl::IsDeadlineExceeded(waited) && deadline.is_over())) return waited;
  return MakeDecision(client_, path_, decision.value_or(Decision::kAbort));
}

absl::Status TwoPhaseCoordinator::Finish(int deadline_ms) {
  const internal::WaitDeadline deadline(deadline_ms);
  const absl::StatusOr<std::optional<Decision>> decision =
      ReadDecision(client_, path_, deadline.ReadDeadlineMs());
  if (ErrorOf(decision.status()) == ErrorCode::kNoNode) return absl::OkStatus();
  if (!decision.ok()) return decision.status();
  if (!decision->has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": the transaction is not decided yet"));
  }
  absl::Status status = internal::WaitUntil(
      client_, path_ + kParticipants, WatchScope::kChildren, deadline,
      absl::StrCat("the participants of ", path_), [&]() -> absl::StatusOr<bool> {
        const absl::StatusOr<Votes> votes = ReadVotes(client_, path_, deadline.ReadDeadlineMs());
        if (!votes.ok()) return votes.status();
        return votes->done == votes->participants;
      });
  if (status.ok()) status = client_->Delete(path_, {.recursive = true}).status();
  // NO_NODE: another coordinator has removed the transaction.
  return ErrorOf(status) == ErrorCode::kNoNode ? absl::OkStatus() : status;
}

// --- A participant -------------------------------------------------------------------------------

absl::StatusOr<std::string> TwoPhaseParticipant::Request() {
  absl::StatusOr<GetResult> read = client_->Get(path_, {.linearizable = true});
  if (!read.ok()) return read.status();
  return std::move(read->data);
}

absl::StatusOr<bool> TwoPhaseParticipant::Vote(bool yes) {
  Transaction transaction;
  transaction.CheckAbsent(path_ + kDecision).Set(own_, yes ? kYes : kNo, 0);
  if (!yes) transaction.Create(path_ + kDecision, kAborted);
  const absl::Status status = client_->Commit(transaction).status();
  const std::optional<ErrorCode> error = ErrorOf(status);
  if (!status.ok() && error != ErrorCode::kBadVersion && error != ErrorCode::kNodeExists) {
    return status;
  }
  if (!status.ok()) {
    const absl::StatusOr<GetResult> own = client_->Get(own_);
    if (!own.ok()) return own.status();
    if (own->data.empty()) return absl::AbortedError(path_ + " was decided without this vote");
    yes = own->data.starts_with(kYes);
  }
  if (!yes) return false;
  // The last participant to vote yes decides, so that none waits for a coordinator that crashed.
  const absl::StatusOr<Votes> votes = ReadVotes(client_, path_, 0);
  if (!votes.ok()) return votes.status();
  if (votes->yes == votes->participants) {
    const absl::StatusOr<Decision> decision = MakeDecision(client_, path_, Decision::kCommit);
    if (!decision.ok()) return decision.status();
  }
  return true;
}

absl::StatusOr<Decision> TwoPhaseParticipant::WaitForDecision(int deadline_ms) {
  const internal::WaitDeadline deadline(deadline_ms);
  std::optional<Decision> decision;
  const absl::Status status =
      internal::WaitUntil(client_, path_ + kDecision, WatchScope::kNode, deadline,
                          absl::StrCat("the decision on ", path_), [&]() -> absl::StatusOr<bool> {
                            const absl::StatusOr<std::optional<Decision>> read =
                                ReadDecision(client_, path_, deadline.ReadDeadlineMs());
                            if (!read.ok()) return read.status();
                            decision = *read;
                            return decision.has_value();
                          });
  if (!status.ok()) return status;
  return *decision;
}

absl::Status TwoPhaseParticipant::Acknowledge() {
  const absl::StatusOr<std::optional<Decision>> decision = ReadDecision(client_, path_, 0);
  if (ErrorOf(decision.status()) == ErrorCode::kNoNode) return absl::OkStatus();
  if (!decision.ok()) return decision.status();
  if (!decision->has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": the transaction is not decided yet"));
  }
  for (;;) {
    const absl::StatusOr<GetResult> own = client_->Get(own_);
    if (ErrorOf(own.status()) == ErrorCode::kNoNode) return absl::OkStatus();
    if (!own.ok()) return own.status();
    if (own->data.ends_with(kDone)) return absl::OkStatus();
    const absl::Status status =
        client_->Set(own_, own->data + kDone, {.version = own->stat.version}).status();
    const std::optional<ErrorCode> error = ErrorOf(status);
    if (status.ok() || error == ErrorCode::kNoNode) return absl::OkStatus();
    if (error != ErrorCode::kBadVersion) return status;
  }
}

}  // namespace quorate
