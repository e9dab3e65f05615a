// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/leader_selector.h"

#include <atomic>
#include <future>
#include <memory>
#include <semaphore>
#include <string>
#include <utility>
#include <vector>

#include "client/recipes/session_loss_test.h"
#include "client/testing/collected.h"

namespace quorate {
namespace {

using testing::Collected;
using testing::ConnectTo;
using testing::Losses;
using testing::WaitForChildren;

constexpr char kPath[] = "/selector";
constexpr int kLongMs = 20'000;

// A function that leads: reports its token, and returns when it is asked to, or is told to.
class Reign {
 public:
  auto function() {
    return [this](const Leadership& leadership) {
      begun_.Add(leadership.fencing_token());
      const std::stop_callback stopped(leadership.stop(), [this] { returns_.release(); });
      returns_.acquire();
      ended_.Add(leadership.stop().stop_requested());
    };
  }
  // Waits until the function was called `count` times, and returns the tokens.
  std::vector<int64_t> WaitForBegun(size_t count) {
    auto tokens = begun_.WaitFor(count);
    REQUIRE(tokens.size() == count);
    return tokens;
  }
  // Waits until the function has returned `count` times, and returns whether it was asked to.
  std::vector<bool> WaitForEnded(size_t count) {
    auto ended = ended_.WaitFor(count);
    REQUIRE(ended.size() == count);
    return ended;
  }
  void Return() { returns_.release(); }

