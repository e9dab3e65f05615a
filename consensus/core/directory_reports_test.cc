// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/directory_reports.h"

#include <catch2/catch.hpp>
#include <vector>

namespace quorate::consensus {
namespace {

constexpr MemberId kA{1};
constexpr MemberId kB{2};
constexpr uint64_t kRetryTicks = 4;
constexpr uint64_t kAnswerTicks = 20;
constexpr int kConfirmations = 2;

using Members = std::vector<MemberId>;

TEST_CASE("the first report of a later directory confirms nothing, answers to questions do") {
  LaterDirectoryReports reports(kConfirmations);
  CHECK(reports.empty());
  CHECK_FALSE(reports.Record(kA));
  CHECK_FALSE(reports.empty());
  CHECK_FALSE(reports.Record(kA));  // nobody asked
  uint64_t now = kRetryTicks;
  CHECK(reports.Tick(now, kRetryTicks, kAnswerTicks) == Members{kA});
  CHECK(reports.Record(kA));
  CHECK_FALSE(reports.Record(kA));  // a duplicate
  CHECK(reports.confirmed() == 0);
  now += kRetryTicks;
  CHECK(reports.Tick(now, kRetryTicks, kAnswerTicks) == Members{kA});
  CHECK(reports.Record(kA));
  CHECK(reports.confirmed() == 1);
}

TEST_CASE("a member is asked again only after a while, and never while its answer is awaited") {
  LaterDirectoryReports reports(kConfirmations);
  reports.Record(kB);
  reports.Record(kA);
  CHECK(reports.Tick(kRetryTicks - 1, kRetryTicks, kAnswerTicks).empty());
  CHECK(reports.Tick(kRetryTicks, kRetryTicks, kAnswerTicks) == Members{kA, kB});
  CHECK(reports.Record(kA));
  CHECK(reports.Tick(2 * kRetryTicks - 1, kRetryTicks, kAnswerTicks).empty());
  CHECK(reports.Tick(2 * kRetryTicks, kRetryTicks, kAnswerTicks) == Members{kA});
}

TEST_CASE("a report is forgotten if its member does not answer, or knows no later directory") {
  LaterDirectoryReports reports(kConfirmations);
  reports.Record(kA);
  reports.Record(kB);
  CHECK(reports.Tick(kRetryTicks, kRetryTicks, kAnswerTicks) == Members{kA, kB});
  reports.Withdraw(kB);
  CHECK_FALSE(reports.empty());
  CHECK(reports.Tick(kRetryTicks + kAnswerTicks, kRetryTicks, kAnswerTicks).empty());
  CHECK(reports.empty());
}

TEST_CASE("a directory is announced once a period to the voters that have not recorded it") {
  constexpr int kPeriodTicks = 3;
  DirectoryAnnouncements announcements;
  const auto all_vote = [](MemberId) { return true; };
  CHECK(announcements.Tick(1, all_vote).empty());
  announcements.Add(kB);
  announcements.Add(kA);
  CHECK(announcements.Tick(kPeriodTicks, all_vote).empty());
  CHECK(announcements.Tick(kPeriodTicks, all_vote).empty());
  CHECK(announcements.Tick(kPeriodTicks, all_vote) == Members{kA, kB});
  CHECK(announcements.Tick(kPeriodTicks, all_vote).empty());
  announcements.Recorded(kA);
  CHECK(announcements.Tick(kPeriodTicks, all_vote).empty());
  CHECK(announcements.Tick(kPeriodTicks, all_vote) == Members{kB});

  SECTION("a member that is no voter any more is forgotten") {
    const auto nobody_votes = [](MemberId) { return false; };
    for (int i = 0; i < kPeriodTicks; ++i)
      CHECK(announcements.Tick(kPeriodTicks, nobody_votes).empty());
    CHECK(announcements.empty());
  }
}

}  // namespace
}  // namespace quorate::consensus
