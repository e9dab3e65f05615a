// SPDX-License-Identifier: Apache-2.0

#include "rpc/membership/member_files.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "base/strings.h"

namespace quorate::rpc {
namespace {

ServerLine Line(const char* text) {
  auto line = ParseServerLine(text);
  REQUIRE(line.ok());
  return *line;
}

// A directory with a zoo.cfg of member 1 and its data directory.
class Directory {
 public:
  explicit Directory(const std::string& lines) {
    const char* temporary = std::getenv("TEST_TMPDIR");
    REQUIRE(temporary != nullptr);
    std::string name = std::string(temporary) + "/member_files_XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
    std::filesystem::create_directory(path_ / "data");
    Write("data/myid", "1\n");
    Write("zoo.cfg", "dataDir=" + (path_ / "data").string() + "\n" + lines);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory() { std::filesystem::remove_all(path_); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
  }
  std::string Read(const std::string& name) const {
    std::ifstream from(path_ / name);
    std::ostringstream text;
    text << from.rdbuf();
    return text.str();
  }
  bool Has(const std::string& name) const { return std::filesystem::exists(path_ / name); }
  std::string Path(const std::string& name) const { return (path_ / name).string(); }
  Config Load() const {
    auto config = LoadConfig(Path("zoo.cfg"));
    INFO(config.status().message());
    REQUIRE(config.ok());
    return *std::move(config);
  }

 private:
  std::filesystem::path path_;
};

constexpr char kLines[] =
    "# stays\nclientPort=2181\nreconfigEnabled=true\nserver.1=127.0.0.1:1:2\n"
    "server.2=127.0.0.2:1:2\nserver.3=127.0.0.3:1:2\n";

ServerLines ThreeAndFour() {
  return {{1, Line("127.0.0.1:1:2:participant;2181")},
          {2, Line("127.0.0.2:1:2:participant;2181")},
          {3, Line("127.0.0.3:1:2:observer;2181")},
          {14, Line("127.0.0.4:1:2:participant;2181")}};
}

TEST_CASE("the members are read from the text of /zookeeper/config") {
  const std::string text = FormatMembers(ThreeAndFour(), "1a");
  CHECK(MembersOfText(text).size() == 4);
  CHECK(FormatMembers(MembersOfText(text), "1a") == text);
  CHECK(MembersOfText("").empty());
  CHECK(MembersOfText("server.=a:1:2\nserver.x=a:1:2\nserver.1=a\nother=1\nversion=0").empty());
}

TEST_CASE("a dynamic file has sorted lines, no version and no newline at the end") {
  CHECK(DynamicFileText(ThreeAndFour()) ==
        "server.14=127.0.0.4:1:2:participant;0.0.0.0:2181\n"
        "server.1=127.0.0.1:1:2:participant;0.0.0.0:2181\n"
        "server.2=127.0.0.2:1:2:participant;0.0.0.0:2181\n"
        "server.3=127.0.0.3:1:2:observer;0.0.0.0:2181");
}

TEST_CASE("a static file loses what the dynamic file has, and keeps all other lines") {
  const std::string text =
      "# server.1 is a comment\ndataDir=/d\nclientPort=2181\nserver.1=a:1:2\nserver.2 : b:1:\\\n  "
      "2\n"
      "group.1=1:2\nweight.1=1\npeerType=observer\ndynamicConfigFile=/old\ntickTime=2000";
  CHECK(StaticFileText(text, "/new", ClientKeys::kMove) ==
        "# server.1 is a comment\ndataDir=/d\ntickTime=2000\ndynamicConfigFile=/new\n");
  CHECK(StaticFileText(text, "/new", ClientKeys::kStay) ==
        "# server.1 is a comment\ndataDir=/d\nclientPort=2181\ntickTime=2000\n"
        "dynamicConfigFile=/new\n");
}

TEST_CASE("a server listens after a restart where it listens now") {
  Config config;
  config.my_id = 1;
  config.client_port = 2181;
  config.client_address = "10.0.0.1";
  config.servers = {{1, Line("0.0.0.0:1:2")}};
  // Others reach it at an address where it cannot listen.
  const ServerLine line = OwnLine(config, Line("host.example:7:8:observer;203.0.113.4:2184"));
  CHECK(line.host == "0.0.0.0");
  CHECK(line.peer_port == 1);
  CHECK(line.election_port == 2);
  CHECK(line.client_host == "10.0.0.1");
  CHECK(line.client_port == 2181);
  CHECK(line.observer);
  // A clientPort that no line has stays where it is.
  CHECK(OwnLine(config, Line("a.example:1:2:participant")).client_port == 0);
  config.servers.at(1).client_port = 2181;
  CHECK(OwnLine(config, Line("a.example:1:2:participant")).client_port == 2181);
  config.client_port = 0;  // the port in the log is that with TLS
  CHECK(OwnLine(config, Line("a.example:1:2:participant;2182")).client_port == 0);
}

TEST_CASE("clients of IPv4 alone stay so, and a port of all addresses takes IPv6 too") {
  const char* const address = GENERATE("", "0.0.0.0");
  const Directory directory(std::string(kLines) +
                            (*address == 0 ? "" : "clientPortAddress=0.0.0.0\n"));
  MemberFiles files(directory.Load(), consensus::Env::Posix());
  REQUIRE(files.Update(ThreeAndFour(), 1).ok());
  CHECK(directory.Load().client_address == address);
}

TEST_CASE("what was changed by hand since the last change of the members stays") {
  const Directory directory(kLines);
  consensus::Env* const env = consensus::Env::Posix();
  REQUIRE(MemberFiles(directory.Load(), env).Update(ThreeAndFour(), 1).ok());
  std::string text = directory.Read("zoo.cfg.dynamic.1");
  const std::string::size_type port = text.find(";0.0.0.0:2181\nserver.2");
  REQUIRE(port != std::string::npos);
  text.replace(port, 13, ";0.0.0.0:2199");
  directory.Write("zoo.cfg.dynamic.1", text);
  directory.Write("zoo.cfg", directory.Read("zoo.cfg") + "tickTime=1000\n");
  REQUIRE(MemberFiles(directory.Load(), env).Update(ThreeAndFour(), 1).ok());
  CHECK(directory.Read("zoo.cfg.dynamic.1") == text);
  CHECK(directory.Load().client_port == 2199);
  // The next version has the port, too.
  REQUIRE(MemberFiles(directory.Load(), env).Update(ThreeAndFour(), 2).ok());
  CHECK(directory.Load().client_port == 2199);
}

TEST_CASE("files follow the members, and the server starts with them") {
  const Directory directory(kLines);
  const std::string before = directory.Read("zoo.cfg");
  REQUIRE(::chmod(directory.Path("zoo.cfg").c_str(), 0640) == 0);
  consensus::Env* const env = consensus::Env::Posix();
  const Config config = directory.Load();
  REQUIRE(MemberFiles::IsConfigured(config));
  MemberFiles files(config, env);
  REQUIRE(files.Update(ThreeAndFour(), 0x1a).ok());
  CHECK(directory.Read("zoo.cfg.dynamic.1a").find("server.14=127.0.0.4:1:2") != std::string::npos);
  const std::string after = directory.Read("zoo.cfg");
  CHECK(after.starts_with("dataDir="));
  CHECK(after.find("# stays\n") != std::string::npos);
  CHECK(after.find("server.") == std::string::npos);
  CHECK(after.ends_with(
      "dynamicConfigFile=" + std::filesystem::canonical(directory.Path("zoo.cfg")).string() +
      ".dynamic.1a\n"));
  CHECK(directory.Read("zoo.cfg.bak") == before);
  CHECK_FALSE(directory.Has("zoo.cfg.1.tmp"));
  CHECK_FALSE(directory.Has("zoo.cfg.dynamic.1.tmp"));
  struct stat info {};
  REQUIRE(::stat(directory.Path("zoo.cfg").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0640);
  const Config next = directory.Load();
  CHECK(next.my_id == 1);
  CHECK(next.client_port == 2181);
  CHECK(next.client_address == config.client_address);
  CHECK(next.servers.size() == 4);

  // The second change keeps the file of before the first one.
  MemberFiles later(next, env);
  ServerLines members = ThreeAndFour();
  members.erase(14);
  REQUIRE(later.Update(members, 0x2b).ok());
  CHECK(directory.Read("zoo.cfg.bak") == before);
  CHECK(directory.Has("zoo.cfg.dynamic.1a"));
  CHECK(directory.Load().servers.size() == 3);
}

TEST_CASE("files with which the server would not start as this member are not written") {
  const Directory directory(kLines);
  const std::string before = directory.Read("zoo.cfg");
  consensus::Env* const env = consensus::Env::Posix();
  MemberFiles files(directory.Load(), env);
  ServerLines members = ThreeAndFour();
  members.erase(1);
  CHECK(files.Update(members, 1).ok());  // it is removed: nothing to write
  const absl::Status alone = files.Update({{1, members.at(2)}}, 2);
  CHECK(absl::IsFailedPrecondition(alone));
  CHECK(alone.message().find("standaloneEnabled=false") != std::string::npos);
  CHECK(directory.Read("zoo.cfg") == before);
  CHECK_FALSE(directory.Has("zoo.cfg.dynamic.1"));
  CHECK_FALSE(directory.Has("zoo.cfg.dynamic.2"));
  CHECK_FALSE(directory.Has("zoo.cfg.bak"));
  CHECK_FALSE(directory.Has("zoo.cfg.1.tmp"));
}

TEST_CASE("a file that cannot be written is an error that names it, and the others stay") {
  const Directory directory(kLines);
  const std::string before = directory.Read("zoo.cfg");
  std::filesystem::create_directory(directory.Path("zoo.cfg.1.tmp"));
  consensus::Env* const env = consensus::Env::Posix();
  MemberFiles files(directory.Load(), env);
  const absl::Status status = files.Update(ThreeAndFour(), 1);
  CHECK_FALSE(status.ok());
  CHECK(status.message().find("zoo.cfg.1.tmp") != std::string::npos);
  CHECK(directory.Read("zoo.cfg") == before);
  CHECK_FALSE(directory.Has("zoo.cfg.dynamic.1"));
}

}  // namespace
}  // namespace quorate::rpc
