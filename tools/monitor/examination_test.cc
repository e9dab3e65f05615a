// SPDX-License-Identifier: Apache-2.0

#include "tools/monitor/examination.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/proto/times.h"

namespace quorate::tools {
namespace {

using Catch::Matchers::Contains;

constexpr int64_t kDayMs = 24ll * 3600 * 1000;

// Three members in good health, of which member 1 leads, observed twice at an interval of a second.
class Cluster {
 public:
  Cluster() {
    for (uint32_t id = 1; id <= 3; ++id) {
      v1::StatusResponse status;
      status.set_member(id);
      status.set_role(id == 1 ? v1::ROLE_LEADER : v1::ROLE_FOLLOWER);
      status.set_serving(true);
      status.set_leader(1);
      status.set_commit_index(5000);
      status.set_zxid(5000);
      status.set_digest(7);
      status.set_disk_used_bytes(1 << 20);
      status.set_disk_free_bytes(100ull << 30);
      status.set_version("1.0");
      *status.mutable_uptime() = v1::DurationOfMs(kDayMs);
      status.set_cluster_id("c");
      now.push_back({.address = absl::StrCat("host", id),
                     .status = status,
                     .members = v1::MembersResponse(),
                     .metrics = Metrics(),
                     .at = std::chrono::steady_clock::time_point(std::chrono::seconds(10)),
                     .wall = std::chrono::system_clock::time_point(std::chrono::seconds(1000))});
      texts.emplace_back();
      before_texts.emplace_back();
    }
    v1::MembersResponse& members = *now[0].members;
    members.set_from_leader(true);
    members.set_answered_by(1);
    for (uint32_t id = 1; id <= 3; ++id) {
      v1::Member* member = members.add_members();
      member->set_id(id);
      member->set_role(id == 1 ? v1::ROLE_LEADER : v1::ROLE_FOLLOWER);
      member->set_reachable(true);
      member->set_in_sync(true);
      member->set_match_index(5000);
    }
  }

  v1::Member* member(int i) { return now[0].members->mutable_members(i); }
  void SetBoth(size_t i, const std::string& line) {
    before_texts[i] += line + "\n";
    texts[i] += line + "\n";
  }

  std::vector<Finding> Examine() {
    std::vector<Observation> before = now;
    for (size_t i = 0; i < now.size(); ++i) {
      before[i].at -= std::chrono::seconds(1);
      if (!now[i].metrics.ok()) continue;
      before[i].metrics = Metrics::Parse(before_texts[i]);
      now[i].metrics = Metrics::Parse(texts[i]);
    }
    return tools::Examine(before, now);
  }

  // Requires exactly one finding.
  void CheckOnly(Severity severity, const std::string& subject, const std::string& what) {
    const std::vector<Finding> findings = Examine();
    std::string all;
    for (const Finding& finding : findings) {
      absl::StrAppend(&all, finding.subject, " ", finding.what, "\n");
      CHECK_FALSE(finding.advice.empty());
    }
    INFO(all);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].severity == severity);
    CHECK(findings[0].subject == subject);
    CHECK_THAT(findings[0].what, Contains(what));
  }

  std::vector<Observation> now;
  std::vector<std::string> texts;
  std::vector<std::string> before_texts;
};

TEST_CASE("nothing is wrong with a cluster in good health") { CHECK(Cluster().Examine().empty()); }

TEST_CASE("members that do not answer, or cannot be reached, are problems") {
  Cluster cluster;
  SECTION("a server") {
    cluster.now[2].status = absl::UnavailableError("connection refused");
    cluster.CheckOnly(Severity::kProblem, "host3", "connection refused");
  }
  SECTION("a member behind the leader") {
    cluster.member(2)->set_reachable(false);
    cluster.member(2)->set_problem("timed out");
    const std::vector<Finding> findings = cluster.Examine();
    REQUIRE(findings.size() == 2);
    CHECK(findings[0].severity == Severity::kProblem);
    CHECK(findings[0].subject == "member 3");
    CHECK_THAT(findings[0].what, Contains("timed out"));
    CHECK_THAT(findings[1].what, Contains("one more loss"));
  }
  SECTION("a member that was not asked") {
    cluster.now.pop_back();
    cluster.CheckOnly(Severity::kWarning, "member 3", "not asked");
  }
  SECTION("the leader was not asked") {
    cluster.now.erase(cluster.now.begin());
    cluster.texts.erase(cluster.texts.begin());
    cluster.CheckOnly(Severity::kWarning, "the cluster", "was not asked");
  }
  SECTION("all see no leader") {
    for (Observation& server : cluster.now) {
      server.status->set_leader(0);
      server.status->set_serving(false);
      server.members->set_from_leader(false);
    }
    cluster.CheckOnly(Severity::kProblem, "the cluster", "no leader");
  }
  SECTION("one does not serve") {
    cluster.now[1].status->set_serving(false);
    cluster.CheckOnly(Severity::kProblem, "member 2", "catches up with the leader, member 1");
    cluster.now[1].status->set_leader(0);
    cluster.CheckOnly(Severity::kProblem, "member 2", "knows no leader");
  }
}

