// SPDX-License-Identifier: Apache-2.0

// Tests the services of a gRPC port in front of a fake member.
#include "rpc/grpc/cluster_service.h"

#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/version.h"
#include "rpc/audit/testing/recorded_audit.h"
#include "rpc/frontend/administrators.h"
#include "rpc/frontend/client_identities.h"
#include "rpc/grpc/grpc_server.h"
#include "rpc/grpc/server_info.h"
#include "rpc/proto/errors.h"
#include "rpc/proto/times.h"

namespace quorate::rpc {
namespace {

using consensus::Index;
using consensus::MemberId;
using consensus::Term;
using Records = std::map<std::string, std::string>;

class RecordsView : public tree::RecordStore::View {
 public:
  RecordsView(Records records, tree::Zxid zxid)
      : records_(std::move(records)), metadata_{zxid, 0xd1d1, ""}, next_(records_.begin()) {}
  const tree::RecordStore::Metadata& metadata() const override { return metadata_; }
  absl::StatusOr<bool> Next(size_t bytes_max,
                            const tree::RecordStore::RecordFunction& record) override {
    for (size_t bytes = 0; next_ != records_.end() && (bytes == 0 || bytes < bytes_max); ++next_) {
      if (absl::Status s = record(next_->first, next_->second); !s.ok()) return s;
      bytes += next_->first.size() + next_->second.size();
    }
    return next_ != records_.end();
  }
  absl::Status SeekBehind(std::string_view key) override {
    next_ = records_.upper_bound(std::string(key));
    return absl::OkStatus();
  }
  absl::Status ReadEvents(const tree::RecordStore::EventsFunction& /*events*/) override {
    return SeekBehind({});
  }
  absl::StatusOr<std::unique_ptr<tree::RecordStore::View>> OpenAnother() const override {
    return std::make_unique<RecordsView>(records_, metadata_.zxid);
  }

 private:
  const Records records_;
  const tree::RecordStore::Metadata metadata_;
  Records::const_iterator next_;
};

// A member that answers barriers and checkpoint requests at once, unless the test delays the
// answers.
class FakeMember : public rpc::Service, public Administration {
 public:
  GuardedTree::ReadGuard ReadTree() const override { return tree_.Read(); }
  tree::Proposer proposer() const override { return {}; }
  void Submit(CommandBatch) override {}
  uint32_t cluster_version() const override { return tree::kVersionExpiry; }
  bool congested() const override { return false; }
  bool refuses_data() const override { return false; }
  void Sync(uint32_t, uint64_t) override {}
  void Touch(std::vector<int64_t>) override {}
  ServerStatus status() const override {
    ServerStatus status;
    status.leader_known = status.in_touch = serving;
    return status;
  }
  ServerMetrics metrics() const override { return {}; }

  ClusterView cluster_view() const override { return view; }
  void TransferLeadership(MemberId target, std::function<void(absl::Status)> done) override {
    done(target == MemberId(2) ? absl::OkStatus() : absl::FailedPreconditionError("not this one"));
  }
  void ChangeMembers(const ServerLines& members, Index based_on,
                     std::function<void(absl::Status)> done) override {
    asked = members;
    done(based_on == view.membership_index ? change_outcome : absl::AbortedError("changed"));
  }
  void Barrier(std::function<void(tree::Zxid)> done) override {
    ++barriers;
    if (answers) done(zxid);
  }
  void RequestCheckpoint(tree::Zxid wanted, std::function<void()> done) override {
    if (wanted == zxid) checkpoint = zxid;
    done();
  }
  tree::Zxid checkpoint_zxid() const override { return checkpoint; }
  absl::StatusOr<CheckpointView> OpenCheckpoint() const override {
    if (is_damaged) return absl::DataLossError("damaged");
    if (checkpoint == tree::Zxid(0)) return absl::FailedPreconditionError("no checkpoint");
    consensus::SnapshotMeta meta;
    meta.index = Index(static_cast<uint64_t>(checkpoint.value()));
    meta.term = Term(7);
    meta.membership.voters = {MemberId(1), MemberId(2)};
    meta.membership.learners = {MemberId(3)};
    meta.cluster_id = std::string(16, 'c');
    return CheckpointView{meta, std::make_unique<RecordsView>(records, checkpoint)};
  }

