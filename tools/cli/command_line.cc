// SPDX-License-Identifier: Apache-2.0

#include "tools/cli/command_line.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/escape.h"
#include "base/similar_names.h"
#include "client/connection_problem.h"
#include "tools/cli/defaults.h"
#include "tools/cli/port_probe.h"

namespace quorate::tools {
namespace {

constexpr int kFailed = 1;
constexpr int kBadUsage = 2;
// The global options with a value.
constexpr const char* kOptionsWithValue[] = {"--server", "--ca",          "--cert",
                                             "--key",    "--server-name", "--token-file"};
// How long to look for the reason why TLS with a server does not work.
constexpr std::chrono::milliseconds kProblemPatience{2000};

}  // namespace

CommandLine::CommandLine()
    : app_("The command line of Quorate, a coordination service.", "quorate") {
  app_.require_subcommand(1);
  app_.fallthrough();  // global options are also allowed behind the subcommand
  app_.add_option("--server", global_.servers,
                  "Members to talk to, by their gRPC ports: host:port[,host:port]")
      ->envname("QUORATE_SERVER");
  AddAccessOptions();
  app_.add_flag("--json", global_.json, "Print one JSON document, for programs");
  app_.footer(
      "\"quorate help COMMAND\" describes a command.\n"
      "Exit status: 0 for success, 1 if the operation failed, 2 for bad usage. With --json, "
      "standard\n"
      "output has nothing but JSON, and an error is an object on the last line of standard error.\n"
      "\n"
      "Defaults of options can be set in /etc/quorate/client.conf, and in\n"
      "~/.config/quorate/config, which overrides it; or only in the file that QUORATE_CONFIG "
      "names.\n"
      "These files have lines \"key = value\"; a key is the name of an option: server, tls, ca,\n"
      "token-file, json, shell.timeout, log.dump.data.\n"
      "The environment overrides files, and the command line overrides both.");
}

void CommandLine::AddAccessOptions() {
  app_.add_flag("--tls", global_.tls.enabled, "Connect with TLS")->envname("QUORATE_TLS");
  app_.add_option("--ca", global_.tls.ca_file,
                  "File with the authorities of servers' certificates, in PEM; implies --tls")
      ->envname("QUORATE_CA");
  app_.add_option("--cert", global_.tls.certificate_file,
                  "File with the certificate to show, in PEM; implies --tls")
      ->envname("QUORATE_CERT");
  app_.add_option("--key", global_.tls.key_file, "File with the private key of --cert, in PEM")
      ->envname("QUORATE_KEY");
  app_.add_option("--server-name", global_.tls.server_name,
                  "Name that servers' certificates must have, if it is not the host of --server")
      ->envname("QUORATE_SERVER_NAME");
  app_.add_option("--token-file", global_.token_file,
                  "File with an administrator's token, which other users cannot read")
      ->envname("QUORATE_TOKEN_FILE");
}

void CommandLine::SetVersion(const std::string& version) {
  app_.set_version_flag("--version", app_.get_name() + " " + version, "Print the version and end");
}

CLI::App* CommandLine::Add(CLI::App* parent, const std::string& name,
                           const std::string& description, std::function<absl::Status()> run) {
  CLI::App* command = parent->add_subcommand(name, description);
  command->fallthrough();
  command->callback([this, command, run = std::move(run)] {
    chosen_ = command->get_name();
    for (CLI::App* up = command->get_parent(); up != nullptr; up = up->get_parent()) {
      chosen_ = up->get_name() + " " + chosen_;
    }
    run_ = run;
  });
  return command;
}

CLI::App* CommandLine::AddGroup(const std::string& name, const std::string& description) {
  CLI::App* group = app_.add_subcommand(name, description);
  group->fallthrough();
  group->require_subcommand(1);
  return group;
}

std::string CommandLine::ProblemOfNames(const std::vector<std::string>& words) const {
  const CLI::App* parent = &app_;
  std::string parents = app_.get_name();
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (std::find(std::begin(kOptionsWithValue), std::end(kOptionsWithValue), word) !=
        std::end(kOptionsWithValue)) {
      ++i;  // the next word is its value
    }
    if (absl::StartsWith(word, "-")) continue;
    const CLI::App* found = nullptr;
    std::vector<std::string> names;
    for (const CLI::App* command : parent->get_subcommands(nullptr)) {
      if (command->get_name().empty()) continue;  // a group of options
      names.push_back(command->get_name());
      if (command->get_name() == word) found = command;
    }
    if (names.empty()) return "";
    if (found == nullptr) {
      const std::vector<std::string> similar = SimilarNames(word, names);
      const std::string hint =
          similar.empty() ? ""
                          : absl::StrCat("; did you mean ", absl::StrJoin(similar, " or "), "?");
      return absl::StrCat(parents, ": there is no command \"", word, "\"", hint, "\n", "\"",
                          parents, " --help\" names all.");
    }
    parent = found;
    absl::StrAppend(&parents, " ", word);
  }
  return "";
}

