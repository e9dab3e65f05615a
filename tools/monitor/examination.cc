// SPDX-License-Identifier: Apache-2.0

#include "tools/monitor/examination.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/strings.h"
#include "tools/cli/text.h"

namespace quorate::tools {
namespace {

constexpr double kMsPerSecond = 1000;
constexpr int64_t kMsPerDay = 24ll * 3600 * 1000;
// A sync of a disk with flash takes below 1 ms, and of a busy one some; ZooKeeper warns at 1 s, when
// clients have noticed long since.
constexpr double kSyncWarningMs = 20;
constexpr double kSyncProblemMs = 200;
constexpr double kUpdateWarningMs = 1000;  // p99
constexpr double kCertificateWarningDays = 14;
constexpr double kClockWarningSeconds = 1;
constexpr double kLagWarning = 1000;           // entries
constexpr double kUncheckedWarning = 10e6;     // entries that a restart reads
constexpr double kOutstandingWarning = 10000;  // requests
constexpr double kEventsWarning = 10000;       // for each second
constexpr double kResponseWarning = 1e6;       // bytes; Java's clients refuse 4 MB, others 1 MB
constexpr double kFull = 0.9;
constexpr double kDescriptorsFull = 0.8;
constexpr double kConnectionsMin = 100;  // fewer may be anywhere
constexpr double kElectionsPerDay = 10;
constexpr double kElectionsMin = 5;
constexpr int64_t kJustStartedMs = 120'000;
constexpr uint64_t kFreeBytesMin = 1u << 30;

class Examination {
 public:
  Examination(const std::vector<Observation>& before, const std::vector<Observation>& now)
      : before_(before), now_(now) {}

  std::vector<Finding> Run() {
    CheckAnswers();
    CheckLeader();
    CheckMembers();
    CheckUnity();
    CheckDigests();
    CheckClocks();
    CheckBalance();
    for (size_t i = 0; i < now_.size(); ++i) {
      if (!now_[i].status.ok()) continue;
      CheckStart(now_[i]);
      CheckDisk(before_[i], now_[i]);
      CheckMemory(now_[i]);
      CheckCertificates(now_[i]);
      CheckHistory(before_[i], now_[i]);
      CheckLoad(before_[i], now_[i]);
      CheckLimits(before_[i], now_[i]);
    }
    std::stable_sort(findings_.begin(), findings_.end(),
                     [](const auto& a, const auto& b) { return a.severity > b.severity; });
    return std::move(findings_);
  }

 private:
  void Add(Severity severity, std::string subject, std::string what, std::string advice) {
    findings_.push_back({severity, std::move(subject), std::move(what), std::move(advice)});
  }
  void Warn(const Observation& about, std::string what, std::string advice) {
    Add(Severity::kWarning, NameOf(about), std::move(what), std::move(advice));
  }
  void Report(const Observation& about, std::string what, std::string advice) {
    Add(Severity::kProblem, NameOf(about), std::move(what), std::move(advice));
  }
  static std::string NameOf(const Observation& server) {
    return server.status.ok() ? absl::StrCat("member ", server.status->member()) : server.address;
  }
  static bool IsSet(const Observation& server, std::string_view metric) {
    return server.Value(metric).value_or(0) > 0;
  }
  // Returns how many committed entries the log of a member lacks.
  static double BehindOf(const Observation& leader, const v1::Member& member) {
    return static_cast<double>(leader.status->commit_index()) -
           static_cast<double>(member.match_index());
  }
  // Returns the leader's list of members; nullptr if no leader answers.
  const Observation* Leader() const {
    const Observation* leader = nullptr;
    for (const Observation& server : now_) {
      if (!server.members.ok() || !server.members->from_leader()) continue;
      if (leader == nullptr || leader->members->term() < server.members->term()) leader = &server;
    }
    return leader;
  }

