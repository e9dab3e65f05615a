// SPDX-License-Identifier: Apache-2.0

// A transactional outbox: messages that are sent to another system exactly if the transaction of which
// they are a part is made, by one relay at a time, in order and at least once.
//
//   quorate::Outbox outbox(client.get(), "/outbox");
//   quorate::Transaction transaction;
//   transaction.Set("/orders/17", "paid");
//   if (absl::Status s = outbox.Add("order 17 is paid", &transaction); !s.ok()) return s;
//   auto paid = client->Commit(transaction);
//
//   quorate::OutboxRelay relay(client.get(), "/outbox", {.id = "host-1"});  // in some programs
//   while (!is_over) relay.Deliver([](const quorate::OutboxMessage& m) { return Send(m); }, 1'000);
//
// Layout:
//   PATH/messages/m-<10 digits>  persistent sequential, one for each message that waits
//   PATH/relays                  an election (election.h) of the relay that delivers
// Messages are delivered in the order in which their transactions were made, and those of one
// transaction in the order of their Adds. A relay deletes a message after its delivery, in a transaction
// that the servers make only if the relay still leads. So a message is lost in no case, and a relay that
// stood still deletes nothing after another one has been elected. It may deliver one message meanwhile,
// also after the other one has delivered later messages: a receiver that must not take a message twice
// or out of order refuses a `relay_token` smaller than one that it has seen, or a `zxid` and `id` that
// it knows.
//
// If the session is lost, the relay stands in line again by itself. Deliver in flight returns
// UNAUTHENTICATED or ABORTED; call it again. A message whose deletion had no answer may be delivered again.
//
// Thread-safety: all functions of an Outbox may be called from any thread except the callback thread;
// Deliver of an OutboxRelay is called by one thread at a time. The client must outlive these objects.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/recipes/election.h"

namespace quorate {

// How much an outbox holds.
struct OutboxOptions {
  // Add refuses further messages while so many wait. Positive.
  int max = 10'000;
};

// Adds messages to transactions.
class Outbox {
 public:
  Outbox(Client* client, std::string path, OutboxOptions options = {});

  // Appends the operation that adds a message to `transaction`, which the caller then commits. The
  // transaction has nothing of this in it after an error. RESOURCE_EXHAUSTED: the maximum of messages
  // waits. The limit is checked here, not by the transaction: with several callers at a time, so many
  // messages more can wait as they add between Add and Commit. Errors of Client::Exists and Create.
  absl::Status Add(std::string data, Transaction* transaction);

  // Returns the number of messages that wait.
  absl::StatusOr<int64_t> Size();

 private:
  Client* const client_;
  const std::string path_, messages_;
  const OutboxOptions options_;
};

// A message, as a relay delivers it.
struct OutboxMessage {
  // The name of the message's znode. With `zxid`, it is the same in each delivery of this message, and
  // that of no other one.
  std::string id{};
  std::string data{};
  // The zxid of the transaction. Later transactions have larger ones.
  int64_t zxid = 0;
  // The fencing token of the relay, which is larger for each relay that is elected.
  int64_t relay_token = 0;
};

// Who a relay is, and who hears of its states.
using OutboxRelayOptions = ElectionOptions;

// A program that delivers messages while it is elected.
class OutboxRelay {
 public:
  // Returns OK if the message is delivered. It may block, and may use the client.
  using Deliverer = std::function<absl::Status(const OutboxMessage& message)>;

  OutboxRelay(Client* client, std::string path, OutboxRelayOptions options = {});

  // Becomes a candidate if this is none. Blocks until this relay leads and a message waits, at most
  // `deadline_ms`; 0: without a deadline. Calls `deliver`, on the calling thread, with each message that
  // waits then, and deletes each after its delivery. Returns how many were delivered.
  //   DEADLINE_EXCEEDED  this relay did not lead, or no message came, unless `deliver` returns it
  //   ABORTED            the leadership was lost; the relay is a candidate again
  // Otherwise the error of `deliver`, or of Client. After an error the message at which it occurred
  // stays, or may stay, and is the next to be delivered; the messages before it are deleted. The relay
  // stays a candidate, or the leader, after this call, whatever it returns: call Deliver again, or Stop
  // or Resign so that another relay delivers.
  absl::StatusOr<int> Deliver(const Deliverer& deliver, int deadline_ms = 0);

  // As Election::Stop and Election::Resign. May be called while Deliver runs, which then returns
  // FAILED_PRECONDITION or ABORTED.
  absl::Status Stop(int deadline_ms = 0) { return election_.Stop(deadline_ms); }
  absl::Status Resign() { return election_.Resign(); }
  // Returns whether this relay leads, as far as is known locally.
  bool is_leader() const { return election_.is_leader(); }

 private:
  // Delivers a message and deletes it. Returns false if it does not exist any more.
  absl::StatusOr<bool> DeliverOne(const std::string& name, int64_t token, const Deliverer& deliver);

  Client* const client_;
  const std::string path_, messages_;
  Election election_;
};

}  // namespace quorate