absl::Status CommandLine::WithHint(const absl::Status& status) const {
  if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) return status;
  std::string hint = WrongPortHint(global_.servers);
  const std::string servers = global_.servers.substr(0, global_.servers.find('/'));
  for (absl::string_view server : absl::StrSplit(servers, ',', absl::SkipWhitespace())) {
    if (!hint.empty()) break;
    hint = internal::ConnectionProblem(std::string(absl::StripAsciiWhitespace(server)), global_.tls,
                                       kProblemPatience);
  }
  if (hint.empty()) return status;
  // The client has looked for it already.
  if (absl::StrContains(status.message(), hint)) return status;
  return absl::Status(status.code(), absl::StrCat(hint, "; ", status.message()));
}

void CommandLine::PrintError(const absl::Status& status) const {
  const std::string message(status.message());
  if (!global_.json) {
    std::fprintf(stderr, "%s: %s\n", chosen_.c_str(), EscapeControls(message).c_str());
    return;
  }
  const nlohmann::ordered_json error = {{"command", chosen_.empty() ? app_.get_name() : chosen_},
                                        {"code", absl::StatusCodeToString(status.code())},
                                        {"message", message}};
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  std::fprintf(stderr, "%s\n",
               nlohmann::ordered_json{{"error", error}}.dump(-1, ' ', true, replace).c_str());
}

int CommandLine::RefuseUsage(const std::string& problem) const {
  if (global_.json) {
    PrintError(absl::InvalidArgumentError(problem));
  } else {
    std::fprintf(stderr, "%s\n", EscapeControls(problem).c_str());
  }
  return kBadUsage;
}

absl::Status CommandLine::ReadDefaults() {
  for (const DefaultsFile& file : DefaultsFiles()) {
    if (absl::Status s = ApplyDefaults(file, &app_); !s.ok()) return s;
  }
  return absl::OkStatus();
}

int CommandLine::Run(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.push_back("--help");
  }
  const absl::Status defaults = ReadDefaults();
  // Determined before parsing, since it decides how parse errors are printed.
  const auto dashes = std::find(words.begin(), words.end(), "--");
  if (std::find(words.begin(), dashes, "--json") != dashes) global_.json = true;
  if (!defaults.ok()) return RefuseUsage(std::string(defaults.message()));
  if (const std::string problem = ProblemOfNames(words); !problem.empty()) {
    return RefuseUsage(problem);
  }
  try {
    std::reverse(words.begin(), words.end());  // CLI11 takes the words in reverse order
    app_.parse(std::move(words));
  } catch (const CLI::Success& success) {
    return app_.exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    if (global_.json) return RefuseUsage(error.what());
    app_.exit(error);
    return kBadUsage;
  }
  TlsOptions& tls = global_.tls;
  tls.enabled = tls.enabled || !tls.ca_file.empty() || !tls.certificate_file.empty() ||
                !tls.key_file.empty() || !tls.server_name.empty();
  const absl::Status status = WithHint(run_());
  if (status.ok()) return exit_status_;
  std::fflush(stdout);
  PrintError(status);
  return absl::IsInvalidArgument(status) ? kBadUsage : kFailed;
}

}  // namespace quorate::tools
