// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/admin_frontend.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rpc/audit/testing/recorded_audit.h"
#include "rpc/zookeeper/testing/loop_fixture.h"

namespace quorate::rpc::admin {
namespace {

using consensus::MemberId;

class ShownCluster : public Administration {
 public:
  ClusterView cluster_view() const override { return view; }
  void TransferLeadership(MemberId, std::function<void(absl::Status)> done) override {
    done(absl::OkStatus());
  }
  void ChangeMembers(const ServerLines&, consensus::Index,
                     std::function<void(absl::Status)>) override {}
  void Barrier(std::function<void(tree::Zxid)> done) override { done(tree::Zxid(1)); }
  void RequestCheckpoint(tree::Zxid, std::function<void()> done) override { done(); }
  tree::Zxid checkpoint_zxid() const override { return checkpoint; }
  absl::StatusOr<CheckpointView> OpenCheckpoint() const override {
    return absl::FailedPreconditionError("none");
  }

  ClusterView view;
  tree::Zxid checkpoint;
};

Config WithCluster() {
  Config config = TestConfig();
  config.max_client_connections = 0;
  config.client_port = 2181;
  config.client_address = "10.0.0.3";
  config.data_dir = config.log_dir = "/no/such/directory";
  for (uint32_t id = 1; id <= 3; ++id) {
    ServerLine& line = config.servers[id];
    line.host = "10.0.0." + std::to_string(id);
    line.peer_port = 2888;
    line.election_port = 3888;
    line.observer = id == 2;
  }
  return config;
}

class AdminFixture : public zk::Fixture {
 public:
  explicit AdminFixture(Config c = WithCluster()) : Fixture(std::move(c)) {
    service.current.leader_known = true;
  }

  HttpResponse Get(const std::string& target, HttpRequest request = {}) {
    request.target = target;
    if (request.method.empty()) request.method = "GET";
    if (request.host.empty()) request.host = "localhost:8080";
    if (request.caller.address.empty()) {
      request.caller.address = "127.0.0.1";
      request.caller.origin = Principal::Origin::kLoopback;
    }
    HttpResponse response = admin.Respond(request);
    return response.make_on_streams ? response.make_on_streams() : std::move(response);
  }
  Json Command(const std::string& name) {
    const HttpResponse response = Get("/commands/" + name);
    INFO(name << "\n" << response.body);
    CHECK(response.status == 200);
    CHECK(response.content_type == "application/json");
    return Json::parse(response.body);
  }

  // Sends a change as the page of the caller does.
  HttpResponse Change(const std::string& name, const std::string& body, HttpRequest request = {}) {
    const Json overview = Json::parse(Get("/console/api/overview", request).body);
    request.page_token = overview.value("token", "");
    request.method = "POST";
    request.content_type = "application/json";
    request.fetch_site = "same-origin";
    request.body = body;
    return Get("/console/api/" + name, request);
  }

