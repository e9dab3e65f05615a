// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/disk/disk_guard.h"

#include <catch2/catch.hpp>
#include <set>
#include <vector>

namespace quorate::rpc {
namespace {

using consensus::kNoMember;
using consensus::MemberId;

constexpr MemberId k1{1};
constexpr MemberId k2{2};
constexpr MemberId k3{3};
constexpr MemberId k4{4};
constexpr DiskReport kLow{true, false};
constexpr int kReportTicks = 2;
constexpr int kForgetTicks = 10;
constexpr int kPatienceTicks = 20;

// Member 1 in a cluster of the voters 1, 2 and 3 and the learner 4.
struct Fixture {
  Fixture() {
    members.voters = {k1, k2, k3};
    members.learners = {k4};
    view.leader = k1;
    view.membership = &members;
    view.follows = [this](MemberId member) { return down.count(member) == 0; };
  }
  // Runs `ticks` ticks, and returns the last actions that were not empty.
  DiskGuard::Actions Tick(int ticks = kReportTicks) {
    DiskGuard::Actions told;
    for (int i = 0; i < ticks; ++i) {
      for (MemberId member : low) guard.OnReport(member, kLow);
      DiskGuard::Actions actions = guard.Tick(view);
      if (actions.successors.empty()) actions.successors = std::move(told.successors);
      if (actions.report_to.empty()) {
        actions.report = told.report;
        actions.report_to = std::move(told.report_to);
      }
      told = std::move(actions);
    }
    return told;
  }

  consensus::Membership members;
  std::set<MemberId> down;
  std::vector<MemberId> low;
  DiskGuard::View view;
  DiskGuard guard{{k1, kReportTicks, kForgetTicks, kPatienceTicks}};
};

TEST_CASE("nobody says anything as long as there is free space") {
  Fixture f;
  const auto actions = f.Tick();
  CHECK(actions.report_to.empty());
  CHECK(actions.successors.empty());
  CHECK_FALSE(f.guard.refuses_data());
}

TEST_CASE("a leader whose disk is low names those who have free space") {
  Fixture f;
  f.view.own_disk_low = true;
  CHECK(f.Tick().successors == std::vector<MemberId>{k2, k3});
  CHECK_FALSE(f.guard.refuses_data());
  SECTION("and again after a while") {
    CHECK(f.Tick(kForgetTicks - kReportTicks).successors.empty());
    CHECK(f.Tick().successors.size() == 2);
  }
  SECTION("and refuses when it leads on for too long") {
    f.Tick(kPatienceTicks);
    CHECK(f.guard.refuses_data());
    f.view.own_disk_low = false;
    f.Tick();
    CHECK_FALSE(f.guard.refuses_data());
  }
  SECTION("but not if those are no majority") {
    f.low = {k2};
    const auto actions = f.Tick();
    CHECK(actions.successors.empty());
    CHECK(f.guard.refuses_data());
    CHECK(actions.report == DiskReport{true, true});
  }
}

TEST_CASE("a leader refuses for all when too few voters have free space") {
  Fixture f;
  f.low = {k2};
  CHECK(f.Tick().report_to.empty());
  CHECK_FALSE(f.guard.refuses_data());
  SECTION("because another one is low") { f.low = {k2, k3}; }
  SECTION("because another one is not there") { f.down = {k3}; }
  const auto actions = f.Tick();
  CHECK(f.guard.refuses_data());
  CHECK(actions.report == DiskReport{false, true});
  CHECK(actions.report_to == std::vector<MemberId>{k2, k3, k4});
  CHECK(actions.successors.empty());
  // A report that is not repeated is forgotten.
  f.low = {};
  f.down = {};
  f.Tick(kForgetTicks + 1);
  CHECK_FALSE(f.guard.refuses_data());
}

TEST_CASE("nothing is refused because members are not there") {
  Fixture f;
  f.down = {k2, k3};
  f.Tick();
  CHECK_FALSE(f.guard.refuses_data());
}

TEST_CASE("a learner whose disk is low keeps nobody") {
  Fixture f;
  f.low = {k4};
  f.Tick();
  CHECK_FALSE(f.guard.refuses_data());
}

TEST_CASE("a follower tells the leader that its disk is low, and does as the leader says") {
  Fixture f;
  f.view.leader = k2;
  CHECK(f.Tick().report_to.empty());
  f.view.own_disk_low = true;
  const auto actions = f.Tick();
  CHECK(actions.report_to == std::vector<MemberId>{k2});
  CHECK(actions.report == kLow);
  CHECK(actions.successors.empty());
  CHECK_FALSE(f.guard.refuses_data());

  f.guard.OnReport(k3, {true, true});  // a member that does not lead
  f.Tick();
  CHECK_FALSE(f.guard.refuses_data());
  f.guard.OnReport(k2, {false, true});
  f.Tick();
  CHECK(f.guard.refuses_data());
  SECTION("until it says so no more") { f.Tick(kForgetTicks); }
  SECTION("until there is another one") { f.view.leader = k3, f.guard.OnReport(k3, kLow); }
  f.Tick();
  CHECK_FALSE(f.guard.refuses_data());
  f.view.leader = kNoMember;
  CHECK(f.Tick().report_to.empty());
}

}  // namespace
}  // namespace quorate::rpc
