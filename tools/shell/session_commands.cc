// SPDX-License-Identifier: Apache-2.0

// The commands on the session and the shell itself: connect, close, quit, config, reconfig,
// history, redo, version, help.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/version.h"
#include "tools/shell/command.h"
#include "tools/shell/printing.h"
#include "tools/shell/shell.h"

namespace quorate::tools::shell {
namespace {

constexpr char kConfigPath[] = "/zookeeper/config";
// The number of lines that history shows, as in zkCli.sh.
constexpr size_t kHistoryShown = 11;

absl::Status Connect(Invocation& invocation) {
  const std::string servers = invocation.argument(0).value_or("");
  if (absl::Status s = invocation.shell().Connect(servers); !s.ok()) return s;
  invocation.json()["servers"] = invocation.shell().options().servers;
  return absl::OkStatus();
}

absl::Status Close(Invocation& invocation) { return invocation.shell().Close(); }

absl::Status Quit(Invocation& invocation) {
  invocation.shell().End();
  return absl::OkStatus();
}

// Returns the version and the client addresses of the configuration: "0
// 10.0.0.1:2181,10.0.0.2:2181".
std::string ClientConfig(const std::string& config) {
  std::string version = "0";
  std::vector<std::string> addresses;
  for (const absl::string_view line : absl::StrSplit(config, '\n')) {
    absl::string_view rest = line;
    if (absl::ConsumePrefix(&rest, "version=")) version = std::string(rest);
    if (!absl::ConsumePrefix(&rest, "server.")) continue;
    const std::vector<std::string> parts = absl::StrSplit(rest, absl::MaxSplits(';', 1));
    addresses.push_back(parts.size() == 2 ? parts[1] : "");
  }
  return absl::StrCat(version, " ", absl::StrJoin(addresses, ","));
}

absl::Status Config(Invocation& invocation) {
  auto client = invocation.shell().WholeTreeClient();
  if (!client.ok()) return client.status();
  auto read = (*client)->Get(kConfigPath);
  if (!read.ok()) return Failure(read.status(), kConfigPath);
  if (invocation.Has('w')) {
    if (absl::Status s =
            invocation.shell().watches().Add(**client, kConfigPath, WatchKind::kData, read->zxid);
        !s.ok()) {
      return s;
    }
  }
  invocation.Line(invocation.Has('c') ? ClientConfig(read->data) : read->data);
  if (invocation.Has('s')) invocation.Line(ToText(read->stat));
  auto& json = invocation.json()["config"] = nlohmann::ordered_json::object();
  for (const absl::string_view line : absl::StrSplit(read->data, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits('=', 1));
    json[parts[0]] = parts.size() == 2 ? parts[1] : "";
  }
  return absl::OkStatus();
}

absl::Status Reconfig(Invocation&) {
  return absl::FailedPreconditionError(
      "KeeperErrorCode = Reconfig is disabled: this shell does not change the members; "
      "`quorate member` does, and `quorate members` shows them");
}

absl::Status History(Invocation& invocation) {
  const std::vector<std::string>& lines = invocation.shell().history();
  auto& json = invocation.json()["lines"] = nlohmann::ordered_json::array();
  for (size_t i = lines.size() - std::min(lines.size(), kHistoryShown); i < lines.size(); ++i) {
    invocation.Line(absl::StrCat(i, " - ", lines[i]));
    json.push_back({{"number", i}, {"line", lines[i]}});
  }
  return absl::OkStatus();
}

// The shell replaces the line by one of the history. This function runs only if there is no such
// line.
absl::Status Redo(Invocation& invocation) {
  return absl::InvalidArgumentError(absl::StrCat("redo: there is no command ",
                                                 invocation.arguments()[0],
                                                 " in the history; history lists them"));
}

absl::Status Version(Invocation& invocation) {
  invocation.Line(absl::StrCat("Quorate CLI version: ", kProgramVersion));
  invocation.json()["version"] = kProgramVersion;
  return absl::OkStatus();
}

absl::Status Help(Invocation& invocation) {
  if (const auto name = invocation.argument(0)) {
    const Command* command = FindCommand(*name);
    if (command == nullptr) {
      const std::vector<std::string> similar = SimilarCommands(*name);
      return absl::InvalidArgumentError(
          absl::StrCat("help: there is no command ", *name,
                       similar.empty() ? "; help lists them"
                                       : "; do you mean " + absl::StrJoin(similar, " or ") + "?"));
    }
    std::string text = HelpOf(*command);
    invocation.json()["help"] = text;
    text.pop_back();
    invocation.Line(text);
    return absl::OkStatus();
  }
  auto& json = invocation.json()["commands"] = nlohmann::ordered_json::array();
  size_t width = 0;
  for (const Command& command : Commands()) width = std::max(width, command.name.size());
  for (const Command& command : Commands()) {
    std::string name = command.name;
    name.resize(width + 2, ' ');
    invocation.Line(name + command.summary);
    json.push_back(
        {{"name", command.name}, {"usage", UsageOf(command)}, {"summary", command.summary}});
  }
  invocation.Line(
      "\nhelp COMMAND describes one of them. Text with spaces must be in quotes. Tab\n"
      "completes commands and paths; lines that begin with # are comments.");
  return absl::OkStatus();
}

Command Local(std::string name, std::string arguments, std::string summary, std::string details,
              std::string example, absl::Status (*run)(Invocation&)) {
  Command command;
  command.name = std::move(name);
  command.arguments_max = arguments.empty() ? 0 : 1;
  command.arguments = std::move(arguments);
  command.summary = std::move(summary);
  command.details = std::move(details);
  command.example = std::move(example);
  command.takes_path = false;
  command.is_local = true;
  command.run = run;
  return command;
}

}  // namespace

std::vector<Command> SessionCommands() {
  std::vector<Command> commands = {
      {.name = "config",
       .options = {{'s', "", "print the metadata of /zookeeper/config, too"},
                   {'w', "", "watch: print its next change"},
                   {'c', "", "only the version and the addresses for clients"}},
       .arguments = "",
       .summary = "Prints the members of the cluster, as ZooKeeper's clients see them",
       .details = "`quorate members` and `quorate status` show more.",
       .example = "config",
       .takes_path = false,
       .run = Config},
      Local("connect", "[host:port[,host:port...][/chroot]]",
            "Ends this session and begins a new one",
            "The ports are gRPC ports. Without servers, it uses the previous ones. All paths are\n"
            "below the chroot, if there is one.",
            "connect 10.0.0.1:2281,10.0.0.2:2281/app", Connect),
      Local("close", "", "Ends the session, with its ephemeral znodes and watches",
            "connect begins a new one.", "close", Close),
      Local("quit", "", "Ends the session and the shell", "So does Ctrl-D.", "quit", Quit),
      Local("history", "", "Lists the last commands, with their numbers", "", "history", History),
      Local("redo", "number", "Runs a command of the history again", "", "redo 3", Redo),
      Local("version", "", "Prints the version of this program", "", "version", Version),
      Local("help", "[command]", "Lists the commands, or describes one", "", "help create", Help),
  };
  commands.push_back({.name = "reconfig",
                      .options = {},
                      .arguments = "[change...]",
                      .summary = "Is refused: `quorate member` changes the members",
                      .details = "",
                      .example = "reconfig -remove 3",
                      .takes_path = false,
                      .takes_any_words = true,
                      .run = Reconfig});
  for (Command& command : commands) {
    if (command.name == "redo") command.arguments_min = 1;
  }
  return commands;
}

}  // namespace quorate::tools::shell
