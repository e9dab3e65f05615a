// SPDX-License-Identifier: Apache-2.0

#include "rpc/audit/audit_log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/manual_clock.h"
#include "rpc/member/testing/captured_log.h"

namespace quorate::rpc {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

class Directory {
 public:
  Directory() {
    std::string name = std::string(std::getenv("TEST_TMPDIR")) + "/audit.XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name = "audit.log") const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string ContentOf(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<std::string> LinesOf(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream in(ContentOf(path));
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Returns the lines without the time.
std::vector<std::string> TimelessLinesOf(const std::string& path) {
  std::vector<std::string> lines = LinesOf(path);
  for (std::string& line : lines) line = line.size() > 24 ? line.substr(24) : line;
  return lines;
}

std::string Fields(const AuditEvent& event) {
  std::string fields;
  AppendAuditFields(event, &fields);
  return fields;
}

std::unique_ptr<AuditLog> OpenLog(const AuditLog::Options& options) {
  auto log = AuditLog::Open(options, Clock::System());
  REQUIRE(log.ok());
  return *std::move(log);
}

AuditEvent Numbered(const std::string& path) {
  return {.operation = "create", .znode = path, .znode_type = "persistent"};
}

TEST_CASE("a line has ZooKeeper's fields in ZooKeeper's order") {
  CHECK(Fields({.session = 0x10000df5ee70000,
                .user = "bob,127.0.0.1",
                .ip = "127.0.0.1",
                .operation = "create",
                .znode = "/a",
                .znode_type = "persistent"}) ==
        "session=0x10000df5ee70000\tuser=bob,127.0.0.1\tip=127.0.0.1\toperation=create\tznode=/a\t"
        "znode_type=persistent\tresult=success\n");
  CHECK(
      Fields({.operation = "setAcl", .znode = "/a", .acl = "", .result = AuditResult::kFailure}) ==
      "operation=setAcl\tznode=/a\tacl=\tresult=failure\n");
  CHECK(Fields({.user = "zookeeper", .operation = "serverStop", .result = AuditResult::kInvoked}) ==
        "user=zookeeper\toperation=serverStop\tresult=invoked\n");
  CHECK(Fields({.session = -1, .operation = "x"}) ==
        "session=0xffffffffffffffff\toperation=x\tresult=success\n");
}

TEST_CASE("no value can end a field or a line") {
  const std::string hostile = "/a\tresult=success\n2026-01-01 00:00:00,000 INFO x\x1b[2J\xff";
  const std::string fields = Fields({.user = hostile,
                                     .ip = hostile,
                                     .operation = "create",
                                     .znode = hostile,
                                     .znode_type = hostile,
                                     .acl = hostile,
                                     .detail = hostile,
                                     .result = AuditResult::kFailure});
  CHECK(std::count(fields.begin(), fields.end(), '\t') == 7);
  CHECK(std::count(fields.begin(), fields.end(), '\n') == 1);
  CHECK(fields.find('\x1b') == std::string::npos);
  CHECK(fields.find('\xff') == std::string::npos);
  CHECK(fields.find("znode=/a\\tresult=success\\n2026") != std::string::npos);
}

TEST_CASE("of a value that is too long the beginning is recorded") {
  const std::string fields =
      Fields({.operation = "create", .znode = "/" + std::string(1 << 20, '\n')});
  CHECK(fields.size() < 3 * kAuditPathBytesMax);
  CHECK(fields.find("\\n...(1048577 bytes)\tresult") != std::string::npos);
}

TEST_CASE("a line begins with the time and the name of ZooKeeper's logger") {
  Directory directory;
  ManualClock clock;
  {
    auto log = AuditLog::Open({.path = directory.file(), .server_user = "quorate"}, &clock);
    REQUIRE(log.ok());
    (*log)->Record({.operation = "serverStart"});
    (*log)->Record({.operation = "delete", .znode = "/", .result = AuditResult::kFailure});
  }
  const int64_t ms = clock.WallMs();
  const auto second = static_cast<time_t>(ms / 1000);
  tm parts{};
  localtime_r(&second, &parts);
  char time[64];
  const size_t size = std::strftime(time, sizeof(time), "%Y-%m-%d %H:%M:%S", &parts);
  std::snprintf(time + size, sizeof(time) - size, ",%03d", static_cast<int>(ms % 1000));
  const std::string begin(time);
  CHECK(LinesOf(directory.file()) ==
        std::vector<std::string>{
            begin + " INFO audit.Slf4jAuditLogger: operation=serverStart\tresult=success",
            begin + " ERROR audit.Slf4jAuditLogger: operation=delete\tznode=/\tresult=failure"});
}

TEST_CASE("the file can be read by its owner only, and is continued") {
  Directory directory;
  const mode_t mask = umask(0);
  OpenLog({.path = directory.file(), .server_user = "quorate"})->Record(Numbered("/1"));
  umask(mask);
  struct stat found {};
  REQUIRE(stat(directory.file().c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0600);
  OpenLog({.path = directory.file(), .server_user = "quorate"})->Record(Numbered("/2"));
  CHECK(LinesOf(directory.file()).size() == 2);
}

TEST_CASE("a part of a line that a crash has left is ended before the next line") {
  Directory directory;
  std::ofstream(directory.file()) << "whole\n2026-01-01 00:00:00,000 INFO audit.Slf4jAu";
  OpenLog({.path = directory.file(), .server_user = "quorate"})->Record(Numbered("/1"));
  const std::vector<std::string> lines = LinesOf(directory.file());
  REQUIRE(lines.size() == 3);
  CHECK(lines[1] == "2026-01-01 00:00:00,000 INFO audit.Slf4jAu");
  CHECK(lines[2].ends_with("znode=/1\tznode_type=persistent\tresult=success"));
}

TEST_CASE("files are renamed before they are too large, and the oldest one is removed") {
  Directory directory;
  constexpr size_t kBytesMax = 1000;
  {
    const auto log = OpenLog({.path = directory.file(),
                              .file_bytes_max = kBytesMax,
                              .files_max = 3,
                              .server_user = "quorate"});
    for (int i = 0; i < 100; ++i) {
      log->Record(Numbered("/" + std::to_string(i)));
      if (i % 7 == 0) CHECK(log->Flush(kPatience));  // writes of several sizes
    }
  }
  int next = 100;
  for (const char* name : {"audit.log", "audit.log.1", "audit.log.2", "audit.log.3"}) {
    const std::vector<std::string> lines = LinesOf(directory.file(name));
    INFO(name);
    CHECK(ContentOf(directory.file(name)).size() <= kBytesMax);
    REQUIRE_FALSE(lines.empty());
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
      --next;
      CHECK(line->find("znode=/" + std::to_string(next) + "\t") != std::string::npos);
    }
    struct stat found {};
    REQUIRE(stat(directory.file(name).c_str(), &found) == 0);
    CHECK((found.st_mode & 0077) == 0);
  }
  CHECK_FALSE(std::filesystem::exists(directory.file("audit.log.4")));
  CHECK_FALSE(std::filesystem::exists(directory.file("audit.log.new")));
}

TEST_CASE("a line that is longer than a file gets a file of its own") {
  Directory directory;
  {
    const auto log = OpenLog({.path = directory.file(),
                              .file_bytes_max = 100,
                              .files_max = 5,
                              .server_user = "quorate"});
    log->Record(Numbered("/1"));
    log->Record(Numbered("/" + std::string(300, 'x')));
    log->Record(Numbered("/2"));
  }
  CHECK(LinesOf(directory.file()).size() == 1);
  CHECK(LinesOf(directory.file("audit.log.1")).size() == 1);
  CHECK(LinesOf(directory.file("audit.log.2")).size() == 1);
}

TEST_CASE("a file that cannot be renamed grows, and the server's log says so") {
  Directory directory;
  std::filesystem::create_directory(directory.file("audit.log.1"));
  std::ofstream(directory.file("audit.log.1") + "/in the way");
  CapturedLog captured;
  {
    const auto log = OpenLog({.path = directory.file(),
                              .file_bytes_max = 200,
                              .files_max = 1,
                              .server_user = "quorate"});
    for (int i = 0; i < 10; ++i) log->Record(Numbered("/" + std::to_string(i)));
  }
  CHECK(LinesOf(directory.file()).size() == 10);
  CHECK_FALSE(std::filesystem::exists(directory.file("audit.log.new")));
  CHECK(captured.Lines("the audit log grows beyond auditFileBytes: cannot rename").size() == 1);
}

TEST_CASE("a file that another program has moved away is made again when that is requested") {
  Directory directory;
  const auto log = OpenLog({.path = directory.file(), .server_user = "quorate"});
  log->Record(Numbered("/1"));
  REQUIRE(log->Flush(kPatience));
  std::filesystem::rename(directory.file(), directory.file("moved"));
  log->Record(Numbered("/2"));
  REQUIRE(log->Flush(kPatience));
  log->Reopen();
  log->Record(Numbered("/3"));
  REQUIRE(log->Flush(kPatience));
  CHECK(LinesOf(directory.file("moved")).size() >= 2);
  CHECK(LinesOf(directory.file("moved")).size() + LinesOf(directory.file()).size() == 3);
  log->Record(Numbered("/4"));
  REQUIRE(log->Flush(kPatience));
  CHECK_FALSE(LinesOf(directory.file()).empty());
}

TEST_CASE("a file that cannot be opened is an error with its name") {
  const auto log = AuditLog::Open(
      {.path = "/no/such/directory/audit.log", .server_user = "quorate"}, Clock::System());
  REQUIRE_FALSE(log.ok());
  CHECK(log.status().message() ==
        "cannot open the audit log /no/such/directory/audit.log: No such file or directory");
}

TEST_CASE("two servers do not write the same file, also after it was renamed") {
  Directory directory;
  const auto log = OpenLog({.path = directory.file(), .file_bytes_max = 200, .server_user = "q"});
  for (int i = 0; i < 2; ++i) {
    const auto other =
        AuditLog::Open({.path = directory.file(), .server_user = "q"}, Clock::System());
    REQUIRE_FALSE(other.ok());
    CHECK(other.status().message() ==
          "the audit log " + directory.file() + " is in use by another server");
    for (int line = 0; line < 10; ++line) log->Record(Numbered("/"));
    REQUIRE(log->Flush(kPatience));
    REQUIRE(std::filesystem::exists(directory.file("audit.log.1")));
  }
}

TEST_CASE("with failures only, what succeeded is not recorded") {
  Directory directory;
  {
    const auto log =
        OpenLog({.path = directory.file(), .failures_only = true, .server_user = "quorate"});
    log->Record(Numbered("/1"));
    log->Record({.operation = "delete", .znode = "/2", .result = AuditResult::kFailure});
  }
  REQUIRE(LinesOf(directory.file()).size() == 1);
  CHECK(LinesOf(directory.file())[0].find("/2") != std::string::npos);
}

// Lets writes to files fail beyond a size, as on a full disk, while the object exists.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit limit{bytes, before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_CASE("lines wait while the disk is full, and none is lost or torn") {
  Directory directory;
  CapturedLog captured;
  {
    std::unique_ptr<AuditLog> log;
    {
      const FileSizeLimit limit(250);  // ends in the middle of a line
      log = OpenLog({.path = directory.file(), .server_user = "quorate"});
      for (int i = 0; i < 20; ++i) log->Record(Numbered("/" + std::to_string(i)));
      CHECK_FALSE(log->Flush(std::chrono::milliseconds(300)));
      CHECK(std::filesystem::file_size(directory.file()) == 250);
    }
    REQUIRE(log->Flush(kPatience));
    CHECK(log->lost() == 0);
  }
  const std::vector<std::string> lines = TimelessLinesOf(directory.file());
  REQUIRE(lines.size() == 20);
  for (int i = 0; i < 20; ++i) {
    CHECK(lines[static_cast<size_t>(i)] ==
          "INFO audit.Slf4jAuditLogger: operation=create\tznode=/" + std::to_string(i) +
              "\tznode_type=persistent\tresult=success");
  }
  CHECK(captured.Lines("cannot write the audit log " + directory.file() + ": File too large")
            .size() == 1);
  CHECK(captured.Lines("the audit log is written again").size() == 1);
}

TEST_CASE("lines that find no space in memory either are counted, in their place") {
  Directory directory;
  CapturedLog captured;
  {
    std::unique_ptr<AuditLog> log;
    {
      const FileSizeLimit limit(0);
      log = OpenLog({.path = directory.file(), .queue_bytes_max = 4000, .server_user = "quorate"});
      for (int i = 0; i < 1000; ++i) log->Record(Numbered("/" + std::to_string(i)));
      CHECK(log->lost() > 900);
    }
    REQUIRE(log->Flush(kPatience));
    log->Record(Numbered("/after"));
  }
  const std::vector<std::string> lines = TimelessLinesOf(directory.file());
  REQUIRE(lines.size() > 3);
  CHECK(lines.back().find("znode=/after") != std::string::npos);
  const std::string& gap = lines[lines.size() - 2];
  const std::string expected =
      "ERROR audit.Slf4jAuditLogger: user=quorate\toperation=auditLinesLost\tdetail=" +
      std::to_string(1000 - (lines.size() - 2)) + " lines\tresult=failure";
  CHECK(gap == expected);
  CHECK(captured.Lines("lines of the audit log are lost path=" + directory.file()).size() == 1);
}

TEST_CASE("a stop does not wait forever for a full disk, and says what is lost") {
  Directory directory;
  CapturedLog captured;
  {
    const FileSizeLimit limit(0);
    const auto log = OpenLog({.path = directory.file(), .server_user = "quorate"});
    log->Record(Numbered("/1"));
  }
  CHECK(captured.Lines("the last lines of the audit log are lost").size() == 1);
}

TEST_CASE("many threads record at the same time") {
  Directory directory;
  {
    const auto log =
        OpenLog({.path = directory.file(), .file_bytes_max = 1u << 30, .server_user = "quorate"});
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&log, thread] {
        for (int i = 0; i < 5000; ++i) {
          log->Record(Numbered("/" + std::to_string(thread) + "/" + std::to_string(i)));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::vector<int> next(4);
  for (const std::string& line : TimelessLinesOf(directory.file())) {
    const size_t at = line.find("znode=/") + 7;
    const auto thread = static_cast<size_t>(line[at] - '0');
    CHECK(std::stoi(line.substr(at + 2)) == next.at(thread)++);
  }
  CHECK(next == std::vector<int>(4, 5000));
}

}  // namespace
}  // namespace quorate::rpc
