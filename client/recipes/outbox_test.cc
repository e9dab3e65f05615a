// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/outbox.h"

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/recipes/session_loss_test.h"
#include "client/testing/collected.h"

namespace quorate {
namespace {

using testing::Begin;
using testing::Collected;
using testing::ConnectTo;
using testing::IsLost;
using testing::LoseSession;
using testing::Losses;
using testing::MayBeApplied;
using testing::WaitForChildren;

constexpr int kLongMs = 20'000;

// Adds a message with a transaction of its own.
absl::Status Send(Client* client, Outbox* outbox, const std::string& data) {
  Transaction transaction;
  if (absl::Status s = outbox->Add(data, &transaction); !s.ok()) return s;
  return client->Commit(transaction).status();
}

// Returns a function that collects the data of messages.
OutboxRelay::Deliverer DeliverTo(std::vector<std::string>* delivered) {
  return [delivered](const OutboxMessage& message) {
    delivered->push_back(message.data);
    return absl::OkStatus();
  };
}

}  // namespace

TEST_CASE("messages are those of the transactions that were made, and are delivered in order") {
  auto client = ConnectTo("/outbox-order");
  Outbox outbox(client.get(), "/o");
  OutboxRelay relay(client.get(), "/o", {.id = "a"});
  std::vector<std::string> delivered;
  CHECK(*outbox.Size() == 0);
  CHECK(absl::IsDeadlineExceeded(relay.Deliver(DeliverTo(&delivered), 50).status()));
  Transaction made, refused;
  made.Create("/first");
  refused.CheckExists("/missing").Create("/second");
  REQUIRE(outbox.Add("1", &made).ok());
  REQUIRE(outbox.Add("lost", &refused).ok());
  REQUIRE(outbox.Add("2", &made).ok());
  CHECK(*outbox.Size() == 0);
  CHECK(ErrorOf(client->Commit(refused).status()) == ErrorCode::kNoNode);
  REQUIRE(client->Commit(made).ok());
  REQUIRE(Send(client.get(), &outbox, "3").ok());
  CHECK(*outbox.Size() == 3);
  CHECK(*relay.Deliver(DeliverTo(&delivered), kLongMs) == 3);
  CHECK(delivered == std::vector<std::string>{"1", "2", "3"});
  CHECK(*outbox.Size() == 0);
  // A wait ends with the next message.
  auto waits = Begin([&] { return relay.Deliver(DeliverTo(&delivered), kLongMs); });
  REQUIRE(Send(client.get(), &outbox, "4").ok());
  CHECK(*waits.get() == 1);
  CHECK(delivered.back() == "4");
}

TEST_CASE("a message that cannot be delivered stays, and is the next") {
  auto client = ConnectTo("/outbox-error");
  Outbox outbox(client.get(), "/o");
  OutboxRelay relay(client.get(), "/o");
  for (const char* data : {"1", "2", "3"}) REQUIRE(Send(client.get(), &outbox, data).ok());
  std::vector<OutboxMessage> seen;
  const auto refuse = [&](const OutboxMessage& message) {
    seen.push_back(message);
    return message.data == "2" ? absl::InternalError("no receiver") : absl::OkStatus();
  };
  CHECK(absl::IsInternal(relay.Deliver(refuse, kLongMs).status()));
  CHECK(*outbox.Size() == 2);
  CHECK(absl::IsInternal(relay.Deliver(refuse, kLongMs).status()));
  REQUIRE(seen.size() == 3);
  CHECK((seen[1].data == "2" && seen[2].data == "2"));
  CHECK((seen[1].id == seen[2].id && seen[1].zxid == seen[2].zxid));
  CHECK((seen[0].id != seen[1].id && seen[0].zxid < seen[1].zxid));
  CHECK(seen[0].relay_token > 0);
  std::vector<std::string> delivered;
  CHECK(*relay.Deliver(DeliverTo(&delivered), kLongMs) == 2);
  CHECK(delivered == std::vector<std::string>{"2", "3"});
  // A message that is deleted by hand while it is delivered does not stop the relay.
  for (const char* data : {"4", "5"}) REQUIRE(Send(client.get(), &outbox, data).ok());
  CHECK(*relay.Deliver(
            [&](const OutboxMessage& message) {
              if (message.data == "4") CHECK(client->Delete("/o/messages/" + message.id).ok());
              return absl::OkStatus();
            },
            kLongMs) == 2);
  CHECK(*outbox.Size() == 0);
}

TEST_CASE("an outbox that is full refuses messages, until some are delivered") {
  auto client = ConnectTo("/outbox-full");
  Outbox outbox(client.get(), "/o", {.max = 3});
  for (int i = 0; i < 3; ++i) REQUIRE(Send(client.get(), &outbox, "m").ok());
  Transaction transaction;
  transaction.Create("/other");
  const absl::Status full = outbox.Add("m", &transaction);
  INFO(full.ToString());
  CHECK(absl::IsResourceExhausted(full));
  CHECK(transaction.operations().size() == 1);
  OutboxRelay relay(client.get(), "/o");
  std::vector<std::string> delivered;
  CHECK(*relay.Deliver(DeliverTo(&delivered), kLongMs) == 3);
  CHECK(outbox.Add("m", &transaction).ok());
}

TEST_CASE("a relay that stood still does not delete the message that its successor delivers") {
  constexpr int kRounds = 10;
  auto client = ConnectTo("/outbox-still"), other = ConnectTo("/outbox-still");
  Outbox outbox(other.get(), "/o");
  OutboxRelay relay(client.get(), "/o", {.id = "a"}), next(other.get(), "/o", {.id = "b"});
  std::vector<std::string> rest;
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    REQUIRE(Send(other.get(), &outbox, std::to_string(round)).ok());
    Collected<OutboxMessage> first, second;
    std::promise<void> first_goes_on, second_goes_on;
    auto stands = Begin([&] {
      return relay.Deliver(
          [&](const OutboxMessage& message) {
            first.Add(message);
            first_goes_on.get_future().wait();
            return absl::OkStatus();
          },
          kLongMs);
    });
    REQUIRE(first.WaitFor(1).size() == 1);
    auto succeeds = Begin([&] {
      return next.Deliver(
          [&](const OutboxMessage& message) {
            second.Add(message);
            second_goes_on.get_future().wait();
            return absl::OkStatus();
          },
          kLongMs);
    });
    REQUIRE(WaitForChildren(other.get(), "/o/relays", 2));
    CHECK(second.WaitFor(0).empty());
    REQUIRE(LoseSession(client.get()) != 0);
    REQUIRE(second.WaitFor(1).size() == 1);
    CHECK(second.WaitFor(1)[0].zxid == first.WaitFor(1)[0].zxid);
    CHECK(second.WaitFor(1)[0].relay_token > first.WaitFor(1)[0].relay_token);
    // With or without the next session of its client.
    const bool is_replaced = round % 2 == 0;
    if (is_replaced) testing::WaitForSession(client.get());
    first_goes_on.set_value();
    const absl::Status status = stands.get().status();
    INFO(status.ToString());
    CHECK((absl::IsAborted(status) || (!is_replaced && IsLost(status))));
    CHECK(*outbox.Size() == 1);
    second_goes_on.set_value();
    CHECK(*succeeds.get() == 1);
    CHECK(*outbox.Size() == 0);
    // The first one leads again in the next round.
    CHECK(next.Stop(kLongMs).ok());
    testing::WaitForSession(client.get());
    CHECK(absl::IsDeadlineExceeded(relay.Deliver(DeliverTo(&rest), 50).status()));
  }
  CHECK(rest.empty());
}

