// SPDX-License-Identifier: Apache-2.0

// The bodies of the web console's changes.
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "rpc/admin/console_changes.h"
#include "rpc/frontend/event_history.h"
#include "rpc/frontend/frontends.h"
#include "rpc/frontend/testing/fake_service.h"
#include "rpc/membership/members.h"
#include "tests/fuzz/fuzz.h"
#include "tree/record.h"

namespace quorate::fuzz {
namespace {

using rpc::admin::ConsoleChanges;
using rpc::admin::HttpResponse;
using rpc::admin::Json;

constexpr std::array<std::string_view, 6> kNames = {
    "create", "set", "delete", "close-session", "transfer-leadership", "change-members"};
constexpr uint64_t kMembership = 7;
constexpr uint32_t kMembers = 4;

// Applies each command at once.
class ApplyingService final : public rpc::FakeService {
 public:
  void Submit(rpc::CommandBatch batch) override {
    FakeService::Submit(std::move(batch));
    Apply(frontends);
  }
  rpc::Frontend* frontends = nullptr;
};

// Leads three voters and an observer, and takes every change that can be one.
class Leader final : public rpc::Administration {
 public:
  rpc::ClusterView cluster_view() const override {
    rpc::ClusterView view;
    view.self = view.leader = consensus::MemberId(1);
    view.is_leader = true;
    view.membership_index = consensus::Index(kMembership);
    for (uint32_t id = 1; id <= kMembers; ++id) {
      rpc::ClusterView::Member& member = view.members.emplace_back();
      member.id = consensus::MemberId(id);
      member.reachable = member.in_sync = true;
      member.observer = id == kMembers;
      rpc::ServerLine& line = member.addresses.emplace();
      line.host = absl::StrCat("host", id);
      line.peer_port = 2888;
      line.election_port = 3888;
      line.client_port = 2181;
    }
    return view;
  }
  void TransferLeadership(consensus::MemberId, std::function<void(absl::Status)> done) override {
    changed = true;
    done(absl::OkStatus());
  }
  void ChangeMembers(const rpc::ServerLines& members, consensus::Index based_on,
                     std::function<void(absl::Status)> done) override {
    // As the leader does, which refuses addresses that cannot be used.
    if (const auto membership = rpc::MembershipOf(members); !membership.ok()) {
      return done(membership.status());
    }
    changed = true;
    ASSERT(based_on == consensus::Index(kMembership));
    // One member at a time, never the leader, and a new one without a vote.
    ASSERT(members.contains(1) && !members.at(1).observer);
    ASSERT(members.size() + 1 >= kMembers && members.size() <= kMembers + 1);
    size_t voters = 0;
    for (const auto& [id, line] : members) {
      ASSERT(id >= 1 && id <= 254);
      ASSERT(id <= kMembers || line.observer);
      ASSERT(rpc::ParseServerLine(rpc::FormatServerLine(line)).ok(), "it can go into the log");
      voters += line.observer ? 0 : 1;
    }
    ASSERT(voters >= 2 && voters <= kMembers);
    done(absl::OkStatus());
  }
  void Barrier(std::function<void(tree::Zxid)>) override {}
  void RequestCheckpoint(tree::Zxid, std::function<void()>) override {}
  tree::Zxid checkpoint_zxid() const override { return {}; }
  absl::StatusOr<rpc::CheckpointView> OpenCheckpoint() const override {
    return absl::FailedPreconditionError("none");
  }

  bool changed = false;
};

// Returns the records of all znodes. Those of the tree as a whole change by a failure, too.
std::map<std::string, std::string> ZnodesOf(const rpc::FakeService& service) {
  std::map<std::string, std::string> znodes;
  service.ReadTree()->ForEachRecord(
      [&znodes](std::string_view key, std::optional<std::string_view> value) {
        if (*tree::DecodeKind(key) == tree::RecordKind::kNode) znodes.emplace(key, *value);
      });
  return znodes;
}

}  // namespace

// Input: a byte for the change, and for whether the caller may make it; then the body.
void Run(Input input) {
  const auto first = input.Take<uint8_t>();
  const std::string_view name = kNames[first / 2 % kNames.size()];
  const bool may = first % 2 == 0;

  const rpc::Config config = rpc::TestConfig();
  ApplyingService service;
  service.current.leader_known = service.current.in_touch = true;
  Leader leader;
  rpc::TreeWriter writer(config, &service, rpc::kWriterTags);
  rpc::SessionCloser closer(&service, rpc::kCloserTags);
  rpc::EventHistory history(1 << 16);
  rpc::Frontends frontends({{&writer, rpc::kWriterTags}, {&closer, rpc::kCloserTags}}, &history);
  service.frontends = &frontends;
  ConsoleChanges changes({.administration = &leader, .writer = &writer, .closer = &closer});
  const rpc::admin::ConsoleCaller caller{{}, rpc::ClientIdentities(config, "")};

  const auto before = ZnodesOf(service);
  rpc::admin::HttpRequest request;
  request.body = std::string(input.rest());
  const HttpResponse response = changes.Respond(name, request, caller, may);
  const Json fields = Json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  ASSERT(fields.is_object(), "the page reads every response as JSON");
  const bool is_done = response.status == 200;
  ASSERT(is_done == !fields.contains("error"));
  ASSERT(is_done || (response.status >= 400 && response.status < 500), "the request is at fault");
  ASSERT(!is_done || may, "who may not makes no change");
  ASSERT(is_done || (ZnodesOf(service) == before && !leader.changed), "a failure changes nothing");
  const auto tree = service.ReadTree();
  ASSERT(tree->digest() == tree->ComputeDigest());
  if (!is_done || name != "create") return;
  tree::Stat stat;
  ASSERT(tree->FindStat(fields["path"].get<std::string>(), &stat), "the znode is there");
}

}  // namespace quorate::fuzz
