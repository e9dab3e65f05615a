// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/health.h"

#include <catch2/catch.hpp>
#include <string>

namespace quorate::rpc::admin {
namespace {

using consensus::MemberId;

constexpr int64_t kContactLimitMs = 10'000;

// A cluster of three voters and an observer, seen by its leader, member 1, which is well.
struct State {
  State() {
    status.leader_known = status.is_leader = status.caught_up = status.in_touch = true;
    view.self = view.leader = MemberId(1);
    view.is_leader = true;
    for (uint32_t id = 1; id <= 4; ++id) {
      ClusterView::Member& member = view.members.emplace_back();
      member.id = MemberId(id);
      member.observer = id == 4;
      member.reachable = member.in_sync = true;
    }
  }
  HttpResponse Get(const std::string& target) const {
    const auto response =
        HealthResponse(*ParseRequestTarget(target), status, view, kContactLimitMs);
    REQUIRE(response.has_value());
    return *response;
  }
  unsigned Status(const std::string& target) const { return Get(target).status; }

  ServerStatus status;
  ClusterView view;
};

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a server without a leader is alive, but not ready") {
  State state;
  for (const std::string_view path : kHealthPaths) {
    CHECK(state.Status(std::string(path)) == 200);
  }
  state.status.leader_known = state.status.is_leader = false;
  CHECK(state.Status("/health/live") == 200);
  CHECK(state.Status("/health/startup") == 200);
  CHECK(state.Status("/health/ready") == 503);
  CHECK(state.Get("/health/ready").body == "there is no leader\n");
  CHECK(state.Status("/health/safe-to-stop") == 503);
}

TEST_CASE("a server that has not caught up has not started, and is not ready") {
  State state;
  state.status.caught_up = state.status.in_touch = false;
  CHECK(state.Status("/health/live") == 200);
  CHECK(state.Status("/health/startup") == 503);
  CHECK(Has(state.Get("/health/ready").body, "has not caught up"));
}

TEST_CASE("a server that has lost contact with its leader is not ready") {
  State state;
  state.status.in_touch = false;
  state.status.leader_contact_age_ms = 4321;
  CHECK(Has(state.Get("/health/ready").body, "4321 ms"));
  CHECK(state.Status("/health/ready") == 503);
}

TEST_CASE("a leader whose status is old is not ready, nor safe to stop") {
  State state;
  state.status.leader_contact_age_ms = kContactLimitMs;
  CHECK(state.Status("/health/ready") == 200);
  state.status.leader_contact_age_ms = 60'000;
  CHECK(state.Status("/health/live") == 200);
  CHECK(state.Get("/health/ready").body == "this server has not renewed its status for 60000 ms\n");
  CHECK(state.Status("/health/ready") == 503);
  CHECK(state.Status("/health/safe-to-stop?member=2") == 503);
}

TEST_CASE("a member may stop only if the other voters keep a majority that is up to date") {
  State state;
  CHECK(state.Status("/health/safe-to-stop?member=2") == 200);
  state.view.members[2].in_sync = false;  // member 3
  CHECK(state.Status("/health/safe-to-stop") == 503);
  CHECK(state.Status("/health/safe-to-stop?member=2") == 503);
  CHECK(
      Has(state.Get("/health/safe-to-stop?member=2").body, "1 voters are up to date, and 2 of 3"));
  // The one that is behind does not count anyway, and the observer never does.
  CHECK(state.Status("/health/safe-to-stop?member=3") == 200);
  CHECK(state.Status("/health/safe-to-stop?member=4") == 200);
  state.view.members[2].in_sync = true;
  state.view.members[2].reachable = false;
  CHECK(state.Status("/health/safe-to-stop") == 503);
  state.view.members[2].reachable = true;
  // The log of the leader itself can be behind what the others have.
  state.view.members[0].in_sync = false;
  CHECK(state.Status("/health/safe-to-stop?member=2") == 503);
  CHECK(state.Status("/health/safe-to-stop") == 200);
  state.view.members[0].in_sync = true;
  state.view.changing = true;
  CHECK(state.Status("/health/safe-to-stop") == 503);
}

TEST_CASE("a follower names the leader, which knows whether it may stop") {
  State state;
  state.status.is_leader = state.view.is_leader = false;
  state.view.self = MemberId(2);
  CHECK(state.Status("/health/safe-to-stop") == 503);
  CHECK(Has(state.Get("/health/safe-to-stop").body, "ask member 1, with ?member=2"));
  // An observer has no vote, so it may always stop.
  CHECK(state.Status("/health/safe-to-stop?member=4") == 200);
}

TEST_CASE("the only server is never safe to stop, nor is a member that does not exist") {
  State state;
  CHECK(state.Status("/health/safe-to-stop?member=9") == 503);
  CHECK(state.Status("/health/safe-to-stop?member=x") == 400);
  state.view.members.resize(1);
  state.status.standalone = true;
  CHECK(state.Get("/health/safe-to-stop").body == "it is the only server\n");
  CHECK(state.Status("/health/ready") == 200);
}

TEST_CASE("other paths are none of health") {
  const State state;
  CHECK_FALSE(HealthResponse(*ParseRequestTarget("/health/other"), state.status, state.view,
                             kContactLimitMs)
                  .has_value());
}

}  // namespace
}  // namespace quorate::rpc::admin