TEST_CASE("Deliver ends when the relay is stopped, its session is lost or its client is closed") {
  auto client = ConnectTo("/outbox-end"), other = ConnectTo("/outbox-end");
  OutboxRelay relay(client.get(), "/o", {.id = "a"}), behind(other.get(), "/o", {.id = "b"});
  std::vector<std::string> delivered;
  const auto begin = [&](OutboxRelay* each) {
    return Begin([&, each] { return each->Deliver(DeliverTo(&delivered)).status(); });
  };
  auto waits = begin(&relay);
  REQUIRE(WaitForChildren(other.get(), "/o/relays", 1));
  auto waits_behind = begin(&behind);
  REQUIRE(WaitForChildren(client.get(), "/o/relays", 2));
  CHECK(behind.Stop(kLongMs).ok());
  CHECK(absl::IsFailedPrecondition(waits_behind.get()));
  CHECK(relay.Stop(kLongMs).ok());
  const absl::Status stopped = waits.get();
  CHECK((absl::IsAborted(stopped) || absl::IsFailedPrecondition(stopped)));
  CHECK(!relay.is_leader());
  // A loss is reported while the relay leads, and it leads again after that.
  CHECK(absl::IsDeadlineExceeded(relay.Deliver(DeliverTo(&delivered), 50).status()));
  waits = begin(&relay);
  CHECK(client->Sync().ok());
  REQUIRE(LoseSession(client.get()) != 0);
  Outbox outbox(other.get(), "/o");
  REQUIRE(Send(other.get(), &outbox, "1").ok());
  const absl::Status lost = waits.get();
  INFO(lost.ToString());
  CHECK((lost.ok() || IsLost(lost) || absl::IsAborted(lost)));
  while (*outbox.Size() != 0) {
    const absl::Status status = relay.Deliver(DeliverTo(&delivered), kLongMs).status();
    if (!status.ok() && !IsLost(status)) CHECK(absl::IsAborted(status));
  }
  CHECK(delivered.back() == "1");
  waits = begin(&relay);
  CHECK(client->Close().ok());
  const absl::Status closed = waits.get();
  INFO(closed.ToString());
  CHECK(!closed.ok());
  CHECK(!absl::IsDeadlineExceeded(closed));
}

