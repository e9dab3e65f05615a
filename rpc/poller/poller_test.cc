// SPDX-License-Identifier: Apache-2.0

#include "rpc/poller/poller.h"

#include <sys/socket.h>

#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>
#include <utility>

namespace quorate::rpc {
namespace {

using Clock = Poller::Clock;
using Readiness = Poller::Readiness;

constexpr Readiness kReadable = {.readable = true, .writable = false};
constexpr Readiness kWritable = {.readable = false, .writable = true};

// Two ends of a connection; the first is registered.
struct Pair : Poller::Handler {
  Pair(Poller* the_poller, Readiness interest) : poller(the_poller) {
    std::array<int, 2> ends{};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
    own = Descriptor(ends[0]);
    other = Descriptor(ends[1]);
    id = the_poller->Add(own.number(), interest, this).value();
  }
  ~Pair() override {
    if (is_registered) Remove();
  }
  void Remove() {
    poller->Remove(id);
    is_registered = false;
  }
  void OnReady(Readiness ready) override {
    ++calls;
    last = ready;
    if (then) then();
  }
  void Send() const { REQUIRE(::send(other.number(), "x", 1, 0) == 1); }
  void Receive() const {
    char byte = 0;
    REQUIRE(::recv(own.number(), &byte, 1, 0) == 1);
  }

  Poller* const poller;
  Descriptor own;
  Descriptor other;
  bool is_registered = true;
  Poller::Id id{};
  int calls = 0;
  Readiness last;
  std::function<void()> then;
};

// Reports what is ready now.
void PollOnce(Poller* poller) { poller->Poll(Clock::time_point::min()); }

TEST_CASE("a descriptor is reported as long as it is ready") {
  Poller poller;
  Pair pair(&poller, kReadable);
  PollOnce(&poller);
  CHECK(pair.calls == 0);
  pair.Send();
  PollOnce(&poller);
  PollOnce(&poller);
  CHECK(pair.calls == 2);
  CHECK(pair.last == kReadable);
  pair.Receive();
  PollOnce(&poller);
  CHECK(pair.calls == 2);
}

TEST_CASE("a descriptor that the system refuses is not registered") {
  Poller poller;
  Pair pair(&poller, kReadable);
  CHECK_FALSE(poller.Add(pair.own.number(), kReadable, &pair).has_value());  // it is there already
  pair.Send();
  PollOnce(&poller);
  CHECK(pair.calls == 1);
}

TEST_CASE("only what a descriptor is waited for is reported") {
  Poller poller;
  Pair pair(&poller, kWritable);
  pair.Send();
  PollOnce(&poller);
  CHECK(pair.last == kWritable);
  poller.SetInterest(pair.id, {.readable = true, .writable = true});
  PollOnce(&poller);
  CHECK(pair.last == Readiness{.readable = true, .writable = true});
  CHECK(pair.calls == 2);
}

TEST_CASE("a closed connection is reported only while something is waited for") {
  Poller poller;
  Pair pair(&poller, {});
  pair.other.Close();
  PollOnce(&poller);
  CHECK(pair.calls == 0);
  poller.SetInterest(pair.id, kReadable);
  PollOnce(&poller);
  CHECK(pair.calls == 1);
  CHECK(pair.last == kReadable);
  poller.SetInterest(pair.id, {});
  PollOnce(&poller);
  CHECK(pair.calls == 1);
}

TEST_CASE("a handler that another one removed in the same poll is not called") {
  Poller poller;
  Pair first(&poller, kReadable);
  Pair second(&poller, kReadable);
  bool removed = false;
  const auto remove = [&](Pair& other) {
    if (!std::exchange(removed, true)) other.Remove();
  };
  first.then = [&] { remove(second); };
  second.then = [&] { remove(first); };
  first.Send();
  second.Send();
  PollOnce(&poller);
  CHECK(first.calls + second.calls == 1);

  SECTION("nor is the handler that gets its slot") {
    const Pair& gone = first.calls == 0 ? first : second;
    Pair third(&poller, kReadable);
    gone.Send();
    PollOnce(&poller);
    CHECK(third.calls == 0);
  }
}

TEST_CASE("a poll handles as many descriptors as it may, and the next one those that are left") {
  Poller poller(/*events_max=*/1);
  Pair first(&poller, kReadable);
  Pair second(&poller, kReadable);
  first.Send();
  second.Send();
  PollOnce(&poller);
  CHECK(first.calls + second.calls == 1);
  for (int i = 0; i < 3; ++i) PollOnce(&poller);
  CHECK(first.calls > 0);
  CHECK(second.calls > 0);
}

TEST_CASE("a poll that waits is woken, and a wake-up before it is not lost") {
  Poller poller;
  poller.Wake();
  poller.Poll(Clock::time_point::max());
  std::thread other([&] { poller.Wake(); });
  poller.Poll(Clock::time_point::max());
  other.join();
}

TEST_CASE("posted tasks run in the order of their posts") {
  Poller poller;
  std::vector<int> ran;
  poller.Post([&] {
    ran.push_back(1);
    poller.Post([&] { ran.push_back(3); });
  });
  poller.Post([&] { ran.push_back(2); });
  poller.Poll(Clock::time_point::max());
  CHECK(ran == std::vector{1, 2});
  poller.Poll(Clock::time_point::max());
  CHECK(ran == std::vector{1, 2, 3});
}

TEST_CASE("a task runs when its time has come, and not before") {
  Poller poller;
  std::vector<int> ran;
  const auto now = Clock::now();
  poller.RunAt(now + std::chrono::hours(1), [&] { ran.push_back(3); });
  poller.RunAt(now + std::chrono::milliseconds(2), [&] {
    ran.push_back(2);
    CHECK(Clock::now() >= now + std::chrono::milliseconds(2));
  });
  poller.RunAt(now, [&] { ran.push_back(1); });
  while (ran.size() < 2) poller.Poll(Clock::time_point::max());
  PollOnce(&poller);
  CHECK(ran == std::vector{1, 2});
}

}  // namespace
}  // namespace quorate::rpc
