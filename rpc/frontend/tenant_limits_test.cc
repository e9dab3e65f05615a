// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/tenant_limits.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace quorate::rpc {
namespace {

using Identities = std::vector<tree::Identity>;

using std::chrono::milliseconds;
using Time = TenantTable::Time;

const Time kStart{std::chrono::hours(1)};

std::vector<tree::Identity> Proved(const std::string& scheme, const std::string& id) {
  return {{"ip", "10.0.0.1"}, {scheme, id}};
}

struct Table {
  explicit Table(Limit limit, int64_t max) {
    TenantLimits limits;
    limits.max[static_cast<size_t>(limit)] = max;
    table.SetLimits(limits);
  }
  std::unique_ptr<TenantShare> Connect(const std::string& address = "10.0.0.1", Time now = kStart) {
    return std::make_unique<TenantShare>(&table, address, /*is_connection=*/true, now);
  }

  TenantTable table;
};

TEST_CASE("an IPv6 client counts by the first 64 bits of its address") {
  CHECK(TenantOfAddress("10.0.0.1") == "10.0.0.1");
  CHECK(TenantOfAddress("2001:db8:1:2:3:4:5:6") == "2001:db8:1:2::/64");
  CHECK(TenantOfAddress("2001:db8:1:2::7") == "2001:db8:1:2::/64");
  CHECK(TenantOfAddress("2001:db8:1:3::7") == "2001:db8:1:3::/64");
  CHECK(TenantOfAddress("fe80::1%eth0") == "fe80::/64");
  CHECK(TenantOfAddress("/run/quorate.sock") == "/run/quorate.sock");
  CHECK(TenantOfAddress("").empty());
}

TEST_CASE("a bucket has the tokens of one second at first, and then those that come") {
  TokenBucket bucket;
  CHECK(bucket.IsFull(kStart));
  for (int i = 0; i < 10; ++i) {
    REQUIRE(bucket.IsOpen(10, kStart));
    bucket.Take(10, kStart);
  }
  CHECK_FALSE(bucket.IsOpen(10, kStart));
  CHECK_FALSE(bucket.IsOpen(10, kStart + milliseconds(99)));
  CHECK(bucket.IsOpen(10, kStart + milliseconds(100)));
  bucket.Take(10, kStart + milliseconds(100));
  CHECK_FALSE(bucket.IsOpen(10, kStart + milliseconds(199)));
  // After a long time it has no more than the tokens of one second.
  const Time later = kStart + std::chrono::hours(1);
  CHECK(bucket.IsFull(later));
  int taken = 0;
  for (; bucket.IsOpen(10, later); ++taken) bucket.Take(10, later);
  CHECK(taken == 10);
}

TEST_CASE("tokens taken in advance close a bucket for a second at most") {
  TokenBucket bucket;
  for (int i = 0; i < 1000; ++i) bucket.Take(10, kStart);
  CHECK_FALSE(bucket.IsOpen(10, kStart + milliseconds(1000)));
  CHECK(bucket.IsOpen(10, kStart + milliseconds(1100)));
}

TEST_CASE("threads that share a bucket take as many tokens as it has") {
  constexpr int64_t kPerSecond = 100'000;
  TokenBucket bucket;
  std::atomic<int64_t> taken{0};
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (; bucket.IsOpen(kPerSecond, kStart); ++taken) bucket.Take(kPerSecond, kStart);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(taken >= kPerSecond);
  CHECK(taken <= kPerSecond + 4);
}

TEST_CASE("clients of one address share its tokens, and those of another have their own") {
  Table t(Limit::kRequests, 4);
  const auto one = t.Connect();
  const auto two = t.Connect();
  const auto other = t.Connect("10.0.0.2");
  for (int i = 0; i < 2; ++i) {
    CHECK(one->TakeRequest(kStart));
    CHECK(two->TakeRequest(kStart));
  }
  CHECK_FALSE(one->TakeRequest(kStart));
  CHECK_FALSE(two->TakeRequest(kStart));
  CHECK(other->TakeRequest(kStart));
}

TEST_CASE("clients of one identity share its tokens, whatever their addresses") {
  Table t(Limit::kRequests, 2);
  const auto one = t.Connect("10.0.0.1");
  const auto two = t.Connect("10.0.0.2");
  for (const auto* each : {&one, &two}) {
    REQUIRE((*each)->SetIdentity(Proved("digest", "app:hash"), kStart));
    CHECK((*each)->TakeRequest(kStart));
  }
  CHECK_FALSE(one->TakeRequest(kStart));
  // The address has a token left, but no client of the identity may take it.
  const auto without_identity = t.Connect("10.0.0.1");
  CHECK(without_identity->TakeRequest(kStart));
  CHECK_FALSE(without_identity->TakeRequest(kStart));
}

TEST_CASE("the first identity counts, and neither the address nor the super user is one") {
  Table t(Limit::kConnections, 1);
  const auto one = t.Connect();
  CHECK(one->SetIdentity(Identities{{"super", ""}, {"ip", "10.0.0.1"}}, kStart));
  CHECK(t.table.size() == 1);
  CHECK(one->SetIdentity(
      Identities{{"super", ""}, {"ip", "10.0.0.1"}, {"digest", "a:1"}, {"digest", "b:2"}}, kStart));
  CHECK(t.table.size() == 2);
  // It stays, although there are more identities later.
  CHECK(one->SetIdentity(Identities{{"digest", "b:2"}}, kStart));
  const auto two = t.Connect();
  CHECK(two->SetIdentity(Identities{{"digest", "b:2"}}, kStart));
  const auto three = t.Connect();
  CHECK_FALSE(three->SetIdentity(Identities{{"digest", "a:1"}}, kStart));
  CHECK(t.table.reached(Limit::kConnections) == 1);
}

TEST_CASE("an identity has its connections back when they are closed; calls do not count") {
  Table t(Limit::kConnections, 2);
  const auto identity = Proved("x509", "CN=app");
  auto one = t.Connect();
  auto two = t.Connect();
  REQUIRE(one->SetIdentity(identity, kStart));
  REQUIRE(two->SetIdentity(identity, kStart));
  CHECK_FALSE(t.Connect()->SetIdentity(identity, kStart));
  two.reset();
  TenantShare call(&t.table, "10.0.0.1", /*is_connection=*/false, kStart);
  CHECK(call.SetIdentity(identity, kStart));
  CHECK_FALSE(t.Connect()->SetIdentity(identity, kStart));
}

TEST_CASE("what a client counts is moved to its identity too, and is taken off at its end") {
  Table t(Limit::kWatches, 10);
  const auto other = t.Connect("10.0.0.9");
  REQUIRE(other->SetIdentity(Proved("digest", "app:hash"), kStart));
  {
    const auto one = t.Connect("10.0.0.1");
    one->SetWatches(10);
    CHECK_FALSE(one->MayWatch());
    CHECK(other->MayWatch());
    REQUIRE(one->SetIdentity(Proved("digest", "app:hash"), kStart));
    CHECK_FALSE(other->MayWatch());
    one->SetWatches(9);
    CHECK(one->MayWatch());
    CHECK(other->MayWatch());
    one->SetWatches(10);
    CHECK_FALSE(one->IsFarAboveWatches());
    one->SetWatches(20);
    CHECK(one->IsFarAboveWatches());
  }
  CHECK(other->MayWatch());
  CHECK(t.Connect("10.0.0.1")->MayWatch());
}

TEST_CASE("outstanding requests of all clients of a tenant count, with those not counted yet") {
  Table t(Limit::kOutstandingRequests, 10);
  const auto one = t.Connect();
  const auto two = t.Connect();
  one->SetOutstanding(6, 0);
  CHECK_FALSE(two->IsAtOutstanding(3));
  CHECK(two->IsAtOutstanding(4));
  two->SetOutstanding(4, 0);
  CHECK(one->IsAtOutstanding(6));
  CHECK_FALSE(one->IsAtOutstanding(5));
  one->SetOutstanding(0, 0);
  CHECK_FALSE(two->IsAtOutstanding(4));
}

TEST_CASE("outstanding bytes have a limit, and twice of it another") {
  Table t(Limit::kOutstandingBytes, 1000);
  const auto one = t.Connect();
  one->SetOutstanding(1, 999);
  CHECK_FALSE(one->IsAtOutstanding(1));
  one->SetOutstanding(1, 1000);
  CHECK(one->IsAtOutstanding(1));
  CHECK_FALSE(one->IsFarAboveBytes());
  one->SetOutstanding(1, 2000);
  CHECK(one->IsFarAboveBytes());
}

TEST_CASE("ephemerals of a session without a client count until the session is taken or ends") {
  Table t(Limit::kEphemerals, 5);
  const tree::SessionId session(7);
  const auto other = t.Connect();
  {
    const auto gone = t.Connect();
    gone->SetEphemerals(4);
    gone->KeepEphemerals(session, 3);
  }
  CHECK(other->MayCreateEphemerals(2));
  CHECK_FALSE(other->MayCreateEphemerals(3));
  t.table.CorrectKept(session, 1);
  CHECK(other->MayCreateEphemerals(4));
  {
    const auto again = t.Connect();
    again->SetEphemerals(1);
    again->KeepEphemerals(session, 3);  // in place of the earlier count
  }
  CHECK(other->MayCreateEphemerals(2));
  CHECK_FALSE(other->MayCreateEphemerals(3));
  t.table.CorrectKept(tree::SessionId(8), 5);
  t.table.OnSessionTaken(tree::SessionId(8));
  CHECK_FALSE(other->MayCreateEphemerals(3));
  t.table.OnSessionTaken(session);
  CHECK(other->MayCreateEphemerals(5));
  {
    const auto gone = t.Connect();
    gone->SetEphemerals(5);
    gone->KeepEphemerals(session, 5);
  }
  CHECK_FALSE(other->MayCreateEphemerals(1));
  t.table.ForgetSessions();
  CHECK(other->MayCreateEphemerals(5));
  {
    const auto gone = t.Connect();
    gone->SetEphemerals(5);
    gone->KeepEphemerals(session, 0);  // the session has none in the tree
  }
  CHECK(other->MayCreateEphemerals(5));
}

TEST_CASE("a tenant that has gone is forgotten when its buckets are full again") {
  Table t(Limit::kRequests, 2);
  {
    const auto one = t.Connect("10.0.0.1");
    CHECK(one->TakeRequest(kStart));
    CHECK(one->TakeRequest(kStart));
  }
  // A client that comes back gets no new tokens.
  CHECK_FALSE(t.Connect("10.0.0.1")->TakeRequest(kStart + milliseconds(100)));
  const auto other = t.Connect("10.0.0.2", kStart + milliseconds(200));
  CHECK(t.table.size() == 2);
  const auto third = t.Connect("10.0.0.3", kStart + milliseconds(2000));
  CHECK(t.table.size() == 2);
}

TEST_CASE("the table stays bounded when very many addresses come and go") {
  Table t(Limit::kRequests, 1);
  for (int i = 0; i < 20'000; ++i) {
    const auto one = t.Connect("10.0." + std::to_string(i / 256) + "." + std::to_string(i % 256));
    CHECK(one->TakeRequest(kStart));  // so that its bucket is not full
  }
  CHECK(t.table.size() < 5000);
}

TEST_CASE("clients that wait for tokens take turns, and each gets its part") {
  constexpr int kClients = 10;
  Table t(Limit::kRequests, 1000);
  std::vector<std::unique_ptr<TenantShare>> clients;
  clients.reserve(kClients);
  for (int i = 0; i < kClients; ++i) clients.push_back(t.Connect());
  while (clients[0]->TakeRequest(kStart)) {
  }
  for (const auto& client : clients) CHECK_FALSE(client->TakeRequest(kStart));
  std::vector<int> taken(kClients);
  Time now = kStart;
  for (int turn = 0; turn < 100; ++turn) {
    now += TenantShare::kTurn;
    for (size_t i = 0; i < clients.size(); ++i) {
      if (!clients[i]->EndSlowing(now, std::chrono::hours(1))) continue;
      while (clients[i]->TakeRequest(now)) ++taken[i];
    }
  }
  for (const int count : taken) {
    CHECK(count >= 900);
    CHECK(count <= 1100);
  }
  // A client that is left alone gets everything, and soon without waiting for turns.
  clients.resize(1);
  now += std::chrono::seconds(2);
  REQUIRE(clients[0]->EndSlowing(now, std::chrono::hours(1)));
  int alone = 0;
  while (clients[0]->TakeRequest(now)) ++alone;
  CHECK(alone >= 999);
}

TEST_CASE("many clients that wait for tokens leave none of them") {
  constexpr size_t kClients = 51;  // the tokens of a turn cannot be divided evenly
  constexpr int kTurns = 102;
  Table t(Limit::kRequests, 1000);
  std::vector<std::unique_ptr<TenantShare>> clients;
  for (size_t i = 0; i < kClients; ++i) clients.push_back(t.Connect());
  while (clients[0]->TakeRequest(kStart)) {
  }
  for (const auto& client : clients) CHECK_FALSE(client->TakeRequest(kStart));
  std::vector<int> taken(kClients);
  int all = 0;
  Time now = kStart;
  for (size_t turn = 0; turn < kTurns; ++turn) {
    now += TenantShare::kTurn;
    for (size_t i = 0; i < kClients; ++i) {
      const size_t number = (turn + i) % kClients;
      if (!clients[number]->EndSlowing(now, std::chrono::hours(1))) continue;
      for (; clients[number]->TakeRequest(now); ++all) ++taken[number];
    }
  }
  CHECK(all >= kTurns * 100 - 2);
  CHECK(all <= kTurns * 100);
  for (const int count : taken) CHECK(count >= all / static_cast<int>(kClients) * 9 / 10);
}

TEST_CASE("a client that has just connected gets no request without a token") {
  Table t(Limit::kRequests, 1);
  CHECK(t.Connect()->TakeRequest(kStart));
  const auto one = t.Connect("10.0.0.1", kStart + milliseconds(100));
  CHECK_FALSE(one->TakeRequest(kStart + milliseconds(100)));
  CHECK_FALSE(one->EndSlowing(kStart + milliseconds(200), milliseconds(400)));
  CHECK_FALSE(one->TakeRequest(kStart + milliseconds(200)));
  CHECK(one->EndSlowing(kStart + milliseconds(500), milliseconds(400)));
}

TEST_CASE("a client that has got no token for long takes one in advance") {
  Table t(Limit::kRequests, 1);
  const auto one = t.Connect();
  const auto two = t.Connect();
  CHECK(one->TakeRequest(kStart));
  CHECK(two->EndSlowing(kStart + milliseconds(500), milliseconds(400)));
  CHECK(two->TakeRequest(kStart + milliseconds(500)));
  CHECK_FALSE(two->TakeRequest(kStart + milliseconds(500)));
  CHECK_FALSE(two->EndSlowing(kStart + milliseconds(600), milliseconds(400)));
  CHECK_FALSE(one->EndSlowing(kStart + milliseconds(300), milliseconds(400)));
  CHECK(one->EndSlowing(kStart + milliseconds(900), milliseconds(400)));
}

TEST_CASE("without limits nothing is refused or slowed") {
  TenantTable table;
  TenantShare one(&table, "10.0.0.1", /*is_connection=*/true, kStart);
  CHECK_FALSE(one.limits_requests());
  one.SetWatches(1'000'000);
  one.SetEphemerals(1'000'000);
  one.SetOutstanding(1'000'000, 1'000'000'000);
  CHECK(one.MayWatch());
  CHECK(one.MayCreateEphemerals(1'000'000));
  CHECK_FALSE(one.IsAtOutstanding(2'000'000));
  CHECK_FALSE(one.IsFarAboveBytes());
  for (int i = 0; i < 100; ++i) {
    CHECK(one.TakeSession(kStart));
    CHECK(one.TakeRequest(kStart));
  }
}

// Returns how many requests the client makes before it is slowed; at most `max`.
int RequestsBeforeSlowed(TenantShare* client, Time now, int max) {
  int count = 0;
  while (count < max && client->TakeRequest(now)) ++count;
  return count;
}

TEST_CASE("by default a client is slowed above a million requests in a second, and with 0 never") {
  constexpr int kPerSecond = 1'000'000;
  constexpr int kOwed = kPerSecond / 1000;  // the tokens of a millisecond
  Config config;
  TenantTable table;
  table.SetLimits(TenantLimits(config));
  {
    TenantShare client(&table, "10.0.0.1", /*is_connection=*/true, kStart);
    CHECK(client.limits_requests());
    const int count = RequestsBeforeSlowed(&client, kStart, 2 * kPerSecond);
    CHECK(count >= kPerSecond);
    CHECK(count < kPerSecond + kOwed);
    TenantShare other(&table, "10.0.0.2", /*is_connection=*/true, kStart);
    CHECK(RequestsBeforeSlowed(&other, kStart, 100) == 100);
  }
  config.requests_per_second_max = 0;
  TenantTable unlimited;
  unlimited.SetLimits(TenantLimits(config));
  TenantShare client(&unlimited, "10.0.0.1", /*is_connection=*/true, kStart);
  CHECK(RequestsBeforeSlowed(&client, kStart, 2 * kPerSecond) == 2 * kPerSecond);
}

TEST_CASE("tokens that clients owe are taken later, and when they disconnect") {
  constexpr int kPerSecond = 10'000;  // a client may owe 9 tokens
  Table t(Limit::kRequests, kPerSecond);
  // Clients that connect and disconnect get no more than one that stays.
  int count = 0;
  for (int client = 0; client < 2 * kPerSecond / 5; ++client) {
    count += RequestsBeforeSlowed(t.Connect().get(), kStart, 5);
  }
  CHECK(count == kPerSecond);
  // In a second there are as many again, for a client with a request in each millisecond.
  const Time later = kStart + std::chrono::seconds(2);
  const auto slow = t.Connect();
  const auto fast = t.Connect();
  count = 0;
  for (int i = 0; i < 100; ++i)
    count += RequestsBeforeSlowed(slow.get(), later + milliseconds(i), 3);
  CHECK(count == 300);
  count += RequestsBeforeSlowed(fast.get(), later + milliseconds(99), 2 * kPerSecond);
  CHECK(count >= kPerSecond);
  CHECK(count <= kPerSecond + 99 * kPerSecond / 1000 + 2 * 9);
}

TEST_CASE("each limit has a key of the configuration and takes its value from it") {
  Config config;
  config.watches_max = 17;
  config.requests_per_second_max = 18;
  const TenantLimits limits(config);
  CHECK(limits.of(Limit::kWatches) == 17);
  CHECK(limits.of(Limit::kRequests) == 18);
  CHECK(KeyOf(Limit::kWatches) == "limits.watches");
  CHECK(KeyOf(Limit::kFirstRequest) == "limits.firstRequestTimeoutMs");
}

}  // namespace
}  // namespace quorate::rpc