  void CheckAnswers();
  void CheckLeader();
  void CheckMembers();
  void CheckMember(const Observation& leader, const v1::Member& member);
  void CheckVoters(const Observation& leader);
  void CheckUnity();
  void CheckDigests();
  void CheckClocks();
  void CheckBalance();
  void CheckStart(const Observation& server);
  void CheckDisk(const Observation& before, const Observation& now);
  void CheckMemory(const Observation& server);
  void CheckCertificates(const Observation& server);
  void CheckHistory(const Observation& before, const Observation& now);
  void CheckLoad(const Observation& before, const Observation& now);
  void CheckLimits(const Observation& before, const Observation& now);

  const std::vector<Observation>& before_;
  const std::vector<Observation>& now_;
  std::vector<Finding> findings_;
};

void Examination::CheckAnswers() {
  for (const Observation& server : now_) {
    if (!server.status.ok()) {
      Report(
          server, absl::StrCat("does not answer: ", server.status.status().message()),
          "Start it if it is down, and read the end of its log. If it runs, --server has to name "
          "its gRPC port, and the network to let this machine reach it.");
    } else if (!server.metrics.ok() && absl::IsPermissionDenied(server.metrics.status())) {
      Warn(server, "shows its metrics to administrators alone, so that less was examined",
           "Use --token-file, or --cert and --key.");
    } else if (!server.metrics.ok()) {
      Warn(server,
           absl::StrCat("has not shown its metrics, so that less was examined: ",
                        server.metrics.status().message()),
           "Ask again; upgrade it if its version is older than this program's.");
    }
  }
}

void Examination::CheckLeader() {
  bool answers = false;
  bool is_known = false;
  for (const Observation& server : now_) {
    if (!server.status.ok()) continue;
    answers = true;
    is_known = is_known || server.status->leader() != 0;
  }
  if (answers && !is_known) {
    Add(Severity::kProblem, "the cluster", "has no leader, so that nobody can write",
        "More than half of the voters have to run and reach each other on their peer ports: start "
        "those that are down, and read in the logs of the others whom they cannot reach. If a "
        "majority is lost for good, docs/operations/lost-majority.md tells what is possible.");
    return;
  }
  for (const Observation& server : now_) {
    if (!server.status.ok() || server.status->serving()) continue;
    if (server.status->leader() == 0) {
      Report(server, "does not serve clients, because it knows no leader",
             "See in its log, or in `quorate members`, whom it cannot reach.");
    } else {
      Report(
          server,
          absl::StrCat("does not serve clients: it catches up with the leader, member ",
                       server.status->leader(), ", or has lost contact with it"),
          "Its log says which. A member that catches up goes on by itself; that can take minutes "
          "after its data was lost.");
    }
  }
}

void Examination::CheckMembers() {
  const Observation* leader = Leader();
  if (leader == nullptr) {
    if (std::any_of(now_.begin(), now_.end(), [](const Observation& server) {
          return server.status.ok() && server.status->leader() != 0;
        })) {
      Add(Severity::kWarning, "the cluster",
          "has a leader that was not asked, so that the state of the members is not known",
          "Name all members with --server.");
    }
    return;
  }
  if (leader->members->changing()) {
    Add(Severity::kWarning, "the cluster", "changes its members now",
        "Wait until it is done, or see with `quorate members` for whom it waits.");
  }
  for (const v1::Member& member : leader->members->members()) CheckMember(*leader, member);
  CheckVoters(*leader);
}

void Examination::CheckMember(const Observation& leader, const v1::Member& member) {
  const std::string name = absl::StrCat("member ", member.id());
  const bool was_asked = std::any_of(now_.begin(), now_.end(), [&](const Observation& server) {
    return server.status.ok() && server.status->member() == member.id();
  });
  if (!member.reachable()) {
    Add(Severity::kProblem, name,
        absl::StrCat("is not connected with the leader",
                     member.problem().empty() ? "" : absl::StrCat(": ", member.problem())),
        "Start it if it is down; else see whether its peer port can be reached from the leader's "
        "machine. A machine that is gone for good is replaced by `quorate member replace` "
        "(docs/operations/membership.md).");
    return;
  }
  const double behind = BehindOf(leader, member);
  if (!member.in_sync() && behind > kLagWarning) {
    Add(Severity::kWarning, name, absl::StrCat("is ", std::llround(behind), " entries behind"),
        "It catches up by itself. If the number does not fall, its disk or the network is too slow "
        "for the writes.");
  }
  const bool all_answer = std::all_of(now_.begin(), now_.end(),
                                      [](const Observation& server) { return server.status.ok(); });
  if (!was_asked && all_answer) {
    Add(Severity::kWarning, name, "was not asked", "Name all members with --server.");
  }
}

void Examination::CheckVoters(const Observation& leader) {
  size_t voters = 0;
  size_t current = 0;
  for (const v1::Member& member : leader.members->members()) {
    if (member.role() == v1::ROLE_OBSERVER) continue;
    ++voters;
    // While clients write, the slower ones are always some entries behind.
    const bool is_current = member.in_sync() || BehindOf(leader, member) <= kLagWarning;
    current += member.reachable() && is_current ? 1 : 0;
  }
  const size_t majority = voters / 2 + 1;
  if (voters == 1) {
    Add(Severity::kWarning, "the cluster", "has one voter, whose loss loses everything",
        "Run three (docs/operations/membership.md), or take backups often.");
  } else if (voters % 2 == 0) {
    Add(Severity::kWarning, "the cluster",
        absl::StrCat("has ", voters, " voters, and survives the loss of ", voters - majority,
                     " of them, as many as with ", voters - 1),
        "Add one, or take one away (docs/operations/membership.md).");
  }
  if (voters > 2 && current == majority) {
    Add(Severity::kWarning, "the cluster",
        absl::StrCat("has ", current, " of ", voters,
                     " voters that are up to date: one more loss stops all writes"),
        "Bring the others back before you restart or stop anything.");
  }
}

void Examination::CheckUnity() {
  std::map<std::string, std::vector<std::string>> clusters;
  std::map<std::string, std::vector<std::string>> versions;
  for (const Observation& server : now_) {
    if (!server.status.ok()) continue;
    versions[server.status->version()].push_back(absl::StrCat(server.status->member()));
    if (server.status->cluster_id().empty()) continue;
    clusters[server.status->cluster_id()].push_back(server.address);
  }
  if (clusters.size() > 1) {
    std::vector<std::string> parts;
    parts.reserve(clusters.size());
    for (const auto& [id, addresses] : clusters) {
      parts.push_back(absl::StrCat(HexBytes(id), ": ", absl::StrJoin(addresses, ", ")));
    }
    Add(Severity::kProblem, "the cluster",
        absl::StrCat("is not one: the servers asked are of several clusters (",
                     absl::StrJoin(parts, "; "), ")"),
        "If that is not meant, a server was started with an empty or a wrong data directory.");
  }
  if (versions.size() > 1) {
    std::vector<std::string> parts;
    parts.reserve(versions.size());
    for (const auto& [version, members] : versions) {
      parts.push_back(absl::StrCat(version, " on ", absl::StrJoin(members, ", ")));
    }
    Add(Severity::kWarning, "the cluster",
        absl::StrCat("runs several versions: ", absl::StrJoin(parts, "; ")),
        "Finish the upgrade: new features are used when all members have the new version.");
  }
}

void Examination::CheckDigests() {
  std::map<int64_t, std::pair<uint64_t, uint32_t>> digests;
  for (const Observation& server : now_) {
    if (!server.status.ok() || server.status->reduced() || server.status->zxid() == 0) continue;
    const auto [known, is_new] = digests.try_emplace(
        server.status->zxid(), std::pair(server.status->digest(), server.status->member()));
    if (!is_new && known->second.first != server.status->digest()) {
      Report(server,
             absl::StrCat("has other data than member ", known->second.second, " at the same zxid ",
                          Hex(static_cast<uint64_t>(server.status->zxid()))),
             "Take a backup now (`quorate backup`). The member that differs from the majority is "
             "rebuilt by `quorate rebuild` (docs/operations). Please report it as a defect.");
    }
    if (IsSet(server, "digest_mismatches_count")) {
      Report(
          server, "has seen a member whose data differed from that of the majority",
          "Its log names the member. Take a backup, and rebuild that member by `quorate rebuild`.");
    }
  }
}

void Examination::CheckClocks() {
  std::optional<double> earliest;
  std::optional<double> latest;
  std::string slow;
  std::string fast;
  for (const Observation& server : now_) {
    const auto clock = server.Value("quorate_clock_timestamp_seconds");
    if (!clock.has_value()) continue;
    const double here = std::chrono::duration<double>(server.wall.time_since_epoch()).count();
    const double ahead = *clock - here;
    if (!earliest.has_value() || ahead < *earliest) earliest = ahead, slow = NameOf(server);
    if (!latest.has_value() || ahead > *latest) latest = ahead, fast = NameOf(server);
  }
  if (!earliest.has_value() || *latest - *earliest < kClockWarningSeconds) return;
  Add(Severity::kWarning, "the cluster",
      absl::StrCat("has clocks that differ: that of ", fast, " is ",
                   std::llround((*latest - *earliest) * kMsPerSecond), " ms ahead of that of ",
                   slow),
      "Synchronise them (chrony, ntpd). The data is safe; times of znodes, of TTLs and in logs are "
      "wrong.");
}

void Examination::CheckBalance() {
  double total = 0;
  double most = 0;
  size_t servers = 0;
  std::string busiest;
  for (const Observation& server : now_) {
    const auto connections = server.Value("num_alive_connections");
    if (!connections.has_value()) continue;
    ++servers;
    total += *connections;
    if (*connections > most) most = *connections, busiest = NameOf(server);
  }
  if (servers < 2 || total < kConnectionsMin) return;
  const double fair = total / static_cast<double>(servers);
  if (most < 2 * fair) return;
  Add(Severity::kWarning, "the cluster",
      absl::StrCat("has clients that are spread unevenly: ", busiest, " has ", std::llround(most),
                   " of ", std::llround(total), " connections"),
      "Let clients name all servers in their connect string. Those that are connected stay where "
      "they are until their server is restarted.");
}

void Examination::CheckStart(const Observation& server) {
  if (UptimeMsOf(*server.status) >= kJustStartedMs) return;
  Warn(server, absl::StrCat("was started ", Duration(UptimeMsOf(*server.status)), " ago"),
       "If nobody did that, read in its log, or in the system's, why the process before it ended.");
}

void Examination::CheckDisk(const Observation& before, const Observation& now) {
  if (IsSet(now, "quorate_data_refused")) {
    Report(
        now, "refuses writes that add data, because a disk or the memory is nearly full",
        "Free space on the data directory's file system, or make it larger; deleting znodes helps "
        "after the next checkpoint.");
  } else if (IsSet(now, "quorate_disk_low")) {
    Report(now, "has less free space than diskReserveMb",
           "Free space on the file system of its data directory.");
  } else if (!now.status->reduced() && now.status->disk_free_bytes() <
                                           std::max(now.status->disk_used_bytes(), kFreeBytesMin)) {
    Warn(now,
         absl::StrCat("has ", Bytes(now.status->disk_free_bytes()), " of free space and uses ",
                      Bytes(now.status->disk_used_bytes())),
         "A checkpoint needs as much again for a while: make the file system larger, or free "
         "space.");
  }
  if (IsSet(now, "quorate_log_losses_count")) {
    Report(
        now,
        "has lost entries of its log that it had confirmed: its disk does not keep what it syncs",
        "Replace the disk, or switch off its write cache. The other members have the entries.");
  }
  const auto count = Increase(before, now, "fsynctime_count");
  const auto sum_ms = Increase(before, now, "fsynctime_sum");
  if (!count.has_value() || !sum_ms.has_value() || *count < 1) return;
  const double average_ms = *sum_ms / *count;
  if (average_ms < kSyncWarningMs) return;
  Add(average_ms < kSyncProblemMs ? Severity::kWarning : Severity::kProblem, NameOf(now),
      absl::StrCat("needs ", std::llround(average_ms), " ms for a sync of its log"),
      "Each write waits for it on a majority of the members. Give the log (dataLogDir) a disk of "
      "its "
      "own, with flash, that nothing else writes to.");
}

void Examination::CheckMemory(const Observation& server) {
  const double limit = server.Value("quorate_memory_limit_bytes").value_or(0);
  const double used = server.Value("quorate_memory_resident_bytes").value_or(0);
  if (IsSet(server, "quorate_memory_low")) {
    Report(server, "has nearly used up its memory, and refuses what needs more",
           "Raise the limit, or see in the metrics quorate_memory_* what needs it.");
  } else if (limit > 0 && used > kFull * limit) {
    Warn(server,
         absl::StrCat("uses ", Bytes(static_cast<uint64_t>(used)), " of ",
                      Bytes(static_cast<uint64_t>(limit)), " of memory"),
         "Raise the limit, or see in the metrics quorate_memory_* what needs it.");
  }
  const double open = server.Value("open_file_descriptor_count").value_or(0);
  const double most = server.Value("max_file_descriptor_count").value_or(0);
  if (most > 0 && open > kDescriptorsFull * most) {
    Warn(server,
         absl::StrCat("has ", std::llround(open), " of ", std::llround(most),
                      " file descriptors open"),
         "Raise the limit (LimitNOFILE of the systemd unit, ulimit -n), or find the client that "
         "opens connections without closing them (`cons`).");
  }
}

void Examination::CheckCertificates(const Observation& server) {
  if (!server.metrics.ok()) return;
  const double here = std::chrono::duration<double>(server.wall.time_since_epoch()).count();
  for (const auto& [labels, at] :
       server.metrics->All("quorate_certificate_expiry_timestamp_seconds")) {
    const double days = (at - here) * kMsPerSecond / static_cast<double>(kMsPerDay);
    if (days > kCertificateWarningDays) continue;
    const std::string advice =
        "Put a new one in the place of the old one: with client.certReload and "
        "sslQuorumReloadCertFiles it is used without a restart (docs/security.md#certificates).";
    if (days <= 0) {
      Report(server, absl::StrCat("has a certificate that has expired: ", labels), advice);
    } else {
      const long long whole_days = std::llround(std::floor(days));
      Warn(server,
           absl::StrCat("has a certificate that expires in ", whole_days,
                        whole_days == 1 ? " day: " : " days: ", labels),
           advice);
    }
  }
}

void Examination::CheckHistory(const Observation& before, const Observation& now) {
  const auto lately = Increase(before, now, "looking_count");
  const double times = now.Value("looking_count").value_or(0);
  const double days =
      std::max(static_cast<double>(UptimeMsOf(*now.status)) / static_cast<double>(kMsPerDay), 1.0);
  if (lately.value_or(0) > 0 || (times >= kElectionsMin && times / days > kElectionsPerDay)) {
    Warn(now,
         absl::StrCat("was without a leader ", std::llround(times), " times in ",
                      Duration(UptimeMsOf(*now.status))),
         "Look for a network that drops packets, a machine that stops for seconds (swapping, a "
         "hypervisor), or a disk whose syncs take long. electionTimeoutMs tells how long a silence "
         "is "
         "borne.");
  }
  if (IsSet(now, "quorate_time_leaps_count")) {
    Warn(now, "has seen a clock that was far from the time of the data",
         "Its log tells which and when. Synchronise the clocks (chrony, ntpd).");
  }
  const auto unchecked =
      static_cast<double>(now.status->zxid()) - static_cast<double>(now.status->checkpoint_zxid());
  if (!now.status->reduced() && unchecked > kUncheckedWarning) {
    Warn(now,
         absl::StrCat("would read ", std::llround(unchecked),
                      " entries after a restart, as its newest checkpoint is that old"),
         "See in its log why checkpoints fail, or take so long.");
  }
}

void Examination::CheckLoad(const Observation& before, const Observation& now) {
  const auto waiting = std::min(before.Value("outstanding_requests").value_or(0),
                                now.Value("outstanding_requests").value_or(0));
  if (waiting > kOutstandingWarning) {
    Warn(now, absl::StrCat("has ", std::llround(waiting), " requests that wait"),
         "It gets more than it can do: see with `quorate top` what is slow.");
  }
  const auto update_ms = now.Value("updatelatency", "quantile=\"0.99\"");
  if (update_ms.value_or(0) > kUpdateWarningMs) {
    Warn(now,
         absl::StrCat("needed ", std::llround(*update_ms),
                      " ms or more for one in a hundred writes in the last minutes"),
         "See with `quorate top` whether disks, the network, or the load are the reason.");
  }
  const auto sent = Rate(before, now, "packets_sent");
  const auto received = Rate(before, now, "packets_received");
  if (sent.has_value() && received.has_value() && *sent - *received > kEventsWarning &&
      *sent > 2 * *received) {
    Warn(now,
         absl::StrCat("sends ", std::llround(*sent - *received), " events of watches each second"),
         "Many clients watch a znode that changes often: `wchs` counts watches, and `wchp` names "
         "the "
         "znodes.");
  }
  const auto largest = now.Value("max_client_response_size");
  if (largest.value_or(0) > kResponseWarning) {
    Warn(now, absl::StrCat("has sent a response of ", Bytes(static_cast<uint64_t>(*largest))),
         "Clients have limits for that (jute.maxbuffer). A znode is large, or has very many "
         "children: "
         "split it.");
  }
}

void Examination::CheckLimits(const Observation& before, const Observation& now) {
  static constexpr std::pair<std::string_view, std::string_view> kLimits[] = {
      {"connection_rejected", "refuses connections because of maxClientCnxns or another limit"},
      {"large_requests_rejected", "refuses requests that are larger than jute.maxbuffer"},
      {"quorate_limit_connections_refused", "closes connections (limits.connectionsPerIdentity)"},
      {"quorate_limit_sessions_delayed", "holds new sessions back (limits.sessionsPerSecond)"},
      {"quorate_limit_requests_delayed", "holds requests back (limits.requestsPerSecond)"},
      {"quorate_limit_outstanding_delayed", "holds requests back (limits.outstandingRequests)"},
      {"quorate_limit_bytes_delayed", "holds requests back (limits.outstandingBytes)"},
      {"quorate_limit_watches_refused", "refuses watches (limits.watches)"},
      {"quorate_limit_ephemerals_refused", "refuses ephemerals (limits.ephemerals)"},
      {"auth_failed_count", "gets wrong credentials of clients"},
      {"quorate_administrators_refused", "gets wrong credentials of administrators"},
      {"unsuccessful_handshake", "has handshakes of TLS that fail"}};
  for (const auto& [metric, what] : kLimits) {
    const auto times = Increase(before, now, metric);
    if (times.value_or(0) <= 0) continue;
    Warn(now,
         absl::StrCat(ToAbsl(what), ", ", std::llround(*times), " times while it was examined"),
         "Its log and the audit log name the client. Mend the client, or raise the limit if it is "
         "right.");
  }
}

}  // namespace

std::vector<Finding> Examine(const std::vector<Observation>& before,
                             const std::vector<Observation>& now) {
  return Examination(before, now).Run();
}

}  // namespace quorate::tools
