// SPDX-License-Identifier: Apache-2.0

// The subcommands of `quorate`: how they get their options and how they report results and errors.
//
// Exit status: 0 for success, 1 if the operation failed, 2 for an invalid command line. Results go
// to standard output, progress and errors to standard error, so that output can be piped. With
// --json, standard output has nothing but JSON, and an error is an object on the last line of
// standard error.
//
// Thread-safety: none; main uses one object.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/tls.h"

namespace quorate::tools {

// Options that every subcommand has, before or after its name.
struct GlobalOptions {
  // --server, or the environment variable QUORATE_SERVER: "host:port[,host:port]", the gRPC ports
  // of members.
  std::string servers;
  // --tls, --ca, --cert, --key and --server-name, or QUORATE_TLS and so on. Any of the others implies
  // --tls.
  TlsOptions tls;
  // --token-file, or QUORATE_TOKEN_FILE: a file with an administrator's token. The token itself is no
  // argument, because other users see those.
  std::string token_file;
  // --json: the output is one JSON document, for programs.
  bool json = false;
};

class CommandLine {
 public:
  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Returns the program itself, the parent of subcommands like `backup`.
  CLI::App* root() { return &app_; }
  // Returns the global options. REQUIRES: called by `run` of a subcommand, or after that began.
  const GlobalOptions& global() const { return global_; }

  // Sets the text that --version prints behind the name of the program.
  void SetVersion(const std::string& version);

  // Adds a subcommand; returns it, so that the caller can add its options. `description` is one
  // line without a full stop. `run` is called if the user chose this subcommand, once all options
  // are parsed; its error is printed behind the name of the subcommand.
  CLI::App* Add(CLI::App* parent, const std::string& name, const std::string& description,
                std::function<absl::Status()> run);
  // Adds a name that only has subcommands, like `log` in `quorate log dump`.
  CLI::App* AddGroup(const std::string& name, const std::string& description);

  // Sets the exit status of a `run` that succeeds, for example that of a program that `run` has
  // run. `run` itself reports the status to the user.
  void SetExitStatus(int status) { exit_status_ = status; }

  // Parses the command line and runs the subcommand. Returns the exit status. `help NAME` is the
  // same as `NAME --help`.
  int Run(int argc, const char* const* argv);

 private:
  // Returns `status`, preceded by the reason if --server names ports of another protocol.
  absl::Status WithHint(const absl::Status& status) const;

  // Prints to standard error, behind the name of the subcommand; with --json as {"error": {command,
  // code, message}}, on one line.
  void PrintError(const absl::Status& status) const;
  // Prints what is wrong with the command line. Returns the exit status.
  int RefuseUsage(const std::string& problem) const;
  void AddAccessOptions();
  // Sets defaults of options from files.
  absl::Status ReadDefaults();

  // Returns what is wrong with the names of subcommands in a command line; empty if nothing is
  // wrong.
  std::string ProblemOfNames(const std::vector<std::string>& words) const;

  CLI::App app_;
  GlobalOptions global_;
  std::string chosen_;
  std::function<absl::Status()> run_;
  int exit_status_ = 0;
};

}  // namespace quorate::tools