  ServerLines asked;  // by ChangeMembers
  absl::Status change_outcome;
  std::atomic<bool> serving{true};
  std::atomic<bool> answers{true};
  std::atomic<bool> is_damaged{false};
  std::atomic<int> barriers{0};
  ClusterView view;
  tree::Zxid zxid{50};
  tree::Zxid checkpoint{0};
  Records records;

 private:
  GuardedTree tree_;
};

// Returns more records than gRPC buffers for a client that does not read.
Records ManyRecords() {
  Records records;
  for (int i = 0; i < 400; ++i) records["k" + std::to_string(1000 + i)] = std::string(50'000, 'v');
  return records;
}

class Fixture {
 public:
  explicit Fixture(BackupSender::Options options = {}, Config c = {})
      : config(std::move(c)),
        administrators(config, Clock::System()),
        backups_(&member, Clock::System(), options),
        service_(config, &member, &member, &administrators, &backups_, Clock::System()) {
    service_.SetAudit(audit.log());
    service_.SetMetrics([](const std::set<std::string, std::less<>>& names) {
      return "metrics:" + absl::StrJoin(names, ",");
    });
    REQUIRE(server
                .Start({.address = "127.0.0.1:0"},
                       {{v1::ClusterService::service_full_name(), &service_}})
                .ok());
    backups_.Start();
    channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(server.port()),
                                  grpc::InsecureChannelCredentials());
    stub = v1::ClusterService::NewStub(channel);
  }
  ~Fixture() {
    server.Stop();
    backups_.Stop();
  }

  RecordedAudit audit;
  FakeMember member;
  Config config;
  Administrators administrators;
  GrpcServer server;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::ClusterService::Stub> stub;

 private:
  BackupSender backups_;
  ClusterService service_;
};

// Reads a backup, message by message.
class Reading {
 public:
  explicit Reading(Fixture* fixture, const v1::BackupRequest& request = {})
      : reader_(fixture->stub->Backup(&context_, request)) {}

  // Reads the next message. Returns false at the end of the stream.
  bool Next() {
    v1::BackupResponse response;
    if (!reader_->Read(&response)) return false;
    if (response.has_begin()) begin = response.begin();
    if (response.has_end()) end = response.end();
    if (response.has_records()) {
      const std::string& bytes = response.records().records();
      CHECK(response.records().crc32c() == Crc32c(bytes));
      LittleEndianReader record(bytes);
      while (!record.empty()) {
        const auto key_size = record.Int<uint32_t>();
        const auto value_size = record.Int<uint32_t>();
        last_key = record.Raw(key_size);
        records[last_key] = record.Raw(value_size);
      }
      CHECK(record.ok());
    }
    return true;
  }
  grpc::Status ReadAll() {
    while (Next()) {
    }
    return Finish();
  }
  grpc::Status Finish() { return reader_->Finish(); }
  grpc::Status Cancel() {
    context_.TryCancel();
    return Finish();
  }

