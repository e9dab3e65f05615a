// SPDX-License-Identifier: Apache-2.0

#include "rpc/quorated/log_json.h"

#include <spdlog/details/log_msg.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <cctype>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/config/log_warnings.h"

namespace quorate::rpc {
namespace {

using nlohmann::json;

std::string Line(std::string_view text, spdlog::level::level_enum level = spdlog::level::info) {
  const spdlog::log_clock::time_point time(std::chrono::milliseconds(1'700'000'000'123));
  const spdlog::details::log_msg message(time, spdlog::source_loc(), "", level,
                                         {text.data(), text.size()});
  spdlog::memory_buf_t line;
  JsonFormatter().format(message, line);
  return {line.data(), line.size()};
}

// Returns the text of an event with `value` for all that it fills in.
std::string Filled(std::string_view text, std::string_view value) {
  std::string filled;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '{') {
      filled += text[i];
      continue;
    }
    filled += value;
    i = text.find('}', i);
  }
  return filled;
}

TEST_CASE("a line is one object, with the name of its event and what it fills in") {
  const std::string line = Line("listening for gRPC clients address=127.0.0.1:9 tls=true");
  CHECK(line ==
        "{\"time\":\"2023-11-14T22:13:20.123Z\",\"level\":\"info\",\"event\":\"listening_grpc\","
        "\"message\":\"listening for gRPC clients address=127.0.0.1:9 tls=true\","
        "\"fields\":{\"address\":\"127.0.0.1:9\",\"tls\":\"true\"}}\n");
  const json moved = json::parse(Line("the stream of the backup of zxid 0x1f broke"));
  CHECK(moved["event"] == "backup_stream_broken");
  CHECK(moved["fields"] == json({{"1", "0x1f"}}));
  const json opened = json::parse(Line("session opened session=0x1f timeout_ms=10000"));
  CHECK(opened["fields"] == json({{"session", "0x1f"}, {"timeout_ms", "10000"}}));
  const json failed =
      json::parse(Line("SASL authentication failed address=h:1 session=0x0: not 0x2"));
  CHECK(failed["fields"] == json({{"address", "h:1"}, {"session", "0x0"}, {"1", "not 0x2"}}));
  CHECK_FALSE(json::parse(Line("stopped")).contains("fields"));
  CHECK(json::parse(Line("stopped"))["event"] == "stopped");
}

TEST_CASE("levels have the names of docs/messages.md") {
  CHECK(json::parse(Line("x", spdlog::level::warn))["level"] == "warning");
  CHECK(json::parse(Line("x", spdlog::level::err))["level"] == "error");
  const json fatal = json::parse(Line("/etc/zoo.cfg:3: no", spdlog::level::critical));
  CHECK(fatal["level"] == "critical");
  CHECK(fatal["event"] == "start_failed");
  CHECK(json::parse(Line("zoo.cfg:3: foo: no effect", spdlog::level::warn))["event"] == "other");
  CHECK(json::parse(Line("something"))["event"] == "other");
}

TEST_CASE(
    "warnings about the files of the configuration have the event that they are logged with") {
  std::ostringstream lines;
  const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(lines);
  sink->set_formatter(std::make_unique<JsonFormatter>());
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("", sink));
  LogWarnings(kConfigurationWarning,
              std::vector<std::string>{"zoo.cfg:3: foo: no effect", "stopped"});
  LogWarnings(kJaasWarning, std::vector<std::string>{"jaas.conf: {}"});
  spdlog::set_default_logger(before);
  std::istringstream in(lines.str());
  std::vector<std::string> found;
  for (std::string line; std::getline(in, line);) {
    const json parsed = json::parse(line);
    CHECK(parsed["level"] == "warning");
    found.push_back(parsed["event"].get<std::string>() + "|" +
                    parsed["message"].get<std::string>());
  }
  CHECK(found == std::vector<std::string>{"configuration_warning|zoo.cfg:3: foo: no effect",
                                          "configuration_warning|stopped",
                                          "jaas_warning|jaas.conf: {}"});
}

TEST_CASE("a very long message keeps its event, and is cut with its fields") {
  const std::string path = "/" + std::string(20'000, 'x');
  const std::string text = "closing the connection of " + path + ", session 0x1: " + path;
  const json parsed = json::parse(Line(text));
  CHECK(parsed["event"] == "connection_closed");
  CHECK(parsed["message"] ==
        text.substr(0, 16'384) + "...(" + std::to_string(text.size()) + " bytes)");
  CHECK(parsed["fields"]["1"] == path.substr(0, 16'384) + "...(20001 bytes)");
  CHECK(parsed["fields"]["2"].get<std::string>().size() <= 16);
  CHECK(parsed["fields"]["3"] == "...(20001 bytes)");
}

TEST_CASE("every event is recognized, whatever it fills in") {
  std::set<std::string_view> names;
  for (const LogEvent& event : LogEvents()) {
    CHECK(names.insert(event.name).second);
    for (const char c : event.name) CHECK((c == '_' || std::islower(c) != 0));
    for (const std::string_view value : {"1", "a b: c", "\"x\" \\ {}"}) {
      const std::string message = Filled(event.text, value);
      INFO(message);
      const MatchedEvent matched = MatchEvent(message);
      REQUIRE(matched.event != nullptr);
      CHECK(matched.event->name == event.name);
      CHECK(json::parse(Line(message))["message"] == message);
    }
  }
}

TEST_CASE("hostile names change neither the form of a line nor its event") {
  const std::string hostile =
      "\"},{\"level\":\"critical\"\n\x1b[2J\x80\\ connected to server 1 at \xe2\x80\xa8";
  const std::string line = Line("closing the connection of " + hostile + ", session 0x1: gone");
  CHECK(line.find('\n') == line.size() - 1);
  const json parsed = json::parse(line);
  CHECK(parsed.size() == 5);
  CHECK(parsed["level"] == "info");
  CHECK(parsed["event"] == "connection_closed");
  CHECK(parsed["fields"]["2"] == "0x1");
  CHECK(parsed["fields"]["3"] == "gone");
  CHECK(line.find('\x1b') == std::string::npos);
}

}  // namespace
}  // namespace quorate::rpc
