// The subcommands of `quorate`, how they are told what to do and how they say what they did.
//
// Exit status: 0 for success, 1 if the operation failed, 2 for a command line that makes no sense.
// Facts go to standard output, progress and errors to standard error, so that output can be piped.
// With
// --json, standard output has nothing but JSON, and an error is an object on the last line of
// standard error.
//
// Thread-safety: none inside; main uses one object.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace quorate::tools {

// Options that every subcommand has, before or after its name.
struct GlobalOptions {
  // --server, or the environment variable QUORATE_SERVER: "host:port[,host:port]", the gRPC ports
  // of members.
  std::string servers;
  // --json: what is printed is one JSON document, for programs.
  bool json = false;
};

class CommandLine {
 public:
  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // The program itself: the parent of subcommands like `backup`.
  CLI::App* root() { return &app_; }
  // Valid from the time `run` of a subcommand is called.
  const GlobalOptions& global() const { return global_; }

  // What --version prints behind the name of the program.
  void SetVersion(const std::string& version);

  // Adds a subcommand; the caller adds its options to what is returned. `description` is one line
  // without a full stop. `run` is called if it is the one that the user chose, once all options are
  // parsed; its error is printed behind the name of the subcommand.
  CLI::App* Add(CLI::App* parent, const std::string& name, const std::string& description,
                std::function<absl::Status()> run);
  // Adds a name that only has subcommands, like `log` in `quorate log dump`.
  CLI::App* AddGroup(const std::string& name, const std::string& description);

  // For a `run` that succeeds and yet ends with a status of its own, like that of a program that it
  // has run, and has told the user about it.
  void SetExitStatus(int status) { exit_status_ = status; }

  // Parses and runs; returns the exit status. `help NAME` is `NAME --help`.
  int Run(int argc, const char* const* argv);

 private:
  // `status`, before it the reason if it is that --server names ports of another protocol.
  absl::Status WithHint(const absl::Status& status) const;

  // To standard error, behind the name of the subcommand; with --json as {"error": {command, code,
  // message}}, on one line.
  void PrintError(const absl::Status& status) const;
  // Says what is wrong with the command line; the exit status.
  int RefuseUsage(const std::string& problem) const;
  // Of options, from files.
  absl::Status ReadDefaults();

  // What is wrong with the names of subcommands in a command line; empty if nothing is.
  std::string ProblemOfNames(const std::vector<std::string>& words) const;

  CLI::App app_;
  GlobalOptions global_;
  std::string chosen_;
  std::function<absl::Status()> run_;
  int exit_status_ = 0;
};

}  // namespace quorate::tools
