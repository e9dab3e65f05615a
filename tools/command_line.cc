#include "tools/command_line.h"

#include <cstdio>
#include <utility>

namespace quorate::tools {
namespace {

constexpr int kFailed = 1;
constexpr int kBadUsage = 2;

}  // namespace

CommandLine::CommandLine()
    : app_("The command line of Quorate, a coordination service.", "quorate") {
  app_.require_subcommand(1);
  app_.fallthrough();  // global options may stand behind the subcommand
  app_.add_option("--server", global_.servers,
                  "Members to talk to, by their gRPC ports: host:port[,host:port]");
  app_.add_flag("--json", global_.json, "Print one JSON document, for programs");
  app_.footer("Exit status: 0 for success, 1 if the operation failed, 2 for bad usage.");
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

int CommandLine::Run(int argc, const char* const* argv) {
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app_.exit(error) == 0 ? 0 : kBadUsage;
  }
  const absl::Status status = run_();
  if (status.ok()) return exit_status_;
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", chosen_.c_str(), std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? kBadUsage : kFailed;
}

}  // namespace quorate::tools