  v1::BackupBegin begin;
  v1::BackupEnd end;
  Records records;
  std::string last_key;

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::BackupResponse>> reader_;
};

// Returns the error of a failed call. Checks that the status and its detail agree.
v1::ErrorCode ErrorOf(const grpc::Status& status) {
  const auto detail = v1::DetailOf(v1::FromGrpc(status));
  REQUIRE(detail.has_value());
  CHECK(static_cast<int>(status.error_code()) == static_cast<int>(v1::CodeOf(detail->code())));
  return detail->code();
}

v1::BackupRequest Resume(const Reading& reading) {
  v1::BackupRequest request;
  request.mutable_resume()->set_zxid(reading.begin.zxid());
  request.mutable_resume()->set_last_key(reading.last_key);
  return request;
}

TEST_CASE("a backup has a checkpoint that was made after a barrier") {
  Fixture fixture;
  fixture.member.records = ManyRecords();
  Reading reading(&fixture);
  REQUIRE(reading.ReadAll().ok());
  CHECK(fixture.member.barriers == 1);
  CHECK(reading.begin.zxid() == 50);
  CHECK(reading.begin.term() == 7);
  CHECK(reading.begin.digest() == 0xd1d1);
  CHECK(reading.begin.cluster_id() == std::string(16, 'c'));
  CHECK(reading.begin.voters_size() == 2);
  CHECK(reading.begin.observers_size() == 1);
  CHECK(reading.records == fixture.member.records);
  CHECK(reading.end.records() == fixture.member.records.size());
}

TEST_CASE("a broken backup continues after its last record, even if there is a newer checkpoint") {
  Fixture fixture;
  fixture.member.records = ManyRecords();
  Reading first(&fixture);
  for (int i = 0; i < 5; ++i) REQUIRE(first.Next());
  CHECK(first.Cancel().error_code() == grpc::StatusCode::CANCELLED);
  fixture.member.zxid = fixture.member.checkpoint = tree::Zxid(60);
  Reading second(&fixture, Resume(first));
  REQUIRE(second.ReadAll().ok());
  CHECK(second.begin.zxid() == 50);
  CHECK(fixture.member.barriers == 1);
  CHECK(first.records.size() + second.records.size() == fixture.member.records.size());
  CHECK(second.end.records() == second.records.size());
  second.records.merge(first.records);
  CHECK(second.records == fixture.member.records);
  SECTION("the checkpoint is not kept once the backup was sent") {
    Reading third(&fixture, Resume(first));
    CHECK(third.ReadAll().error_code() == grpc::StatusCode::NOT_FOUND);
  }
}

TEST_CASE("a backup whose checkpoint does not exist any more cannot be resumed") {
  Fixture fixture;
  v1::BackupRequest request;
  request.mutable_resume()->set_zxid(49);
  CHECK(ErrorOf(Reading(&fixture, request).ReadAll()) == v1::ERROR_CODE_NO_BACKUP);
  request.mutable_resume()->set_last_key(std::string(65, 'k'));
  CHECK(ErrorOf(Reading(&fixture, request).ReadAll()) == v1::ERROR_CODE_BAD_ARGUMENTS);
}

TEST_CASE("a checkpoint that cannot be read ends the backup with the error") {
  Fixture fixture;
  fixture.member.is_damaged = true;
  const grpc::Status status = Reading(&fixture).ReadAll();
  CHECK(ErrorOf(status) == v1::ERROR_CODE_SYSTEM_ERROR);
  CHECK(status.error_message() == "damaged");
}

TEST_CASE("a client that does not read is cut off, and can resume") {
  BackupSender::Options options;
  options.stall_timeout = std::chrono::milliseconds(50);
  options.streams_max = 1;
  Fixture fixture(options);
  fixture.member.records = ManyRecords();
  Reading stalled(&fixture);
  REQUIRE(stalled.Next());
  // The stalled client has the only stream until it is cut off.
  while (Reading(&fixture).ReadAll().error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
  }
  CHECK(stalled.ReadAll().error_code() == grpc::StatusCode::CANCELLED);
  // On a busy machine a client that reads may be slow too, and may have to resume more often.
  Records records = stalled.records;
  v1::BackupRequest request = Resume(stalled);
  while (true) {
    Reading again(&fixture, request);
    const grpc::Status status = again.ReadAll();
    records.merge(again.records);
    if (status.ok()) break;
    if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) continue;
    REQUIRE(status.error_code() == grpc::StatusCode::CANCELLED);
    if (!again.last_key.empty()) request.mutable_resume()->set_last_key(again.last_key);
  }
  CHECK(records == fixture.member.records);
}

TEST_CASE("the number of backups is limited, including those that wait for a barrier") {
  BackupSender::Options options;
  options.streams_max = 2;
  Fixture fixture(options);
  fixture.member.records = ManyRecords();
  fixture.member.answers = false;
  {
    Reading waits(&fixture);
    Reading waits_too(&fixture);
    while (fixture.member.barriers < 2) std::this_thread::yield();
    CHECK(ErrorOf(Reading(&fixture).ReadAll()) == v1::ERROR_CODE_TOO_MANY_STREAMS);
    CHECK(waits.Cancel().error_code() == grpc::StatusCode::CANCELLED);
    CHECK(waits_too.Cancel().error_code() == grpc::StatusCode::CANCELLED);
  }
  // Their barriers were never answered. Therefore their streams must not be destroyed.
  CHECK(ErrorOf(Reading(&fixture).ReadAll()) == v1::ERROR_CODE_TOO_MANY_STREAMS);
}

TEST_CASE("a backup without a leader is refused") {
  Fixture fixture;
  fixture.member.serving = false;
  CHECK(ErrorOf(Reading(&fixture).ReadAll()) == v1::ERROR_CODE_UNAVAILABLE);
  CHECK(fixture.member.barriers == 0);
}

TEST_CASE("a server that stops ends the backups in progress") {
  grpc::Status status;
  {
    auto fixture = std::make_unique<Fixture>();
    fixture->member.answers = false;
    Reading waits(fixture.get());
    while (fixture->member.barriers < 1) std::this_thread::yield();
    fixture->server.Stop();
    status = waits.Finish();
  }
  CHECK_FALSE(status.ok());
}

TEST_CASE("anyone learns the version, the revision of the API and the features") {
  Fixture f;
  grpc::ClientContext context;
  v1::VersionResponse response;
  REQUIRE(f.stub->Version(&context, {}, &response).ok());
  CHECK(response.server().version() == kProgramVersion);
  CHECK(response.server().revision() == kApiRevision);
  CHECK(response.server().features_size() == 0);  // the cluster of this test is too old for them
}

TEST_CASE("Status and Members return the member's knowledge of the cluster") {
  Fixture fixture;
  ClusterView& view = fixture.member.view;
  view.self = MemberId(1);
  view.leader = MemberId(1);
  view.is_leader = true;
  view.term = Term(9);
  view.commit_index = Index(100);
  view.applied_index = Index(99);
  view.cluster_id = std::string(16, 'i');
  view.members = {{MemberId(1), false, true, true, Index(100)},
                  {MemberId(2), false, true, false, Index(90)},
                  {MemberId(3), true, false, false, Index(0), "three:12: Connection refused"}};
  view.cluster_version = 8;
  view.newest_version = view.members[0].newest_version = 9;
  view.program_version = 12;
  view.members[1].newest_version = 8;
  view.members[0].addresses = ServerLine{.host = "one", .client_port = 21};
  view.members[1].addresses = ServerLine{.host = "::2", .peer_port = 12};
  view.membership_index = Index(7);
  {
    grpc::ClientContext context;
    v1::StatusResponse status;
    REQUIRE(fixture.stub->Status(&context, {}, &status).ok());
    CHECK(status.member() == 1);
    CHECK(status.role() == v1::ROLE_LEADER);
    CHECK(status.serving());
    CHECK(status.term() == 9);
    CHECK(status.commit_index() == 100);
    CHECK(status.applied_index() == 99);
    CHECK(status.nodes() == fixture.member.ReadTree()->node_count());
    CHECK(status.digest() == fixture.member.ReadTree()->digest());
    CHECK(status.cluster_id() == std::string(16, 'i'));
    CHECK(status.cluster_version() == 8);
    CHECK(status.newest_version() == 9);
    CHECK(status.program_version() == 12);
    // One understands 8 alone, the other one has not been heard from.
    CHECK(std::vector<uint32_t>(status.held_back_by().begin(), status.held_back_by().end()) ==
          std::vector<uint32_t>{2, 3});
  }
  for (ClusterView::Member& member : view.members) member.newest_version = 9;
  view.members[2].newest_version = 10;
  view.cluster_version = 9;
  {
    grpc::ClientContext context;
    v1::StatusResponse status;
    REQUIRE(fixture.stub->Status(&context, {}, &status).ok());
    CHECK(status.cluster_version() == 9);
    CHECK(status.held_back_by().empty());
  }
  grpc::ClientContext context;
  v1::MembersResponse members;
  REQUIRE(fixture.stub->Members(&context, {}, &members).ok());
  CHECK(members.from_leader());
  REQUIRE(members.members_size() == 3);
  CHECK(members.members(0).role() == v1::ROLE_LEADER);
  CHECK(members.members(0).client_address() == "one:21");
  CHECK(members.members(1).role() == v1::ROLE_FOLLOWER);
  CHECK(members.members(1).peer_address() == "[::2]:12");
  CHECK(members.members(1).server_line() == "[::2]:12:0:participant");
  CHECK(members.membership_index() == 7);
  CHECK(members.members(1).match_index() == 90);
  CHECK_FALSE(members.members(1).in_sync());
  CHECK(members.members(2).role() == v1::ROLE_OBSERVER);
  CHECK_FALSE(members.members(2).reachable());
  CHECK(members.members(2).problem() == "three:12: Connection refused");
  CHECK(members.members(2).peer_address().empty());
}

TEST_CASE("the client address of a member that serves clients with TLS alone is that of TLS") {
  Fixture fixture;
  fixture.member.view.self = MemberId(1);
  fixture.member.view.members = {{MemberId(1), false, true, true, Index(1)}};
  fixture.config.client_port = 0;
  fixture.config.secure_client_port = 2182;
  const auto client_address = [&fixture] {
    grpc::ClientContext context;
    v1::MembersResponse members;
    REQUIRE(fixture.stub->Members(&context, {}, &members).ok());
    REQUIRE(members.members_size() == 1);
    return members.members(0).client_address();
  };
  CHECK(client_address() == "*:2182");
  fixture.config.secure_client_address = "10.0.0.1";
  CHECK(client_address() == "10.0.0.1:2182");
  fixture.member.view.members[0].addresses = ServerLine{.host = "one"};
  CHECK(client_address() == "10.0.0.1:2182");
  fixture.config.secure_client_address.clear();
  CHECK(client_address() == "one:2182");
}

TEST_CASE("TransferLeadership returns the answer of the member") {
  Fixture fixture;
  for (uint32_t target : {2, 3}) {
    grpc::ClientContext context;
    v1::TransferLeadershipRequest request;
    request.set_member(target);
    v1::TransferLeadershipResponse response;
    const grpc::Status status = fixture.stub->TransferLeadership(&context, request, &response);
    if (target == 2) {
      CHECK(status.ok());
    } else {
      CHECK(ErrorOf(status) == v1::ERROR_CODE_CANNOT_TRANSFER);
      CHECK(status.error_message() == "not this one");
    }
  }
}

TEST_CASE("Metrics returns those that are asked for") {
  Fixture fixture;
  const auto ask = [&](const std::vector<std::string>& names) {
    grpc::ClientContext context;
    v1::MetricsRequest request;
    for (const std::string& name : names) request.add_names(name);
    v1::MetricsResponse response;
    REQUIRE(fixture.stub->Metrics(&context, request, &response).ok());
    return response.text();
  };
  CHECK(ask({}) == "metrics:");
  CHECK(ask({"b", "a", "b"}) == "metrics:a,b");
}

TEST_CASE("ChangeMembers asks the member, and returns its errors with codes") {
  Fixture fixture;
  fixture.member.view.membership_index = Index(5);
  v1::ChangeMembersRequest request;
  request.set_membership_index(5);
  v1::MemberLine* member = request.add_members();
  member->set_id(4);
  member->set_server_line("four:2888:3888:observer;2181");
  const auto change = [&] {
    grpc::ClientContext context;
    v1::ChangeMembersResponse response;
    return fixture.stub->ChangeMembers(&context, request, &response);
  };
  REQUIRE(change().ok());
  REQUIRE(fixture.member.asked.count(4) == 1);
  CHECK(fixture.member.asked.at(4).host == "four");
  CHECK(fixture.member.asked.at(4).observer);
  const std::pair<absl::Status, v1::ErrorCode> outcomes[] = {
      {absl::InvalidArgumentError("x"), v1::ERROR_CODE_BAD_ARGUMENTS},
      {absl::AbortedError("x"), v1::ERROR_CODE_MEMBERS_CHANGED},
      {absl::UnavailableError("x"), v1::ERROR_CODE_UNAVAILABLE},
      {absl::FailedPreconditionError("x"), v1::ERROR_CODE_CANNOT_CHANGE_MEMBERS}};
  for (const auto& [outcome, code] : outcomes) {
    fixture.member.change_outcome = outcome;
    CHECK(ErrorOf(change()) == code);
  }
  fixture.member.change_outcome = absl::OkStatus();
  request.set_membership_index(6);
  CHECK(ErrorOf(change()) == v1::ERROR_CODE_MEMBERS_CHANGED);
  fixture.member.asked.clear();
  for (const char* line : {"", "four", "four:1:2:3", "four:1:2;x", "four:70000:2"}) {
    request.mutable_members(0)->set_server_line(line);
    CHECK(ErrorOf(change()) == v1::ERROR_CODE_BAD_ARGUMENTS);
  }
  request.mutable_members(0)->set_server_line("four:1:2;3");
  request.mutable_members(0)->set_id(255);
  CHECK(ErrorOf(change()) == v1::ERROR_CODE_BAD_ARGUMENTS);
  request.mutable_members(0)->set_id(4);
  *request.add_members() = request.members(0);
  CHECK(ErrorOf(change()) == v1::ERROR_CODE_BAD_ARGUMENTS);
  CHECK(fixture.member.asked.empty());
}

// Calls a method of a service that has no generated code here.
grpc::Status CallRaw(Fixture* fixture, const std::string& method, const std::string& message,
                     std::string* response) {
  grpc::GenericStub stub(fixture->channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const grpc::Slice whole(message);
  const grpc::ByteBuffer request(&whole, 1);
  auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  grpc::ByteBuffer buffer;
  grpc::Status status;
  call->StartCall();
  call->Finish(&buffer, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  std::vector<grpc::Slice> slices;
  if (buffer.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) {
      response->append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
  }
  return status;
}

Config WithSuperDigest() {
  Config config;
  config.super_digest = DigestId("super:pw");
  config.servers[1].host = "10.0.0.1";
  config.servers[1].peer_port = 1;
  config.servers[1].client_port = 2;
  return config;
}

// Credentials as a call's metadata.
std::unique_ptr<grpc::ClientContext> With(const std::vector<std::string>& authorizations) {
  auto context = std::make_unique<grpc::ClientContext>();
  for (const std::string& value : authorizations) context->AddMetadata("authorization", value);
  return context;
}

TEST_CASE("backups and the transfer of leadership need an administrator") {
  Fixture fixture({}, WithSuperDigest());
  const std::string right = "Basic " + absl::Base64Escape("super:pw");
  const std::string wrong = "Basic " + absl::Base64Escape("super:no");
  const auto transfer = [&](const std::vector<std::string>& authorizations) {
    v1::TransferLeadershipResponse response;
    return fixture.stub->TransferLeadership(With(authorizations).get(), {}, &response);
  };
  const auto backup = [&](const std::vector<std::string>& authorizations) {
    const auto context = With(authorizations);
    const auto reader = fixture.stub->Backup(context.get(), {});
    v1::BackupResponse response;
    while (reader->Read(&response)) {
    }
    return reader->Finish();
  };
  CHECK(transfer({}).error_code() == grpc::StatusCode::UNAUTHENTICATED);
  CHECK(backup({}).error_code() == grpc::StatusCode::UNAUTHENTICATED);
  CHECK(transfer({wrong}).error_code() == grpc::StatusCode::UNAUTHENTICATED);
  CHECK(backup({wrong}).error_code() == grpc::StatusCode::UNAUTHENTICATED);
  CHECK(transfer({right, right}).error_message().find("once") != std::string::npos);
  CHECK(fixture.administrators.failures() == 3);
  CHECK(fixture.member.barriers == 0);
  CHECK(v1::DetailOf(v1::FromGrpc(backup({})))->code() == v1::ERROR_CODE_AUTH_FAILED);
  CHECK(transfer({right}).error_code() != grpc::StatusCode::UNAUTHENTICATED);
  CHECK(backup({right}).ok());
}

TEST_CASE("TopRequests returns who has sent the most, for administrators") {
  Fixture fixture({}, WithSuperDigest());
  LoopRequests* loop = fixture.member.requests().AddLoop();
  const auto now = Clock::System()->Now();
  for (int i = 0; i < 90; ++i) {
    REQUIRE(loop->top.ShouldSample(now));
    loop->top.Add({.client = i < 60 ? "10.0.0.9:4000" : "10.0.0.8\n",
                   .session = 5,
                   .scheme = "digest",
                   .id = "ann",
                   .path = "/a/b/c",
                   .operation = "getData"},
                  now);
    loop->recent_reads.Add(0, now);
  }
  const auto ask = [&](const std::vector<std::string>& authorizations, uint32_t count_max,
                       v1::TopRequestsResponse* response) {
    v1::TopRequestsRequest request;
    request.set_count_max(count_max);
    return fixture.stub->TopRequests(With(authorizations).get(), request, response);
  };
  v1::TopRequestsResponse response;
  CHECK(ask({}, 0, &response).error_code() == grpc::StatusCode::UNAUTHENTICATED);
  const std::string right = "Basic " + absl::Base64Escape("super:pw");
  REQUIRE(ask({right}, 0, &response).ok());
  REQUIRE(response.clients_size() == 2);
  CHECK(response.clients(0).name() == "10.0.0.9:4000");
  CHECK(response.clients(0).session() == 5);
  CHECK(response.clients(1).name() == "10.0.0.8\\n");
  CHECK(response.clients(0).per_second() > response.clients(1).per_second());
  CHECK(response.clients(0).per_second() + response.clients(1).per_second() ==
        Approx(response.per_second()));
  REQUIRE(response.paths_size() == 1);
  CHECK(response.paths(0).name() == "/a/b");
  CHECK(response.identities(0).name() == "digest:ann");
  CHECK(response.operations(0).name() == "getData");
  REQUIRE(ask({right}, 1, &response).ok());
  CHECK(response.clients_size() == 1);
}

TEST_CASE("SlowRequests returns those that were slow, for administrators") {
  Fixture fixture({}, WithSuperDigest());
  SlowRequests& slow = fixture.member.slow_requests();
  slow.SetThreshold(100);
  for (int i = 1; i <= 2; ++i) {
    SlowRequest request{.answered_ms = 1000 * i,
                        .operation = "create",
                        .session = 5,
                        .client = "10.0.0.9:4000",
                        .path = "/" + std::to_string(i),
                        .zxid = i,
                        .us = 150'001};
    request.stages.Set(RequestStage::kQueue, 1);
    request.stages.Set(RequestStage::kCommit, 150'000);
    REQUIRE(slow.Count(request.operation, std::chrono::steady_clock::now()));
    slow.Keep(request);
  }
  const auto ask = [&](const std::vector<std::string>& authorizations, uint32_t count_max,
                       v1::SlowRequestsResponse* response) {
    v1::SlowRequestsRequest request;
    request.set_count_max(count_max);
    return fixture.stub->SlowRequests(With(authorizations).get(), request, response);
  };
  v1::SlowRequestsResponse response;
  CHECK(ask({}, 0, &response).error_code() == grpc::StatusCode::UNAUTHENTICATED);
  const std::string right = "Basic " + absl::Base64Escape("super:pw");
  REQUIRE(ask({right}, 0, &response).ok());
  CHECK(v1::ToMs(response.threshold()) == 100);
  CHECK(response.count() == 2);
  REQUIRE(response.requests_size() == 2);
  const v1::SlowRequest& first = response.requests(0);
  CHECK(first.path() == "/1");
  CHECK(first.operation() == "create");
  CHECK(first.longest_stage() == "commit");
  CHECK(v1::ToMs(first.answer_time()) == 1000);
  CHECK(v1::ToUs(first.duration()) == 150'001);
  REQUIRE(first.stages_size() == 2);
  CHECK(first.stages(0).stage() == "queue");
  CHECK(v1::ToUs(first.stages(1).duration()) == 150'000);
  REQUIRE(ask({right}, 1, &response).ok());
  REQUIRE(response.requests_size() == 1);
  CHECK(response.requests(0).path() == "/2");
}

TEST_CASE("callers that are no administrators get no addresses, digest, or sizes") {
  Fixture fixture({}, WithSuperDigest());
  fixture.member.view.self = MemberId(1);
  fixture.member.view.cluster_id = std::string(16, 'c');
  fixture.member.view.members = {{.id = MemberId(1), .match_index = Index(0)}};
  fixture.member.view.members[0].addresses = fixture.config.servers.at(1);
  fixture.member.checkpoint = tree::Zxid(7);
  for (const bool is_administrator : {false, true}) {
    const std::vector<std::string> authorizations(is_administrator ? 1 : 0,
                                                  "Basic " + absl::Base64Escape("super:pw"));
    v1::StatusResponse status;
    REQUIRE(fixture.stub->Status(With(authorizations).get(), {}, &status).ok());
    CHECK(status.member() == 1);
    CHECK(status.serving());
    CHECK(status.reduced() != is_administrator);
    CHECK((status.digest() != 0) == is_administrator);
    CHECK((status.cluster_id().size() == 16) == is_administrator);
    CHECK((status.checkpoint_zxid() == 7) == is_administrator);
    v1::MembersResponse members;
    REQUIRE(fixture.stub->Members(With(authorizations).get(), {}, &members).ok());
    REQUIRE(members.members_size() == 1);
    CHECK(members.reduced() != is_administrator);
    CHECK(members.members(0).peer_address() == (is_administrator ? "10.0.0.1:1" : ""));
    CHECK(members.members(0).client_address() == (is_administrator ? "10.0.0.1:2" : ""));
  }
  CHECK(fixture.audit.Lines().empty());
  v1::StatusResponse status;
  CHECK(fixture.stub->Status(With({"Bearer x"}).get(), {}, &status).error_code() ==
        grpc::StatusCode::UNAUTHENTICATED);
  v1::MembersResponse members;
  CHECK(fixture.stub->Members(With({"Bearer x"}).get(), {}, &members).error_code() ==
        grpc::StatusCode::UNAUTHENTICATED);
  CHECK(fixture.audit.Lines() == std::vector<std::string>(2,
                                                          "ip=127.0.0.1 operation=authenticate "
                                                          "detail=authorization result=failure"));
}

TEST_CASE("the health service returns whether the member serves") {
  Fixture fixture;
  for (const auto& [serving, wanted] :
       {std::pair(true, "\x08\x01"), std::pair(false, "\x08\x02")}) {
    fixture.server.SetServing(serving);
    // Checks the status of the whole server and of one service.
    const std::string name = v1::ClusterService::service_full_name();
    for (const std::string& request :
         {std::string(), "\x0a" + std::string(1, static_cast<char>(name.size())) + name}) {
      std::string response;
      REQUIRE(CallRaw(&fixture, "/grpc.health.v1.Health/Check", request, &response).ok());
      CHECK(response == wanted);
    }
  }
}

TEST_CASE("the error about an address in use names the address") {
  Fixture fixture;
  const std::string address = "127.0.0.1:" + std::to_string(fixture.server.port());
  GrpcServer second;
  const absl::Status status = second.Start({.address = address}, {});
  CHECK(absl::IsUnavailable(status));
  CHECK(status.message().find(address) != absl::string_view::npos);
}

}  // namespace
}  // namespace quorate::rpc