 private:
  Collected<int64_t> begun_;
  Collected<bool> ended_;
  std::counting_semaphore<> returns_{0};
};

}  // namespace

TEST_CASE("candidates lead in turns, and each goes to the end of the line when it has led") {
  const auto one = ConnectTo("/selector-turns"), other = ConnectTo("/selector-turns");
  Reign first, second;
  LeaderSelector a(one.get(), kPath, first.function(), {.id = "a"});
  LeaderSelector b(other.get(), kPath, second.function(), {.id = "b"});
  REQUIRE(a.Start().ok());
  CHECK(absl::IsFailedPrecondition(a.Start()));
  int64_t last = first.WaitForBegun(1)[0];
  REQUIRE(b.Start().ok());
  REQUIRE(WaitForChildren(one.get(), kPath, 2));
  CHECK(a.HasLeadership());
  CHECK(a.Leader()->id == "a");
  for (size_t round = 1; round <= 3; ++round) {
    CAPTURE(round);
    first.Return();
    const int64_t next = second.WaitForBegun(round).back();
    CHECK(next > last);
    CHECK(first.WaitForEnded(round).back() == false);
    // The other one is in line again before this one returns, which makes the order certain.
    REQUIRE(WaitForChildren(one.get(), kPath, 2));
    second.Return();
    last = first.WaitForBegun(round + 1).back();
    CHECK(last > next);
    REQUIRE(WaitForChildren(one.get(), kPath, 2));
  }
  CHECK(b.Participants()->at(1).id == "b");
}

TEST_CASE("without requeues a candidate leads once, and again after Requeue") {
  const auto client = ConnectTo("/selector-once");
  Reign reign;
  LeaderSelector selector(client.get(), kPath, reign.function(), {.id = "a", .requeues = false});
  CHECK(absl::IsFailedPrecondition(selector.Requeue()));
  REQUIRE(selector.Start().ok());
  reign.WaitForBegun(1);
  reign.Return();
  REQUIRE(WaitForChildren(client.get(), kPath, 0));
  REQUIRE(selector.Requeue().ok());
  reign.WaitForBegun(2);
  // While the function runs: as soon as it has returned.
  REQUIRE(selector.Requeue().ok());
  reign.Return();
  reign.WaitForBegun(3);
  reign.Return();
  REQUIRE(WaitForChildren(client.get(), kPath, 0));
  REQUIRE(selector.Close(kLongMs).ok());
  CHECK(absl::IsFailedPrecondition(selector.Requeue()));
  CHECK(absl::IsFailedPrecondition(selector.Start()));
}

TEST_CASE("a function that leads is asked to return by Interrupt, Close and the destructor") {
  const auto client = ConnectTo("/selector-interrupt"), other = ConnectTo("/selector-interrupt");
  Reign first, second;
  auto a = std::make_unique<LeaderSelector>(client.get(), kPath, first.function(),
                                            LeaderSelectorOptions{.id = "a"});
  LeaderSelector b(other.get(), kPath, second.function(), {.id = "b"});
  CHECK_FALSE(a->Interrupt());
  REQUIRE(a->Start().ok());
  first.WaitForBegun(1);
  REQUIRE(b.Start().ok());
  REQUIRE(WaitForChildren(client.get(), kPath, 2));
  CHECK(a->Interrupt());
  CHECK(first.WaitForEnded(1)[0]);
  second.WaitForBegun(1);
  REQUIRE(b.Close(kLongMs).ok());
  CHECK(second.WaitForEnded(1)[0]);
  first.WaitForBegun(2);
  a.reset();
  CHECK(first.WaitForEnded(2)[1]);
  CHECK(WaitForChildren(other.get(), kPath, 0));
}

TEST_CASE("the leadership is kept until the function returns, also when the selector is closed") {
  const auto client = ConnectTo("/selector-slow"), other = ConnectTo("/selector-slow");
  std::promise<void> may_return;
  Collected<int64_t> begun;
  LeaderSelector slow(client.get(), kPath,
                      [&](const Leadership& leadership) {
                        begun.Add(leadership.fencing_token());
                        may_return.get_future().wait();
                      },
                      {.id = "slow"});
  REQUIRE(slow.Start().ok());
  REQUIRE(begun.WaitFor(1).size() == 1);
  Reign reign;
  LeaderSelector next(other.get(), kPath, reign.function(), {.id = "next"});
  REQUIRE(next.Start().ok());
  REQUIRE(WaitForChildren(other.get(), kPath, 2));
  CHECK(absl::IsDeadlineExceeded(slow.Close(20)));
  CHECK(next.Leader()->id == "slow");
  may_return.set_value();
  // Without another call of Close.
  reign.WaitForBegun(1);
  REQUIRE(slow.Close(kLongMs).ok());
  CHECK(next.Participants()->size() == 1);
}

TEST_CASE("a function cannot close its selector, and learns that its znode was deleted") {
  const auto client = ConnectTo("/selector-deleted"), other = ConnectTo("/selector-deleted");
  Collected<absl::Status> told;
  std::counting_semaphore<> stops{0};
  LeaderSelector* self = nullptr;
  LeaderSelector selector(client.get(), kPath,
                          [&](const Leadership& leadership) {
                            told.Add(self->Close());
                            Transaction guarded;
                            told.Add(leadership.Guard(&guarded));
                            guarded.Create("/written", "");
                            const std::stop_callback stopped(leadership.stop(),
                                                             [&] { stops.release(); });
                            stops.acquire();
                            told.Add(client->Commit(guarded).status());
                            told.Add(leadership.Guard(&guarded));
                          },
                          {.id = "a", .requeues = false});
  self = &selector;
  REQUIRE(selector.Start().ok());
  REQUIRE(told.WaitFor(2).size() == 2);
  REQUIRE(other->Delete(kPath + std::string("/") + other->List(kPath)->children.at(0)).ok());
  const auto statuses = told.WaitFor(4);
  REQUIRE(statuses.size() == 4);
  CHECK(absl::IsFailedPrecondition(statuses[0]));
  CHECK(statuses[1].ok());
  CHECK(ErrorOf(statuses[2]) == ErrorCode::kNoNode);
  CHECK_FALSE(statuses[3].ok());
  CHECK_FALSE(other->Exists("/written")->has_value());
}

TEST_CASE("a leadership that is over guards nothing, although the candidate leads again") {
  const auto client = ConnectTo("/selector-again"), other = ConnectTo("/selector-again");
  Collected<int64_t> elected;
  Collected<absl::Status> guarded;
  std::promise<void> is_elected_again;
  std::atomic<int> calls{0};
  LeaderSelector selector(client.get(), kPath,
                          [&](const Leadership& leadership) {
                            if (++calls > 1) return;
                            is_elected_again.get_future().wait();
                            Transaction late;
                            guarded.Add(leadership.Guard(&late));
                          },
                          {.id = "a", .listener = [&](const ElectionEvent& event) {
                             if (event.state == ElectionState::kElected)
                               elected.Add(event.fencing_token);
                           }});
  REQUIRE(selector.Start().ok());
  REQUIRE(elected.WaitFor(1).size() == 1);
  REQUIRE(other->Delete(kPath + std::string("/") + other->List(kPath)->children.at(0)).ok());
  REQUIRE(elected.WaitFor(2).size() == 2);
  CHECK(selector.HasLeadership());
  is_elected_again.set_value();
  REQUIRE(guarded.WaitFor(1).size() == 1);
  CHECK(absl::IsFailedPrecondition(guarded.WaitFor(1)[0]));
}

TEST_CASE("guarded writes of leaders exclude each other while sessions are lost") {
  const auto one = ConnectTo("/selector-lost"), other = ConnectTo("/selector-lost"),
             observer = ConnectTo("/selector-lost");
  REQUIRE(observer->Create("/sum", "0").ok());
  std::atomic<int> made{0}, unknown{0};
  const auto leads = [&](Client* client) {
    return [&made, &unknown, client](const Leadership& leadership) {
      while (!leadership.stop().stop_requested()) {
        const auto read = client->Get("/sum");
        Transaction write;
        if (!read.ok() || !leadership.Guard(&write).ok()) return;
        write.Set("/sum", std::to_string(std::stoi(read->data) + 1));
        const absl::Status status = client->Commit(write).status();
        if (status.ok()) {
          ++made;
        } else if (testing::MayBeApplied(status)) {
          ++unknown;
        }
        if (!status.ok()) return;
      }
    };
  };
  {
    LeaderSelector a(one.get(), kPath, leads(one.get()), {.id = "a"});
    LeaderSelector b(other.get(), kPath, leads(other.get()), {.id = "b"});
    REQUIRE(a.Start().ok());
    REQUIRE(b.Start().ok());
    Losses ended({one.get(), other.get()}, 60, 12);
    while (!ended.is_over()) a.Interrupt();
  }
  const int sum = std::stoi(observer->Get("/sum", {.linearizable = true})->data);
  CHECK(made > 0);
  CHECK(sum >= made);
  CHECK(sum <= made + unknown);
}

}  // namespace quorate
