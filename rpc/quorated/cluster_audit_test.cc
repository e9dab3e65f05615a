// SPDX-License-Identifier: Apache-2.0

#include "rpc/quorated/cluster_audit.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "rpc/audit/testing/recorded_audit.h"
#include "rpc/frontend/testing/fake_service.h"

namespace quorate::rpc {
namespace {

using consensus::MemberId;
using Lines = std::vector<std::string>;

class ShownCluster : public Administration {
 public:
  ClusterView cluster_view() const override { return view; }
  void TransferLeadership(MemberId, std::function<void(absl::Status)>) override {}
  void ChangeMembers(const ServerLines&, consensus::Index,
                     std::function<void(absl::Status)>) override {}
  void Barrier(std::function<void(tree::Zxid)>) override {}
  void RequestCheckpoint(tree::Zxid, std::function<void()>) override {}
  tree::Zxid checkpoint_zxid() const override { return {}; }
  absl::StatusOr<CheckpointView> OpenCheckpoint() const override {
    return absl::FailedPreconditionError("none");
  }

  void Add(uint32_t id, bool observer = false) {
    ClusterView::Member member;
    member.id = MemberId(id);
    member.observer = observer;
    view.members.push_back(member);
  }
  ClusterView view;
};

struct Fixture {
  Lines Publish() {
    watcher.OnStatusPublished();
    return audit.Lines();
  }
  RecordedAudit audit;
  FakeService service;
  ShownCluster cluster;
  ClusterAudit watcher{audit.log(), &service, &cluster};
};

TEST_CASE("the begin and the end of leading are recorded once each") {
  Fixture f;
  CHECK(f.Publish().empty());
  f.service.current.is_leader = true;
  f.cluster.view.term = consensus::Term(7);
  CHECK(f.Publish() == Lines{"user=server operation=leadershipBegin detail=term=7 result=success"});
  CHECK(f.Publish().empty());
  f.service.current.is_leader = false;
  CHECK(f.Publish() == Lines{"user=server operation=leadershipEnd detail=term=7 result=success"});
}

TEST_CASE("a standalone server does not record that it leads") {
  Fixture f;
  f.service.current.standalone = f.service.current.is_leader = true;
  CHECK(f.Publish().empty());
}

TEST_CASE("a change of members is recorded, but not the members of the start") {
  Fixture f;
  CHECK(f.Publish().empty());
  f.cluster.Add(1);
  f.cluster.Add(2);
  CHECK(f.Publish().empty());
  f.cluster.Add(3, /*observer=*/true);
  CHECK(f.Publish() == Lines{"user=server operation=membershipChange "
                             "detail=voters=1,2 observers=3 result=success"});
  CHECK(f.Publish().empty());
}

TEST_CASE("start and stop are recorded, and an audit log that cannot be opened is explained") {
  Fixture f;
  RecordServerStart(true, f.audit.log());
  RecordServerStart(false, f.audit.log());
  RecordServerStop(f.audit.log());
  CHECK(f.audit.Lines() == Lines{"user=server operation=serverStart result=success",
                                 "user=server operation=serverStart result=failure",
                                 "user=server operation=serverStop result=invoked"});
  Config config;
  REQUIRE(OpenAuditLog(config).ok());
  CHECK(*OpenAuditLog(config) == nullptr);
  config.audit = true;
  config.audit_file = "/no/such/directory/a.log";
  CHECK(OpenAuditLog(config).status().message() ==
        "cannot open the audit log /no/such/directory/a.log: No such file or directory; give "
        "auditFile a path that the server may write, or set audit.enable=false to run without an "
        "audit log");
}

}  // namespace
}  // namespace quorate::rpc