TEST_CASE("each message is delivered, and in order, while sessions are lost") {
  auto producer = ConnectTo("/outbox-many"), one = ConnectTo("/outbox-many"),
       two = ConnectTo("/outbox-many"), observer = ConnectTo("/outbox-many");
  std::mutex mutex;
  std::set<std::string> sent, maybe_sent, unsent;
  std::vector<OutboxMessage> delivered;
  std::atomic<int> wrong{0};
  const auto deliver = [&](const OutboxMessage& message) {
    std::lock_guard<std::mutex> lock(mutex);
    delivered.push_back(message);
    return absl::OkStatus();
  };
  {
    Losses ended({producer.get(), one.get(), two.get()}, 100, 31);
    std::vector<std::future<void>> workers;
    workers.push_back(Begin([&] {
      Outbox outbox(producer.get(), "/o", {.max = 20});
      for (int i = 0; !ended.is_over(); ++i) {
        const std::string data = std::to_string(i);
        const absl::Status status = Send(producer.get(), &outbox, data);
        const bool is_maybe = MayBeApplied(status);
        (status.ok() ? sent : is_maybe ? maybe_sent : unsent).insert(data);
        wrong += !status.ok() && !IsLost(status) && !absl::IsResourceExhausted(status);
      }
    }));
    for (Client* client : {one.get(), two.get()}) {
      workers.push_back(Begin([&, client] {
        OutboxRelay relay(client, "/o");
        while (!ended.is_over()) {
          const absl::Status status = relay.Deliver(deliver, 200).status();
          wrong += !status.ok() && !IsLost(status) && !absl::IsAborted(status) &&
                   !absl::IsDeadlineExceeded(status);
        }
      }));
    }
    for (auto& each : workers) each.wait();
  }
  OutboxRelay rest(observer.get(), "/o");
  while (*Outbox(observer.get(), "/o").Size() != 0) {
    REQUIRE(rest.Deliver(deliver, kLongMs).ok());
  }
  CHECK(wrong == 0);
  std::set<std::string> seen;
  int out_of_order = 0, unknown = 0;
  int64_t last = 0;
  std::map<int64_t, int64_t> last_of_token;
  for (const OutboxMessage& message : delivered) {
    // A message that was not delivered before is newer than all that were.
    if (seen.insert(message.data).second) {
      out_of_order += message.zxid <= last;
      last = message.zxid;
    }
    int64_t& of_token = last_of_token[message.relay_token];
    out_of_order += message.zxid < of_token;
    of_token = message.zxid;
    unknown += unsent.contains(message.data);
  }
  CHECK(out_of_order == 0);
  CHECK(unknown == 0);
  int missing = 0;
  for (const std::string& data : sent) missing += !seen.contains(data);
  CHECK(missing == 0);
  CHECK(sent.size() > 20);
}

}  // namespace quorate
