// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/outbox.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "client/recipes/sequential_names.h"
#include "client/recipes/waiting.h"

namespace quorate {
namespace {

constexpr char kMessages[] = "/messages", kRelays[] = "/relays", kPrefix[] = "m-";
// A write ends with its answer or with the session: its outcome would be unknown otherwise.
constexpr CallOptions kNoDeadline{.deadline_ms = -1};

}  // namespace

Outbox::Outbox(Client* client, std::string path, OutboxOptions options)
    : client_(client), path_(std::move(path)), messages_(path_ + kMessages), options_(options) {
  ASSERT(options_.max > 0);
}

absl::Status Outbox::Add(std::string data, Transaction* transaction) {
  absl::StatusOr<std::optional<Stat>> stat = client_->Exists(messages_);
  if (!stat.ok()) return stat.status();
  if (!stat->has_value()) {
    if (absl::Status s = internal::EnsureZnode(client_, messages_); !s.ok()) return s;
  } else if ((*stat)->children >= options_.max) {
    return absl::ResourceExhaustedError(
        absl::StrCat((*stat)->children, " messages wait in the outbox ", path_, ", the maximum is ",
                     options_.max, "; its relay has to deliver some first"));
  }
  transaction->Create(absl::StrCat(messages_, "/", kPrefix), std::move(data),
                      CreateMode::kPersistentSequential);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Outbox::Size() {
  const absl::StatusOr<std::optional<Stat>> stat =
      client_->Exists(messages_, {.linearizable = true});
  if (!stat.ok()) return stat.status();
  return stat->has_value() ? (*stat)->children : 0;
}

OutboxRelay::OutboxRelay(Client* client, std::string path, OutboxRelayOptions options)
    : client_(client),
      path_(std::move(path)),
      messages_(path_ + kMessages),
      election_(client, path_ + kRelays, std::move(options)) {}

absl::StatusOr<int> OutboxRelay::Deliver(const Deliverer& deliver, int deadline_ms) {
  if (absl::Status s = internal::CallbackThread::CheckMayBlock(); !s.ok()) return s;
  const internal::WaitDeadline deadline(deadline_ms);
  // FAILED_PRECONDITION: this is a candidate already.
  if (absl::Status s = election_.Start(); !s.ok() && !absl::IsFailedPrecondition(s)) return s;
  if (absl::Status s = election_.AwaitLeadership(deadline.ReadDeadlineMs()).status(); !s.ok()) {
    return s;
  }
  // The watch reports the deletion of this relay's own znode, too, which ends its leadership.
  std::vector<SequentialName> names;
  const absl::Status status = internal::WaitUntil(
      client_, path_, WatchScope::kSubtree, deadline,
      absl::StrCat("a message in the outbox ", path_), [&]() -> absl::StatusOr<bool> {
        absl::StatusOr<ListResult> listed =
            client_->List(messages_, {.deadline_ms = deadline.ReadDeadlineMs()});
        const bool is_empty = ErrorOf(listed.status()) == ErrorCode::kNoNode;
        if (!listed.ok() && !is_empty) return listed.status();
        Transaction guard;
        if (absl::Status s = election_.Guard(&guard); !s.ok()) {
          return absl::AbortedError(
              absl::StrCat("this relay of ", path_, " does not lead any more: ", s.message()));
        }
        if (is_empty) return false;
        names = SortSequentialNames(std::move(listed->children), {kPrefix});
        return !names.empty();
      });
  if (!status.ok()) return status;
  // The relay may have been elected again during the wait.
  const absl::StatusOr<int64_t> token = election_.AwaitLeadership(deadline.ReadDeadlineMs());
  if (!token.ok()) return token.status();
  int delivered = 0;
  for (const SequentialName& each : names) {
    const absl::StatusOr<bool> done = DeliverOne(each.name, *token, deliver);
    if (!done.ok()) return done.status();
    if (*done) ++delivered;
  }
  return delivered;
}

absl::StatusOr<bool> OutboxRelay::DeliverOne(const std::string& name, int64_t token,
                                             const Deliverer& deliver) {
  const std::string node = absl::StrCat(messages_, "/", name);
  const auto lost = [&](const std::string& what, const absl::Status& reason) {
    return absl::AbortedError(absl::StrCat(
        "this relay of ", path_, " does not lead any more: ", node, what, reason.message()));
  };
  absl::StatusOr<GetResult> read = client_->Get(node, {.deadline_ms = kNoDeadline.deadline_ms});
  // Deleted by hand, or by a relay that was elected meanwhile.
  if (ErrorOf(read.status()) == ErrorCode::kNoNode) return false;
  if (!read.ok()) return read.status();
  Transaction transaction;
  if (absl::Status s = election_.GuardTerm(token, &transaction); !s.ok()) {
    return lost(" is not delivered: ", s);
  }
  if (absl::Status s = deliver({name, std::move(read->data), read->stat.created_zxid, token});
      !s.ok()) {
    return s;
  }
  transaction.CheckCreated(node, read->stat.created_zxid).Delete(node);
  const absl::Status status = client_->Commit(transaction, kNoDeadline).status();
  const std::optional<ErrorCode> error = ErrorOf(status);
  if (error != ErrorCode::kNoNode && error != ErrorCode::kBadVersion) {
    if (!status.ok()) return status;
    return true;
  }
  // The guard comes before the two operations of the message.
  if (FailedOperationOf(status) < transaction.operations().size() - 2) {
    return lost(" is delivered, and may be delivered again: ", status);
  }
  return true;  // deleted by hand while it was delivered
}

}  // namespace quorate