  RecordedAudit audit;
  TreeWriter writer{config, &service, kWriterTags};
  SessionCloser closer{&service, kCloserTags};
  ShownCluster cluster;
  Administrators administrators{config, &clock};
  AdminFrontend admin{{.config = config,
                       .frontend = &frontend,
                       .administration = &cluster,
                       .administrators = &administrators,
                       .clock = &clock,
                       .audit = audit.log(),
                       .writer = &writer,
                       .closer = &closer,
                       .version = "1.2.3",
                       .configuration_text =
                           "# a comment\ntickTime=2000\nssl.keyStore.password=hunter2\n"
                           "zookeeper.DigestAuthenticationProvider.superDigest: s:x\n",
                       .client_tls = [] { return nullptr; }}};
};

std::vector<std::string> Keys(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

HttpRequest With(std::string HttpRequest::*field, std::string value) {
  HttpRequest request;
  request.*field = std::move(value);
  return request;
}

HttpRequest WithCredentials(std::string authorization) {
  return With(&HttpRequest::authorization, std::move(authorization));
}

TEST_CASE("the text of JSON has ZooKeeper's spaces") {
  AdminFixture f;
  CHECK(f.Get("/commands/ruok").body == "{\n  \"command\" : \"ruok\",\n  \"error\" : null\n}");
  CHECK(JsonText({{"a", Json::array()},
                  {"b", Json::object()},
                  {"c", {1, 2}},
                  {"d", Json::array({{{"x", "\"\n\xff"}}, {{"y", nullptr}}})}}) ==
        "{\n  \"a\" : [ ],\n  \"b\" : { },\n  \"c\" : [ 1, 2 ],\n  \"d\" : [ {\n    \"x\" : "
        "\"\\\"\\n\xef\xbf\xbd\"\n  }, {\n    \"y\" : null\n  } ]\n}");
}

TEST_CASE("each command has a name and aliases of its own, and a row of who may call it") {
  std::set<std::string_view> names;
  for (const CommandInfo& command : Commands::All()) {
    CHECK(names.insert(command.name).second);
    CHECK(InfoOf(command.operation).name == "/commands/" + std::string(command.name));
    CHECK(Commands::Find(command.name) == &command);
    for (const std::string_view alias : command.aliases) {
      if (alias.empty()) continue;
      CHECK(names.insert(alias).second);
      CHECK(Commands::Find(alias) == &command);
    }
  }
  CHECK(Commands::Find("") == nullptr);
}

TEST_CASE("all commands answer, by their primary names") {
  AdminFixture f;
  for (const CommandInfo& command : Commands::All()) {
    if (command.run == nullptr) continue;  // snapshot and restore have tests of their own
    const Json answer = f.Command(std::string(command.name) + "?traceMask=7");
    CHECK(answer["command"] == std::string(command.name));
    CHECK(answer["error"].is_null());
  }
  CHECK(f.Command("stat")["command"] == "stats");
  const Json unknown = f.Command("a/b");
  CHECK(unknown["error"] == "Unknown command: a/b");
  CHECK(Keys(unknown) == std::vector<std::string>{"command", "error"});
}

TEST_CASE("without a leader only the commands that need none are answered") {
  AdminFixture f;
  f.service.current.leader_known = false;
  for (const CommandInfo& command : Commands::All()) {
    if (command.run == nullptr) continue;  // snapshot and restore have tests of their own
    const Json answer = f.Command(std::string(command.name) + "?traceMask=7");
    INFO(command.name);
    CHECK(answer["error"].is_null() == !command.needs_serving);
  }
  CHECK(f.Command("ruok")["error"] == "This ZooKeeper instance is not currently serving requests");
  CHECK(f.Command("zabstate")["zabstate"] == "election");
}

TEST_CASE("the fields of commands are those of ZooKeeper, in its order") {
  AdminFixture f;
  using List = std::vector<std::string>;
  CHECK(Keys(f.Command("configuration")) ==
        List{"client_port", "data_dir", "data_log_dir", "tick_time", "max_client_cnxns",
             "min_session_timeout", "max_session_timeout", "server_id",
             "client_port_listen_backlog", "command", "error"});
  CHECK(Keys(f.Command("connections")) ==
        List{"connections", "secure_connections", "command", "error"});
  CHECK(Keys(f.Command("dump")) ==
        List{"expiry_time_to_session_ids", "session_id_to_ephemeral_paths", "command", "error"});
  CHECK(Keys(f.Command("leader")) ==
        List{"is_leader", "leader_id", "leader_ip", "command", "error"});
  CHECK(Keys(f.Command("server_stats")) == List{"version", "read_only", "server_stats",
                                                "client_response", "node_count", "command",
                                                "error"});
  f.service.current.is_leader = true;
  CHECK(f.Command("server_stats").contains("proposal_stats"));
  f.frontend.statistics().local_connections_without_tls = 2;
  f.frontend.statistics().remote_connections_without_tls = 3;
  const Json statistics = f.Command("server_stats")["server_stats"];
  CHECK(statistics["non_mtlslocal_conn_count"] == 2);
  CHECK(statistics["non_mtlsremote_conn_count"] == 3);
  CHECK(Keys(f.Command("stats")) == List{"version", "read_only", "server_stats", "client_response",
                                         "proposal_stats", "node_count", "connections",
                                         "secure_connections", "command", "error"});
  CHECK(Keys(f.Command("zabstate")) ==
        List{"myid", "is_leader", "quorum_address", "election_address", "client_address", "voting",
             "last_zxid", "zab_epoch", "zab_counter", "zabstate", "command", "error"});
  const Json view = f.Command("voting_view")["current_config"];
  CHECK(Keys(view) == List{"1", "3"});  // member 2 is an observer
  CHECK(view["3"]["client_address"] == "10.0.0.3:2181");
  CHECK(view["1"]["server_addresses"] == Json::array({"10.0.0.1:2888"}));
}

TEST_CASE("connections, sessions and watches show what clients have") {
  AdminFixture f;
  zk::ConnectResponse response;
  const uint32_t tag = f.ConnectSession(&response);
  const std::string id = std::to_string(response.session_id);
  f.Call(tag, zk::OpCode::kCreate, zk::Create("/e\xc3\xa4", "data", /*flags=*/1));
  f.Call(tag, zk::OpCode::kGetData, zk::PathAndWatch("/e\xc3\xa4", true));
  const Json connection = f.Command("cons")["connections"][0];
  CHECK(connection["session_id"] == response.session_id);
  CHECK(connection["last_operation"] == "GETD");
  CHECK(connection.size() == 16);
  CHECK(f.Command("stat")["connections"][0].size() == 5);
  CHECK(f.Command("dump")["expiry_time_to_session_ids"].empty());  // only a leader knows them
  f.service.current.is_leader = true;
  const Json dump = f.Command("dump");
  CHECK(dump["session_id_to_ephemeral_paths"][id] == Json::array({"/e\xc3\xa4"}));
  CHECK(dump["expiry_time_to_session_ids"].front() == Json::array({response.session_id}));
  CHECK(f.Command("watches")["session_id_to_watched_paths"][id] == Json::array({"/e\xc3\xa4"}));
  CHECK(f.Command("wchp")["path_to_session_ids"]["/e\xc3\xa4"] ==
        Json::array({response.session_id}));
  CHECK(f.Command("wchs")["num_total_watches"] == 1);
  f.Command("crst");
  CHECK(f.Command("cons")["connections"][0]["packets_received"] == 0);
}

TEST_CASE("the trace mask is a number") {
  AdminFixture f;
  CHECK(f.Command("stmk")["error"] == "setTraceMask requires long traceMask argument");
  CHECK(f.Command("stmk?traceMask=x")["error"] ==
        "setTraceMask requires long traceMask argument, got x");
  CHECK(f.Command("stmk?traceMask=-5")["tracemask"] == -5);
  CHECK(f.Command("gtmk")["tracemask"] == -5);
}

TEST_CASE("configurations and properties have no secrets") {
  AdminFixture f;
  CHECK(f.Command("icfg")["initial_configuration"] ==
        "tickTime=2000\nssl.keyStore.password=(hidden)\n"
        "zookeeper.DigestAuthenticationProvider.superDigest=(hidden)\n");
  const Json properties = f.Command("sysp");
  CHECK(properties["zookeeper.ssl.keyStore.password"] == "(hidden)");
  CHECK(properties["zookeeper.admin.serverPort"] == "8080");
}

TEST_CASE("monitor, mntr and the page of metrics show the same") {
  AdminFixture f;
  f.service.shown.proposals = 12;
  f.service.current.is_leader = true;
  const Json monitor = f.Command("monitor");
  CHECK(monitor["proposal_count"] == 12);
  CHECK(monitor["synced_followers"] == 0);
  CHECK(monitor["cnt_readlatency"] == 0);
  CHECK(monitor["diff_count"] == 0);  // of ZooKeeper, and not counted here
  const std::string page = f.Get("/metrics").body;
  for (const zk::Metric& metric : zk::Metrics()) {
    if (metric.type == zk::MetricType::kText) continue;
    INFO(metric.name);
    CHECK(page.find("\n# TYPE " + std::string(metric.name) + " ") != std::string::npos);
  }
  CHECK(page.find("\nproposal_count 12.0\n") != std::string::npos);
  CHECK(page.find("\nquorate_role{role=\"leader\"} 1.0\n") != std::string::npos);
  CHECK(page.find("\nquorate_build_info{version=\"1.2.3\"} 1.0\n") != std::string::npos);
  CHECK(f.Get("/metrics?name[]=znode_count").body.find("proposal_count") == std::string::npos);
  f.service.current.is_leader = false;
  CHECK(f.Get("/metrics").body.find("leader_uptime") == std::string::npos);
}

// Records a slow write of 250 ms, with 200 ms in the log, and a slow read of a directory.
void AddSlowRequests(SlowRequests* slow) {
  slow->SetThreshold(100);
  const auto now = std::chrono::steady_clock::time_point(std::chrono::hours(1));
  SlowRequest write{.answered_ms = 1000,
                    .operation = "setData",
                    .session = -1,
                    .client = "10.0.0.9:4000",
                    .path = "/a\n",
                    .zxid = 7,
                    .us = 250'000};
  write.stages.Set(RequestStage::kQueue, 50'000);
  write.stages.Set(RequestStage::kLogWrite, 200'000);
  REQUIRE(slow->Count(write.operation, now));
  slow->Keep(write);
  SlowRequest read{.answered_ms = 2000, .operation = "getChildren", .us = 100'000};
  read.stages.Set(RequestStage::kRead, 100'000);
  REQUIRE(slow->Count(read.operation, now));
  slow->Keep(read);
}

TEST_CASE("the latencies of the last minutes are shown, and not those before") {
  AdminFixture f;
  LoopRequests* loop = f.service.requests().AddLoop();
  loop->recent_reads.Add(9'000'000, f.clock.Now());
  f.clock.Advance(120'000);
  for (int i = 0; i < 60; ++i) loop->recent_reads.Add(2000, f.clock.Now());
  loop->recent_writes.Add(30'000, f.clock.Now());
  f.clock.Advance(60'000);
  const Json windows = f.Command("latencies")["windows"];
  REQUIRE(windows.size() == 2);
  CHECK(windows[0]["seconds"] == 60);
  CHECK(windows[0]["reads"]["count"] == 60);
  CHECK(windows[0]["reads"]["avg_ms"] == 2);
  CHECK(windows[0]["reads"]["max_ms"] == 2);
  // Within the bucket from 25 to 50 ms, but not above the only latency.
  CHECK(windows[0]["writes"]["p99_ms"] == 30);
  CHECK(windows[0]["all"]["max_ms"] == 30);
  CHECK(windows[1]["seconds"] == 300);
  CHECK(windows[1]["all"]["count"] == 62);
  CHECK(windows[1]["reads"]["max_ms"] == 9000);
  const Json monitor = f.Command("monitor");
  CHECK(monitor["quorate_latency_1m_max_us"] == 30'000);
  CHECK(monitor["quorate_reads_1m_per_second"].get<double>() == Approx(1).epsilon(0.1));
  CHECK(monitor["quorate_writes_1m_per_second"].get<double>() == Approx(1.0 / 60).epsilon(0.1));
  CHECK(monitor["quorate_read_latency_1m_avg_us"] == 2000);
  CHECK(monitor["quorate_read_latency_5m_max_us"] == 9'000'000);
  CHECK(f.Get("/metrics").body.find("\nquorate_write_latency_5m_max_us 30000.0\n") !=
        std::string::npos);
}

TEST_CASE("the busiest clients are shown by name to administrators, and by rank in metrics") {
  AdminFixture f;
  LoopRequests* loop = f.service.requests().AddLoop();
  for (int i = 0; i < 180; ++i) {
    RequestSample sample{.client = i < 120 ? "10.0.0.9:4000" : "10.0.0.8\n",
                         .session = 5,
                         .scheme = i < 120 ? "" : "digest",
                         .id = "ann",
                         .path = "/a/b/c",
                         .operation = "getData"};
    REQUIRE(loop->top.ShouldSample(f.clock.Now()));
    loop->top.Add(sample, f.clock.Now());
    loop->recent_reads.Add(0, f.clock.Now());
  }
  f.clock.Advance(60'000);
  const Json top = f.Command("top_requests");
  CHECK(Keys(top) == std::vector<std::string>{"window_seconds", "per_second", "clients",
                                              "identities", "paths", "operations", "command",
                                              "error"});
  CHECK(top["per_second"] == 3);
  CHECK(top["clients"][0] ==
        Json({{"name", "10.0.0.9:4000"}, {"per_second", 2}, {"session", "0x5"}}));
  CHECK(top["clients"][1]["name"] == "10.0.0.8\\n");
  CHECK(top["identities"] == Json::array({{{"name", "digest:ann"}, {"per_second", 1}}}));
  CHECK(top["paths"] == Json::array({{{"name", "/a/b"}, {"per_second", 3}}}));
  CHECK(top["operations"][0]["name"] == "getData");
  CHECK(f.Command("top_requests?count=1")["clients"].size() == 1);
  CHECK(f.Command("top_requests?count=x")["error"] == "?count= has to be a number");
  const std::string page = f.Get("/metrics").body;
  CHECK(page.find("\nquorate_top_client_requests_per_second{rank=\"1\"} 2.0\n") !=
        std::string::npos);
  CHECK(page.find("\nquorate_top_path_requests_per_second{rank=\"1\"} 3.0\n") != std::string::npos);
  CHECK(page.find("10.0.0.9") == std::string::npos);
  f.clock.Advance(60'000);
  CHECK(f.Command("top_requests")["clients"].empty());
}

TEST_CASE("slow requests are shown with their stages, as many as are asked for") {
  AdminFixture f;
  CHECK(f.Command("slow_requests")["requests"] == Json::array());
  AddSlowRequests(&f.service.slow_requests());
  const Json answer = f.Command("slow_requests");
  CHECK(Keys(answer) == std::vector<std::string>{"threshold_ms", "counts", "not_kept", "requests",
                                                 "command", "error"});
  CHECK(answer["threshold_ms"] == 100);
  CHECK(answer["counts"] == Json({{"getChildren", 1}, {"setData", 1}}));
  REQUIRE(answer["requests"].size() == 2);
  CHECK(answer["requests"][0] ==
        Json({{"answered_ms", 1000},
              {"operation", "setData"},
              {"path", "/a\\n"},
              {"session", "0xffffffffffffffff"},
              {"client", "10.0.0.9:4000"},
              {"zxid", 7},
              {"us", 250'000},
              {"longest_stage", "log_write"},
              {"stages_us", {{"queue", 50'000}, {"log_write", 200'000}}}}));
  CHECK(f.Command("slow_requests?count=1")["requests"].size() == 1);
  CHECK(f.Command("slow_requests?count=1")["requests"][0]["operation"] == "getChildren");
  CHECK(f.Command("slow_requests?count=x")["error"] == "?count= has to be a number");
}

TEST_CASE("slow requests are counted by operation, and stages have histograms and percentiles") {
  AdminFixture f;
  CHECK(f.Get("/metrics").body.find("quorate_slow_requests_total") == std::string::npos);
  CHECK(f.Get("/metrics").body.find("quorate_request_stage_seconds") == std::string::npos);
  AddSlowRequests(&f.service.slow_requests());
  StageTimes times;
  times.Set(RequestStage::kCommit, 300'000);
  f.frontend.statistics().AddLoop()->stages.Add(times);
  const std::string page = f.Get("/metrics").body;
  for (const std::string line :
       {"quorate_slow_requests_total{operation=\"setData\"} 1.0\n",
        "quorate_request_stage_seconds_bucket{stage=\"commit\",le=\"0.5\"} 1.0\n",
        "quorate_request_stage_seconds_count{stage=\"commit\"} 1.0\n",
        "quorate_request_stage_p99_1m_seconds{stage=\"commit\"} 0.49"}) {
    INFO(line);
    CHECK(page.find(line) != std::string::npos);
  }
  CHECK(page.find("stage=\"apply\"") == std::string::npos);
}

TEST_CASE("names of metrics are legal, and each appears once") {
  std::set<std::string_view> names;
  for (const zk::Metric& metric : zk::Metrics()) CHECK(names.insert(metric.name).second);
  for (const zk::UnusedMetric& metric : zk::UnusedMetrics()) {
    INFO(metric.name);
    CHECK(names.insert(metric.name).second);
  }
  for (const LabelledMetric& metric : LabelledMetrics()) {
    INFO(metric.name);
    CHECK(names.insert(metric.name).second);
  }
  for (const std::string_view name : names) {
    CHECK(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") ==
          std::string_view::npos);
  }
}

TEST_CASE("other paths and methods are refused with a reason") {
  AdminFixture f;
  CHECK(f.Get("/commands").body == f.Get("/commands/").body);
  CHECK(f.Get("/commands").body.starts_with("<a href=\"/commands/configuration\">configuration"));
  for (const char* path : {"/nothing", "/commandsx", "//commands/ruok", "/health/x", "/metrics/"}) {
    CHECK(f.Get(path).status == 404);
  }
  CHECK(f.Get("/commands/%2e%2e/x").status == 400);
  CHECK(f.Get("/commands/ruok", With(&HttpRequest::method, "POST")).status == 405);
  CHECK(f.Get("/commands/ruok", With(&HttpRequest::method, "TRACE")).status == 403);
  HttpRequest request = With(&HttpRequest::method, "GET");
  request.target = "/commands/ruok";
  CHECK(f.admin.RespondWithMetrics(request).status == 404);
  request.target = "/metrics";
  CHECK(f.admin.RespondWithMetrics(request).status == 200);
}

TEST_CASE("the path of commands can be configured") {
  Config config = WithCluster();
  config.admin_command_url = "/zk/c";
  AdminFixture f(config);
  CHECK(f.Get("/zk/c/ruok").status == 200);
  CHECK(f.Get("/commands/ruok").status == 404);
}

TEST_CASE("commands that change or show more need an administrator") {
  AdminFixture f;
  HttpRequest remote;
  remote.caller.address = "10.0.0.9";
  for (const CommandInfo& command : Commands::All()) {
    const bool is_restricted = InfoOf(command.operation).requirement == Requirement::kAdministrator;
    if (command.run == nullptr) continue;
    INFO(command.name);
    const std::string path = "/commands/" + std::string(command.name);
    CHECK(f.Get(path, remote).status == (is_restricted ? 403 : 200));
    CHECK(f.Get(path).status == 200);
  }
}

TEST_CASE("a snapshot needs an administrator, as ZooKeeper's header shows one, and a leader") {
  Config config = WithCluster();
  config.super_digest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";
  AdminFixture f(config);
  const char* const path = "/commands/snapshot?streaming=false";
  for (const char* header : {"", "ip", "x509", "digest super:test1", "digest u:p"}) {
    INFO(header);
    CHECK(f.Get(path, WithCredentials(header)).status == 401);
  }
  for (const std::string& line : f.audit.Lines()) {
    CHECK(line.ends_with("operation=snapshot detail=protocol=http result=failure"));
  }
  // The cluster of the test has no checkpoint.
  const HttpResponse failed = f.Get(path, WithCredentials("digest super:test"));
  CHECK(failed.status == 500);
  CHECK(Json::parse(failed.body)["command"] == "snapshot");
  CHECK(f.audit.Lines() ==
        std::vector<std::string>{"user=digest:super ip=127.0.0.1 operation=snapshot "
                                 "detail=protocol=http result=failure"});
  // Its thread would not be that of streams.
  CHECK(f.Get("/commands/snap%73hot", WithCredentials("digest super:test")).status == 404);
  f.service.current.leader_known = false;
  const HttpResponse idle = f.Get("/commands/snap", WithCredentials("digest super:test"));
  CHECK(idle.status == 503);
  CHECK(Json::parse(idle.body)["error"] ==
        "This ZooKeeper instance is not currently serving requests");
  CHECK(f.audit.Lines().back() ==
        "user=digest:super ip=127.0.0.1 operation=snapshot detail=protocol=http result=failure");
}

TEST_CASE("without a configured administrator, nobody gets a snapshot") {
  AdminFixture f;
  for (const char* header : {"", "ip", "x509", "digest super:test"}) {
    INFO(header);
    const HttpResponse refused = f.Get("/commands/snapshot", WithCredentials(header));
    CHECK(refused.status == 403);
    const std::string error = Json::parse(refused.body)["error"];
    for (const char* key :
         {"administratorTokenFile", "administrator.subjects", "superUser", "superDigest"}) {
      CHECK(error.find(key) != std::string::npos);
    }
  }
  CHECK(f.audit.Lines().size() == 4);
  // What shows no data of znodes is for callers of the machine.
  CHECK(f.Get("/commands/crst").status == 200);
}

TEST_CASE("only a caller that may take a snapshot comes to the thread of streams") {
  Config config = WithCluster();
  config.super_digest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";
  AdminFixture f(config);
  HttpRequest request;
  request.method = "GET";
  request.target = "/commands/snapshot";
  request.host = "localhost";
  request.caller.address = "127.0.0.1";
  request.caller.origin = Principal::Origin::kLoopback;
  for (const char* header : {"", "ip", "digest super:test1"}) {
    request.authorization = header;
    const HttpResponse refused = f.admin.Respond(request);
    CHECK(refused.status == 401);
    CHECK_FALSE(refused.make_on_streams);
  }
  request.authorization = "digest super:test";
  CHECK(f.admin.Respond(request).make_on_streams);
}

TEST_CASE("a snapshot is sent only where nobody on the network can read it") {
  Config config = WithCluster();
  config.super_digest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";
  AdminFixture f(config);
  HttpRequest request = WithCredentials("digest super:test");
  request.is_passed_on = true;
  CHECK(f.Get("/commands/snapshot", request).status == 403);
  request.is_passed_on = false;
  request.caller.address = "10.0.0.9";
  const HttpResponse open = f.Get("/commands/snapshot", request);
  CHECK(open.status == 403);
  CHECK(Json::parse(open.body)["error"].get<std::string>().find("HTTPS") != std::string::npos);
  request.is_encrypted = true;
  // The cluster of the test has no checkpoint.
  CHECK(f.Get("/commands/snapshot", request).status == 500);
}

TEST_CASE("a restore is refused, with its reason for administrators only") {
  Config config = WithCluster();
  config.super_digest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";
  AdminFixture f(config);
  HttpRequest request;
  request.method = "POST";
  CHECK(f.Get("/commands/restore", request).status == 401);
  request.authorization = "digest super:test";
  request.has_large_body = true;
  for (const char* path : {"/commands/restore", "/commands/rest"}) {
    const HttpResponse response = f.Get(path, request);
    CHECK(response.status == 501);
    CHECK(Json::parse(response.body)["command"] == "restore");
  }
  CHECK(f.audit.Lines().back().ends_with("operation=restore detail=protocol=http result=failure"));
  CHECK(f.Get("/commands/restore", WithCredentials("digest super:test")).status == 405);
  request.method = "PUT";
  CHECK(f.Get("/commands/restore", request).status == 405);
}

TEST_CASE("with an administrator configured, a local caller is none") {
  Config config = WithCluster();
  config.super_digest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";
  AdminFixture f(config);
  const HttpResponse refused = f.Get("/commands/crst");
  CHECK(refused.status == 401);
  CHECK(Json::parse(refused.body)["command"] == "connection_stat_reset");
  // super:test, and another password
  CHECK(f.Get("/commands/crst", WithCredentials("Basic c3VwZXI6dGVzdA==")).status == 200);
  CHECK(f.Get("/commands/crst", WithCredentials("Basic c3VwZXI6dGVzdDE=")).status == 401);
  HttpRequest twice = WithCredentials("Basic c3VwZXI6dGVzdA==");
  twice.has_several_authorizations = true;
  CHECK(f.Get("/commands/crst", twice).status == 401);
}

TEST_CASE("a page of another site cannot use the rights of a local user") {
  AdminFixture f;
  CHECK(f.Get("/commands/crst", With(&HttpRequest::fetch_site, "cross-site")).status == 403);
  CHECK(f.Get("/commands/crst", With(&HttpRequest::fetch_site, "same-origin")).status == 200);
  // A name of another site that was made to lead to this machine.
  CHECK(f.Get("/commands/crst", With(&HttpRequest::host, "evil.example:8080")).status == 403);
  for (const char* host :
       {"127.0.0.1:8080", "[::1]:8080", "[::ffff:127.0.0.1]:8080", "LocalHost"}) {
    CHECK(f.Get("/commands/crst", With(&HttpRequest::host, host)).status == 200);
  }
}

TEST_CASE("a proxy of this machine does not give its clients the rights of a local user") {
  Config config = WithCluster();
  config.super_digest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";
  HttpRequest passed_on = WithCredentials("Basic c3VwZXI6dGVzdA==");  // super:test
  passed_on.is_passed_on = true;
  CHECK(AdminFixture(config).Get("/commands/crst", passed_on).status == 200);
  passed_on.authorization.clear();
  AdminFixture f;
  CHECK(f.Get("/commands/crst", passed_on).status == 403);
  CHECK(f.Get("/commands/ruok", passed_on).status == 200);
  for (const char* host : {"10.0.0.3:8080", "[fd00::3]:8080", "[::ffff:10.0.0.3]"}) {
    CHECK(f.Get("/commands/crst", With(&HttpRequest::host, host)).status == 403);
  }
}

TEST_CASE("browsers get the page of the console at /, with a strict policy, and others the paths") {
  AdminFixture f;
  const HttpResponse page = f.Get("/", With(&HttpRequest::accept, "text/html,*/*;q=0.8"));
  CHECK(page.content_type == "text/html; charset=utf-8");
  const std::map<std::string, std::string> headers(page.headers.begin(), page.headers.end());
  CHECK(headers.at("Content-Security-Policy").starts_with("default-src 'none'; script-src 'self'"));
  CHECK(headers.at("X-Frame-Options") == "DENY");
  // The policy forbids scripts and styles in the page.
  CHECK(page.body.find("<style") == std::string::npos);
  CHECK(page.body.find("style=") == std::string::npos);
  CHECK(f.Get("/", With(&HttpRequest::accept, "*/*")).body.starts_with("/commands\n"));
  CHECK(f.Get("/console/console.js").content_type == "text/javascript; charset=utf-8");
  CHECK(f.Get("/console/none.js").status == 404);
  CHECK(f.Get("/console/api/none").status == 404);
}

TEST_CASE("without the console there is no page and none of its requests") {
  Config config = WithCluster();
  config.admin_console = false;
  AdminFixture f(config);
  HttpRequest request;
  request.accept = "text/html,*/*";
  CHECK(f.Get("/", request).content_type == "text/plain; charset=utf-8");
  for (const char* path :
       {"/console/console.js", "/console/api/overview", "/console/api/node?path=/"}) {
    CHECK(f.Get(path).status == 404);
  }
  request.method = "POST";
  CHECK(f.Get("/console/api/create", request).status == 405);
}

TEST_CASE("the console refuses requests that another site may have sent") {
  AdminFixture f;
  const std::string path = "/console/api/node?path=/";
  CHECK(f.Get(path).status == 200);
  CHECK(f.Get(path, With(&HttpRequest::host, "10.0.0.3:8080")).status == 200);
  CHECK(f.Get(path, With(&HttpRequest::host, "evil.example:8080")).status == 403);
  // Any user and password is an identity, so credentials do not show who asks.
  HttpRequest rebound = WithCredentials("Basic dTpw");  // u:p
  rebound.host = "evil.example:8080";
  CHECK(f.Get(path, rebound).status == 403);
  rebound.is_encrypted = true;  // the browser has compared the name with the certificate
  CHECK(f.Get(path, rebound).status == 200);
  CHECK(f.Get("/%63onsole/api/node?path=/").status == 404);
  CHECK(f.Get(path, With(&HttpRequest::fetch_site, "cross-site")).status == 403);
  CHECK(f.Get(path, With(&HttpRequest::origin, "http://evil.example")).status == 403);
  CHECK(f.Get(path, With(&HttpRequest::origin, "http://localhost:8080")).status == 200);
}

TEST_CASE("the console takes credentials only over TLS or from this machine") {
  AdminFixture f;
  HttpRequest request = WithCredentials("Basic dTpw");  // u:p
  CHECK(f.Get("/console/api/overview", request).body.find("\"digest:u\"") != std::string::npos);
  request.caller.address = "10.0.0.9";
  CHECK(f.Get("/console/api/overview", request).status == 403);
  request.is_encrypted = true;
  CHECK(f.Get("/console/api/overview", request).status == 200);
  CHECK(f.Get("/console/api/overview", WithCredentials("Basic !")).status == 401);
}

TEST_CASE("the console shows the tree only over TLS or on this machine") {
  AdminFixture f;
  const std::string path = "/console/api/node?path=/";
  HttpRequest remote = With(&HttpRequest::host, "10.0.0.3:8080");
  remote.caller.address = "10.0.0.9";
  CHECK(f.Get(path, remote).status == 403);
  CHECK(f.Get("/console/api/overview", remote).status == 200);
  remote.is_encrypted = true;
  CHECK(f.Get(path, remote).status == 200);
  HttpRequest passed_on;  // by a proxy of this machine, which may have got it without TLS
  passed_on.is_passed_on = true;
  CHECK(f.Get(path, passed_on).status == 403);
}

TEST_CASE("the console shows the tree without a certificate only if clients need none") {
  const std::string path = "/console/api/node?path=/";
  HttpRequest remote;
  remote.caller.address = "10.0.0.9";
  remote.is_encrypted = true;
  Config config = WithCluster();
  config.client_port = 0;
  config.secure_client_port = 2182;
  config.ssl_client_auth = "need";
  CHECK(AdminFixture(config).Get(path, remote).status == 403);
  remote.caller.subject = "CN=a client";
  CHECK(AdminFixture(config).Get(path, remote).status == 200);
  remote.caller.subject.clear();
  config.ssl_client_auth = "want";
  CHECK(AdminFixture(config).Get(path, remote).status == 200);
}

TEST_CASE("who changes znodes by the console is what admin.console.changes says") {
  Config config = WithCluster();
  config.super_digest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";
  const auto from_afar = [](HttpRequest request) {
    request.caller.address = "10.0.0.9";
    request.is_encrypted = true;
    return request;
  };
  HttpRequest certified;
  certified.caller.subject = "CN=ann";
  HttpRequest proxy = certified;  // which has a certificate, and passes on what anyone sends
  proxy.is_passed_on = true;
  HttpRequest proxied_user = WithCredentials("Basic dTpw");
  proxied_user.is_passed_on = proxied_user.is_encrypted = true;
  const HttpRequest user = WithCredentials("Basic dTpw");               // u:p
  const HttpRequest super = WithCredentials("Basic c3VwZXI6dGVzdA==");  // super:test
  struct Case {
    HttpRequest request;
    std::set<std::string> allowed;
  };
  const std::vector<Case> cases = {
      {{}, {}},
      {from_afar({}), {}},
      {user, {"proven", "users"}},
      {from_afar(user), {"users"}},
      {proxied_user, {"users"}},
      {from_afar(certified), {"proven", "users"}},
      {from_afar(proxy), {}},
      {super, {"administrators", "proven", "users"}},
      {from_afar(super), {"administrators", "proven", "users"}},
  };
  CHECK(config.admin_console_changes == "proven");
  for (const char* who : {"none", "administrators", "proven", "users"}) {
    config.admin_console_changes = who;
    AdminFixture f(config);
    for (const Case& one : cases) {
      INFO(who << " " << &one - cases.data());
      const Json shown = Json::parse(f.Get("/console/api/overview", one.request).body);
      CHECK(shown["may_change_tree"] == one.allowed.contains(who));
      if (one.allowed.contains(who)) continue;
      CHECK(f.Change("create", R"({"path":"/a","data":"","acl":"world"})", one.request).status ==
            403);
      CHECK(f.service.batches.empty());
    }
    const bool leads = f.Change("transfer-leadership", R"({"member":0})", super).status == 200;
    CHECK(leads == (std::string(who) != "none"));
  }
}

TEST_CASE(
    "a change has the name of what gave the right in the audit log, and wrong credentials too") {
  Config config = WithCluster();
  config.super_digest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";
  config.administrator_subjects = {"CN=admin"};
  AdminFixture f(config);
  const std::string body = R"({"member":0})";
  HttpRequest request = WithCredentials("Basic c3VwZXI6dGVzdA==");  // super:test
  request.is_encrypted = true;
  request.caller.address = "10.0.0.9";
  const auto line = [](const std::string& user, const std::string& rest) {
    return std::vector<std::string>{(user.empty() ? "" : "user=" + user + " ") + "ip=10.0.0.9 " +
                                    rest};
  };
  const std::string done = "operation=transferLeadership detail=protocol=http result=success";
  request.caller.subject = "CN=bob";
  CHECK(f.Change("transfer-leadership", body, request).status == 200);
  CHECK(f.audit.Lines() == line("digest:super", done));
  request.caller.subject = "CN=admin";
  CHECK(f.Change("transfer-leadership", body, request).status == 200);
  CHECK(f.audit.Lines() == line("x509:CN=admin", done));
  request.caller.subject.clear();
  // A wrong password of the super user makes another user, who is not refused.
  const std::vector<std::pair<std::string, unsigned>> wrong = {
      {"Basic c3VwZXI6d3Jvbmc=", 200}, {"Bearer wrong-wrong-wrong-wrong", 401}};
  for (const auto& [authorization, status] : wrong) {
    request.authorization = authorization;
    CHECK(f.Get("/console/api/overview", request).status == status);
    CHECK(f.audit.Lines() == line("",
                                  "operation=authenticate detail=authorization protocol=http "
                                  "result=failure"));
  }
  // Credentials of a user of the scheme digest are never wrong.
  request.authorization = "Basic dTpw";
  CHECK(f.Get("/console/api/overview", request).status == 200);
  CHECK(f.audit.Lines().empty());
}

TEST_CASE(
    "a change whose path has escapes is none, because its thread is chosen by what was sent") {
  AdminFixture f;
  const std::string body = R"({"member":0})";
  CHECK(f.Change("transfer-leadership", body).status == 200);
  CHECK(f.Change("transfer-leadershi%70", body).status == 404);
  CHECK(Console::IsChange("/console/api/create?a#b"));
  CHECK_FALSE(Console::IsChange("/console/api/creat%65"));
  CHECK_FALSE(Console::IsChange("/console/api/overview"));
  CHECK_FALSE(Console::IsChange("/console/x"));
}

TEST_CASE("the console shows addresses of members to administrators only") {
  AdminFixture f;
  ClusterView::Member& member = f.cluster.view.members.emplace_back();
  member.id = MemberId(1);
  member.addresses = f.config.servers.at(1);
  member.problem = "connection refused";
  f.cluster.view.self = MemberId(3);
  CHECK(f.Get("/console/api/overview").body.find("10.0.0.1:2888") != std::string::npos);
  HttpRequest remote;
  remote.caller.address = "10.0.0.9";
  remote.host = "10.0.0.3:8080";
  const std::string shown = f.Get("/console/api/overview", remote).body;
  CHECK(shown.find("member 1 cannot be reached") != std::string::npos);
  CHECK(shown.find("10.0.0.1") == std::string::npos);
  CHECK(shown.find("connection refused") == std::string::npos);
}

TEST_CASE("the console shows slow requests to administrators only") {
  AdminFixture f;
  AddSlowRequests(&f.service.slow_requests());
  CHECK(Json::parse(f.Get("/console/api/slow").body)["requests"].size() == 2);
  HttpRequest remote;
  remote.caller.address = "10.0.0.9";
  remote.host = "10.0.0.3:8080";
  const HttpResponse refused = f.Get("/console/api/slow", remote);
  CHECK(refused.status == 403);
  CHECK(refused.body.find("10.0.0.9") == std::string::npos);
}

TEST_CASE("the console says what is wrong with a request for the tree") {
  AdminFixture f;
  CHECK(f.Get("/console/api/node?path=/none").status == 404);
  CHECK(f.Get("/console/api/node?path=none").status == 400);
  CHECK(f.Get("/console/api/children?path=/&limit=0").status == 400);
  CHECK(f.Get("/console/api/children?path=/&limit=501").status == 400);
  const Json page = Json::parse(f.Get("/console/api/children?path=/zookeeper&limit=1").body);
  CHECK(page["children"][0]["name"] == "config");
  CHECK(page["next"] == "config");
  f.service.current.leader_known = false;
  CHECK(f.Get("/console/api/node?path=/").status == 503);
}

}  // namespace
}  // namespace quorate::rpc::admin
