// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/election.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <string>
#include <vector>

#include "client/recipes/leader_latch.h"
#include "client/recipes/mutex.h"
#include "client/recipes/testing/lock_testing.h"

namespace quorate {
namespace {

ElectionOptions ListenWith(std::string id, Collected<std::string>* told) {
  return {.id = std::move(id), .listener = [told](const ElectionEvent& event) {
            told->Add(std::string(NameOf(event.state)));
          }};
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("the first candidate leads, and the next one when it stops or fails") {
  const std::string path = "/election/first";
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::unique_ptr<Election>> elections;
  Collected<std::string> told[3];
  for (int i = 0; i < 3; ++i) {
    clients.push_back(Connect());
    elections.push_back(std::make_unique<Election>(
        clients.back().get(), path, ListenWith("candidate-" + std::to_string(i), &told[i])));
    REQUIRE(elections.back()->Start().ok());
    CHECK(absl::IsFailedPrecondition(elections.back()->Start()));
    REQUIRE(told[i].WaitFor(4).size() == 4);
  }
  CHECK(told[0].WaitFor(0) == Names{"START", "OFFER", "DETERMINE", "ELECTED"});
  CHECK(told[1].WaitFor(0) == Names{"START", "OFFER", "DETERMINE", "READY"});
  CHECK(elections[0]->is_leader());
  CHECK(absl::IsDeadlineExceeded(elections[1]->AwaitLeadership(20).status()));
  const int64_t first_token = *elections[0]->AwaitLeadership();
  CHECK(elections[2]->Leader()->id == "candidate-0");
  CHECK(elections[2]->Participants()->size() == 3);
  CHECK(elections[2]->Participants()->at(2).id == "candidate-2");

  // One waiting candidate stops: only the candidate behind it is notified.
  REQUIRE(elections[1]->Stop().ok());
  CHECK(elections[1]->state() == ElectionState::kStopped);
  CHECK(told[2].WaitFor(6) == Names{"START", "OFFER", "DETERMINE", "READY", "DETERMINE", "READY"});
  REQUIRE(clients[0]->Close().ok());
  CHECK(told[0].WaitFor(5).back() == "FAILED");
  CHECK(!elections[0]->AwaitLeadership().ok());
  CHECK(*elections[2]->AwaitLeadership() > first_token);
  CHECK(told[2].WaitFor(8).back() == "ELECTED");
  CHECK(told[0].WaitFor(0).size() == 5);

  // A stopped candidate starts again.
  CHECK(absl::IsFailedPrecondition(elections[1]->AwaitLeadership().status()));
  CHECK(absl::IsFailedPrecondition(elections[1]->Resign()));
  REQUIRE(elections[1]->Start().ok());
  REQUIRE(elections[2]->Stop().ok());
  CHECK(!elections[2]->is_leader());
  CHECK(elections[1]->AwaitLeadership().ok());
  elections.clear();
  CHECK(WaitForChildren(clients[2].get(), path, 0));
}

TEST_CASE("a candidate that resigns, or whose znode is deleted, goes to the end of the line") {
  const std::string path = "/election/resign";
  auto client = Connect();
  auto other = Connect();
  Collected<std::string> told;
  Election first(client.get(), path, ListenWith("first", &told));
  Election second(other.get(), path, {.id = "second"});
  REQUIRE(first.Start().ok());
  REQUIRE(first.AwaitLeadership().ok());
  REQUIRE(second.Start().ok());
  REQUIRE(WaitForChildren(client.get(), path, 2));
  REQUIRE(first.Resign().ok());
  CHECK(!first.is_leader());
  REQUIRE(second.AwaitLeadership().ok());
  REQUIRE(told.WaitFor(7).back() == "READY");
  REQUIRE(client->Delete(second.Leader()->node).ok());
  REQUIRE(first.AwaitLeadership().ok());
  REQUIRE(WaitForChildren(client.get(), path, 2));
  CHECK(first.Participants()->at(1).id == "second");
  CHECK(told.WaitFor(9) == Names{"START", "OFFER", "DETERMINE", "ELECTED", "OFFER", "DETERMINE",
                                 "READY", "DETERMINE", "ELECTED"});
}

TEST_CASE("the listener of a candidate may resign, stop and destroy it") {
  auto client = Connect();
  std::unique_ptr<Election> election;
  // Catch's assertions may be used by one thread only, so callbacks pass results to this one.
  std::promise<absl::Status> ended;
  std::atomic<int> times{0}, resignations{0};
  election = std::make_unique<Election>(
      client.get(), "/election/callbacks",
      ElectionOptions{.id = "a", .listener = [&](const ElectionEvent& event) {
                        if (event.state != ElectionState::kElected) return;
                        if (++times < 3) {
                          resignations += election->Resign().ok() ? 1 : 0;
                          return;
                        }
                        const absl::Status stopped = election->Stop();
                        election.reset();
                        ended.set_value(stopped);
                      }});
  REQUIRE(election->Start().ok());
  CHECK(absl::IsFailedPrecondition(ended.get_future().get()));
  CHECK(times == 3);
  CHECK(resignations == 2);
  CHECK(WaitForChildren(client.get(), "/election/callbacks", 0));
}

TEST_CASE("a candidate at an unusable path fails, and can be started again") {
  auto client = Connect();
  REQUIRE(client->Create("/election-ephemeral", "", {.mode = CreateMode::kEphemeral}).ok());
  Election election(client.get(), "/election-ephemeral", {.id = "a"});
  CHECK(absl::IsFailedPrecondition(election.AwaitLeadership().status()));
  REQUIRE(election.Start().ok());
  CHECK(ErrorOf(election.AwaitLeadership().status()) == ErrorCode::kNoChildrenForEphemerals);
  REQUIRE(client->Delete("/election-ephemeral").ok());
  REQUIRE(election.Start().ok());
  CHECK(election.AwaitLeadership().ok());
}

TEST_CASE("no candidate leads while no member serves") {
  auto servers = testing::ServerFixture::Start();
  REQUIRE(servers.ok());
  auto client = *Client::Connect({.servers = (*servers)->servers(), .session_timeout_ms = 20'000});
  Collected<bool> told;
  LeaderLatch latch(client.get(), "/latch",
                    {.id = "a", .listener = [&](bool has) { told.Add(has); }});
  REQUIRE(latch.Start().ok());
  const int64_t token = *latch.Await();
  CHECK(latch.HasLeadership());
  (*servers)->Kill(1);
  CHECK(told.WaitFor(2) == std::vector<bool>{true, false});
  CHECK(!latch.HasLeadership());
  REQUIRE((*servers)->Restart(1).ok());
  CHECK(*latch.Await() == token);
  CHECK(told.WaitFor(3) == std::vector<bool>{true, false, true});
  REQUIRE(latch.Close().ok());
  CHECK(told.WaitFor(4) == std::vector<bool>{true, false, true, false});
}

TEST_CASE("leader latches share a path") {
  auto client = Connect();
  auto other = Connect();
  LeaderLatch first(client.get(), "/latches", {.id = "first"});
  LeaderLatch second(other.get(), "/latches", {.id = "second"});
  REQUIRE(first.Start().ok());
  REQUIRE(first.Await().ok());
  REQUIRE(second.Start().ok());
  REQUIRE(WaitForChildren(client.get(), "/latches", 2));
  CHECK(!second.HasLeadership());
  CHECK(second.Leader()->id == "first");
  CHECK(second.Participants()->size() == 2);
  // A znode with another prefix does not take part.
  InterProcessMutex mutex(client.get(), "/latches");
  CHECK(*mutex.TryAcquire());
  REQUIRE(first.Close().ok());
  CHECK(second.Await().ok());
}

TEST_CASE("a candidate that is stopped while it resigns leaves no znode") {
  const std::string path = "/election/resigns";
  auto client = Connect();
  auto other = Connect();
  for (int i = 0; i < 100; ++i) {
    Election election(client.get(), path, {.id = "candidate"});
    REQUIRE(election.Start().ok());
    if (i % 2 == 0) REQUIRE(election.AwaitLeadership().ok());
    std::atomic<bool> stops = false;
    auto resigns = std::async(std::launch::async, [&] {
      while (!stops) election.Resign().IgnoreError();
    });
    REQUIRE(election.Stop().ok());
    stops = true;
    const size_t left = CountChildren(other.get(), path);
    resigns.wait();
    REQUIRE(left == 0);
  }
}

}  // namespace quorate