TEST_CASE("numbers of voters that do not help are warnings") {
  Cluster cluster;
  auto* members = cluster.now[0].members->mutable_members();
  SECTION("two") {
    members->RemoveLast();
    cluster.CheckOnly(Severity::kWarning, "the cluster",
                      "has 2 voters, and survives the loss of 0 of them, as many as with 1");
  }
  SECTION("one") {
    members->RemoveLast();
    members->RemoveLast();
    cluster.CheckOnly(Severity::kWarning, "the cluster", "one voter");
  }
  SECTION("observers do not count") {
    cluster.member(1)->set_role(v1::ROLE_OBSERVER);
    cluster.member(2)->set_role(v1::ROLE_OBSERVER);
    cluster.CheckOnly(Severity::kWarning, "the cluster", "one voter");
  }
  SECTION("a change is in progress") {
    cluster.now[0].members->set_changing(true);
    cluster.CheckOnly(Severity::kWarning, "the cluster", "changes its members");
  }
}

TEST_CASE("a member that lags far is a warning, and takes a majority's reserve") {
  Cluster cluster;
  cluster.member(1)->set_in_sync(false);
  SECTION("a little") {
    cluster.member(1)->set_match_index(4990);
    CHECK(cluster.Examine().empty());
  }
  SECTION("far") {
    cluster.member(1)->set_match_index(100);
    const std::vector<Finding> findings = cluster.Examine();
    REQUIRE(findings.size() == 2);
    CHECK_THAT(findings[0].what, Contains("4900 entries behind"));
  }
}

TEST_CASE("servers that do not belong together are found") {
  Cluster cluster;
  SECTION("other data") {
    cluster.now[1].status->set_digest(8);
    cluster.CheckOnly(Severity::kProblem, "member 2", "other data than member 1");
  }
  SECTION("other data at another zxid says nothing") {
    cluster.now[1].status->set_digest(8);
    cluster.now[1].status->set_zxid(4999);
    CHECK(cluster.Examine().empty());
  }
  SECTION("another cluster") {
    cluster.now[1].status->set_cluster_id("d");
    cluster.CheckOnly(Severity::kProblem, "the cluster", "several clusters");
  }
  SECTION("another version") {
    cluster.now[1].status->set_version("0.9");
    cluster.CheckOnly(Severity::kWarning, "the cluster", "0.9 on 2; 1.0 on 1, 3");
  }
}

TEST_CASE("what metrics say of one server is found") {
  struct Case {
    const char* before;
    const char* now;
    Severity severity;
    const char* what;
  };
  const auto kWarning = Severity::kWarning;
  const auto kProblem = Severity::kProblem;
  const Case one = GENERATE_COPY(values<Case>({
      {"", "digest_mismatches_count 1", kProblem, "differed"},
      {"", "quorate_data_refused 1\nquorate_disk_low 1", kProblem, "refuses writes"},
      {"", "quorate_disk_low 1", kProblem, "diskReserveMb"},
      {"", "quorate_log_losses_count 1", kProblem, "lost entries"},
      {"", "quorate_memory_low 1", kProblem, "memory"},
      {"", "quorate_memory_limit_bytes 100\nquorate_memory_resident_bytes 95", kWarning,
       "of memory"},
      {"", "open_file_descriptor_count 81\nmax_file_descriptor_count 100", kWarning, "81 of 100"},
      {"", "quorate_certificate_expiry_timestamp_seconds{stores=\"ssl\"} 999", kProblem,
       "has expired: stores=\"ssl\""},
      {"", "quorate_certificate_expiry_timestamp_seconds{stores=\"ssl\"} 605800", kWarning,
       "in 7 days: "},
      {"", "quorate_certificate_expiry_timestamp_seconds{stores=\"ssl\"} 130600", kWarning,
       "in 1 day: "},
      {"looking_count 1", "looking_count 2", kWarning, "without a leader 2 times"},
      {"looking_count 11", "looking_count 11", kWarning, "without a leader 11 times"},
      {"", "quorate_time_leaps_count 1", kWarning, "clock"},
      {"fsynctime_count 10\nfsynctime_sum 10", "fsynctime_count 20\nfsynctime_sum 410", kWarning,
       "40 ms for a sync"},
      {"fsynctime_count 10\nfsynctime_sum 10", "fsynctime_count 20\nfsynctime_sum 4010", kProblem,
       "400 ms for a sync"},
      {"outstanding_requests 20000", "outstanding_requests 30000", kWarning, "20000 requests"},
      {"", "updatelatency{quantile=\"0.99\"} 2000", kWarning, "2000 ms"},
      {"packets_sent 0\npackets_received 0", "packets_sent 50000\npackets_received 10000", kWarning,
       "40000 events"},
      {"", "max_client_response_size 2097152", kWarning, "2.0 MiB"},
      {"connection_rejected 1", "connection_rejected 4", kWarning, "3 times"},
      {"auth_failed_count 1", "auth_failed_count 2", kWarning, "wrong credentials"},
  }));
  CAPTURE(one.before, one.now);
  Cluster cluster;
  cluster.before_texts[1] = one.before;
  cluster.texts[1] = one.now;
  cluster.CheckOnly(one.severity, "member 2", one.what);
}

TEST_CASE("what is usual is no finding") {
  Cluster cluster;
  cluster.before_texts[1] =
      "looking_count 4\nfsynctime_count 10\nfsynctime_sum 4000\npackets_sent 0\npackets_received "
      "0\n"
      "outstanding_requests 20000\nconnection_rejected 5";
  cluster.texts[1] =
      "looking_count 4\nfsynctime_count 20\nfsynctime_sum 4010\npackets_sent 50000\n"
      "packets_received 49000\noutstanding_requests 10\nconnection_rejected 5\n"
      "quorate_memory_limit_bytes 0\nquorate_memory_resident_bytes 95\n"
      "quorate_certificate_expiry_timestamp_seconds{stores=\"ssl\"} 9e9";
  CHECK(cluster.Examine().empty());
}

TEST_CASE("a server that was reset, or started again, in between has no rates") {
  Cluster cluster;
  cluster.before_texts[1] = "connection_rejected 10\nlooking_count 10";
  cluster.texts[1] = "connection_rejected 2\nlooking_count 1";
  CHECK(cluster.Examine().empty());
  *cluster.now[1].status->mutable_uptime() = v1::DurationOfMs(5000);
  cluster.CheckOnly(Severity::kWarning, "member 2", "was started 5 s ago");
}

TEST_CASE("clocks are compared") {
  Cluster cluster;
  for (size_t i = 0; i < 3; ++i) {
    cluster.texts[i] = absl::StrCat("quorate_clock_timestamp_seconds ", i == 2 ? 1002.5 : 1000);
  }
  cluster.CheckOnly(Severity::kWarning, "the cluster", "member 3 is 2500 ms ahead");
}

TEST_CASE("clients that are spread unevenly are a warning, unless they are few") {
  Cluster cluster;
  cluster.texts = {"num_alive_connections 180", "num_alive_connections 10",
                   "num_alive_connections 10"};
  cluster.CheckOnly(Severity::kWarning, "the cluster", "member 1 has 180 of 200");
  cluster.texts = {"num_alive_connections 18", "num_alive_connections 1",
                   "num_alive_connections 1"};
  CHECK(cluster.Examine().empty());
}

TEST_CASE("who is no administrator is told that less was examined") {
  Cluster cluster;
  cluster.now[0].metrics = absl::PermissionDeniedError("no");
  cluster.CheckOnly(Severity::kWarning, "member 1", "administrators alone");
  cluster.now[0].metrics = absl::UnimplementedError("unknown method");
  cluster.CheckOnly(Severity::kWarning, "member 1", "unknown method");
}

}  // namespace
}  // namespace quorate::tools
