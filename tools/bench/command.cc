// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/command.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "tools/bench/html.h"
#include "tools/bench/options.h"
#include "tools/bench/report.h"
#include "tools/bench/run.h"
#include "tools/bench/workload.h"

namespace quorate::tools::bench {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  quorate bench --servers 127.0.0.1:2181                  write, read and mix\n"
    "  quorate bench write --servers a:2181,b:2181,c:2181 --connections 30 --depth 32\n"
    "  quorate bench write read --servers a:2181 --compare b:2181 --html result.html\n"
    "                      measures both in turns, a second each, and prints ratios\n"
    "  quorate bench open-loop --servers a:2181 --rate 5000 --seconds 600\n"
    "  quorate bench read --servers a:2182 --tls --ca ca.pem --cert client.pem --compare a:2181\n"
    "  quorate bench mix --native --servers a:2281             over gRPC\n"
    "  quorate bench failover --cluster /tmp/cluster           a cluster of tools/cluster\n"
    "\n"
    "Latency is the time from the beginning of a request to its answer; in an open loop it counts\n"
    "from the time at which the request should have begun. \"server CPU/op\" is the processor "
    "time\n"
    "of all servers for each operation, if they run on this machine; \"own CPU/op\" is that of "
    "this\n"
    "program. The znodes are created below a new znode, and removed at the end.";

// The arguments of the command line.
struct Arguments {
  Options options;
  ClusterOptions servers;
  ClusterOptions compared;
  std::string cluster;
  std::string compared_cluster;
  std::string cluster_tool = "tools/cluster";
};

std::string WorkloadList() {
  std::string text = "Workloads:\n";
  for (const WorkloadDescription& workload : AllWorkloads()) {
    absl::StrAppendFormat(&text, "  %-11s %s\n", workload.name, workload.text);
  }
  return text;
}

std::string ShellQuoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// Returns the output of a command, without the end of the last line.
absl::StatusOr<std::string> OutputOf(const std::string& command) {
  FILE* output = popen(command.c_str(), "r");
  if (output == nullptr) return absl::InternalError(absl::StrCat("cannot run ", command));
  std::string text;
  char buffer[4096];
  for (size_t size; (size = fread(buffer, 1, sizeof(buffer), output)) > 0;) {
    text.append(buffer, size);
  }
  const int status = pclose(output);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("the command failed: ", command));
  }
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

// Fills in the properties of a cluster from its directory of tools/cluster.
absl::Status UseCluster(const std::string& directory, const std::string& tool,
                        ClusterOptions* cluster) {
  if (directory.empty()) return absl::OkStatus();
  const std::string command = absl::StrCat(ShellQuoted(tool), " --dir ", ShellQuoted(directory));
  if (cluster->servers.empty()) {
    absl::StatusOr<std::string> hosts =
        OutputOf(absl::StrCat(command, cluster->native ? " grpc" : " hosts"));
    if (!hosts.ok()) return hosts.status();
    cluster->servers = *hosts;
  }
  if (cluster->kill_command.empty()) cluster->kill_command = command + " kill {member}";
  if (cluster->restart_command.empty()) cluster->restart_command = command + " restart {member}";
  return absl::OkStatus();
}

absl::Status CheckWorkloads(const Options& options) {
  for (const std::string& name : options.workloads) {
    const auto& all = AllWorkloads();
    const auto found = std::find_if(
        all.begin(), all.end(), [&name](const auto& workload) { return name == workload.name; });
    if (found == all.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no workload \"", name, "\"\n", WorkloadList()));
    }
    for (const ClusterOptions& cluster : options.clusters) {
      if (cluster.native && !found->has_native) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the workload ", name,
            " is not available over gRPC, only write, read and mix are: leave out ",
            cluster.label == options.clusters[0].label ? "--native" : "--compare-native"));
      }
      if (name == "failover" && cluster.kill_command.empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat("failover kills the leader of ", cluster.label,
                         ": say how, with --cluster or --kill-command (of those compared: "
                         "--compare-cluster, --compare-kill-command)"));
      }
      if (name == "failover" && cluster.restart_command.empty() && options.rounds > 1) {
        return absl::InvalidArgumentError(
            "more than one round of failover needs a --restart-command (or --rounds 1)");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Complete(Arguments* arguments) {
  Options& options = arguments->options;
  const std::string& tool = arguments->cluster_tool;
  if (absl::Status s = UseCluster(arguments->cluster, tool, &arguments->servers); !s.ok()) return s;
  absl::Status s = UseCluster(arguments->compared_cluster, tool, &arguments->compared);
  if (!s.ok()) return s;
  if (arguments->servers.servers.empty()) {
    return absl::InvalidArgumentError("name the servers: --servers HOST:PORT[,HOST:PORT...]");
  }
  options.clusters = {arguments->servers};
  if (!arguments->compared.servers.empty()) options.clusters.push_back(arguments->compared);
  if (options.clusters.size() == 2 && options.clusters[0].label == options.clusters[1].label) {
    return absl::InvalidArgumentError("--label and --compare-label are the same");
  }
  for (const ClusterOptions& cluster : options.clusters) {
    if (cluster.idle_sessions > 0 && cluster.native) {
      return absl::InvalidArgumentError(
          cluster.label +
          ": idle sessions are not available over gRPC; leave out their option or --native");
    }
    if (cluster.idle_watches > 0 && cluster.idle_sessions == 0) {
      return absl::InvalidArgumentError(
          cluster.label + ": idle sessions have the idle watches: say how many (--idle-sessions; " +
          "of those compared: --compare-idle-sessions)");
    }
  }
  if (options.workloads.empty()) options.workloads = {"write", "read", "mix"};
  if (options.root.empty()) {
    options.root = absl::StrFormat("/quorate-bench-%08x", std::random_device{}());
  } else if (options.root.size() < 2 || options.root.front() != '/' || options.root.back() == '/') {
    return absl::InvalidArgumentError("--root must be the path of a node, like /bench");
  }
  return CheckWorkloads(options);
}

// A line on the terminal that each update overwrites. Prints nothing if there is no terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool wanted) : is_shown_(wanted && isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() { Clear(); }

  void Show(const std::string& text) const {
    if (!is_shown_) return;
    std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
    std::fflush(stderr);
  }
  void Clear() const { Show(""); }

 private:
  const bool is_shown_;
};

absl::Status RunCommand(Arguments* arguments, bool json) {
  if (absl::Status s = Complete(arguments); !s.ok()) return s;
  const Options& options = arguments->options;
  std::ofstream html;
  if (!options.html_path.empty()) {
    // Opens the file before the measurement, which takes long.
    html.open(options.html_path);
    if (!html) return absl::InvalidArgumentError("cannot write " + options.html_path);
  }
  const ProgressLine progress(!json);
  absl::StatusOr<Results> results =
      Run(options, [&progress](const std::string& text) { progress.Show(text); });
  progress.Clear();
  if (!results.ok()) return results.status();

  if (json) {
    std::printf("%s\n", ToJson(*results, options).dump(2).c_str());
  } else {
    std::fputs(ReportHeading(*results).c_str(), stdout);
    for (const WorkloadResult& result : results->workloads) {
      std::fputs(ReportWorkload(result, *results, options).c_str(), stdout);
    }
  }
  if (html.is_open()) {
    html << ToHtml(*results, options);
    html.close();
    if (!html) return absl::InternalError("cannot write " + options.html_path);
  }
  uint64_t errors = 0;
  for (const WorkloadResult& result : results->workloads) {
    // A leader that is killed may lose requests: they are reported, but are not a failure.
    if (result.name == "failover") continue;
    for (const Measurement& measurement : result.measurements) errors += measurement.error_count();
  }
  if (errors == 0) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(errors, " operations failed"));
}

void AddTlsOptions(CLI::App* command, Arguments* arguments) {
  const std::string group = "TLS";
  wire::TlsFiles& files = arguments->options.tls_files;
  command->add_flag("--tls", arguments->servers.tls, "Connect to --servers with TLS")->group(group);
  command->add_flag("--compare-tls", arguments->compared.tls, "Connect to --compare with TLS")
      ->group(group);
  command
      ->add_option("--ca", files.authorities,
                   "Certificates of the servers' authorities, in PEM (default: the system's)")
      ->group(group);
  command->add_option("--cert", files.certificate, "Certificate with which to authenticate, in PEM")
      ->group(group);
  command->add_option("--key", files.key, "Key of the certificate, in PEM (default: in that file)")
      ->group(group);
}

void AddClusterOptions(CLI::App* command, Arguments* arguments) {
  ClusterOptions& servers = arguments->servers;
  ClusterOptions& compared = arguments->compared;
  servers.label = "servers";
  compared.label = "compared";
  command->add_option("--servers", servers.servers,
                      "Servers to measure, by their client ports: host:port[,host:port...]");
  command->add_flag("--native", servers.native,
                    "--servers names gRPC ports: measure the native front end");
  command->add_option("--compare", compared.servers,
                      "Servers to compare with, in turns: any that speak the ZooKeeper protocol");
  command->add_flag("--compare-native", compared.native, "--compare names gRPC ports");
  AddTlsOptions(command, arguments);
  command->add_option("--label", servers.label, "Name of the servers in the output")
      ->capture_default_str();
  command->add_option("--compare-label", compared.label, "Name of the compared servers")
      ->capture_default_str();
  command
      ->add_option("--server-pids", servers.pids,
                   "Process ids of the servers, if they cannot be found by their ports")
      ->delimiter(',');
  command->add_option("--compare-server-pids", compared.pids, "The same, of the compared servers")
      ->delimiter(',');
  const std::string group = "Failover";
  command
      ->add_option(
          "--cluster", arguments->cluster,
          "Directory of tools/cluster, whose members are measured and whose leader is killed")
      ->group(group);
  command
      ->add_option("--compare-cluster", arguments->compared_cluster,
                   "The same, of the compared servers")
      ->group(group);
  command->add_option("--cluster-tool", arguments->cluster_tool, "Path of tools/cluster")
      ->capture_default_str()
      ->group(group);
  command
      ->add_option("--kill-command", servers.kill_command,
                   "Shell command that kills the leader; {member} is its number among --servers")
      ->group(group);
  command
      ->add_option("--restart-command", servers.restart_command,
                   "Shell command that starts the killed member again")
      ->group(group);
  command
      ->add_option("--compare-kill-command", compared.kill_command,
                   "The same, for the compared servers")
      ->group(group);
  command
      ->add_option("--compare-restart-command", compared.restart_command,
                   "The same, for the compared servers")
      ->group(group);
  command
      ->add_option("--rounds", arguments->options.rounds, "Number of times that a leader is killed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->group(group);
}

// Adds the options that may differ between the two clusters.
void AddSideOptions(CLI::App* command, Arguments* arguments) {
  const std::string group = "Beside the load";
  const auto add = [command, &group](const char* name, auto& value, const char* text, int most) {
    command->add_option(name, value, text)->check(CLI::Range(0, most))->group(group);
  };
  constexpr int kSessionsMax = 100'000;
  constexpr int kNumberMax = 9'999'999;
  constexpr int kDataMax = 64 << 20;
  ClusterOptions& servers = arguments->servers;
  ClusterOptions& compared = arguments->compared;
  add("--idle-sessions", servers.idle_sessions, "Additional sessions that do nothing",
      kSessionsMax);
  add("--compare-idle-sessions", compared.idle_sessions, "The same, at the compared servers",
      kSessionsMax);
  add("--idle-watches", servers.idle_watches,
      "Watches of the idle sessions, on paths without a znode", kNumberMax);
  add("--compare-idle-watches", compared.idle_watches, "The same, at the compared servers",
      kNumberMax);
  add("--compare-populated", compared.populated, "--populated at the compared servers", kNumberMax);
  add("--compare-size", compared.data_bytes, "--size at the compared servers", kDataMax);
}

void AddLoadOptions(CLI::App* command, Options* options) {
  const std::string group = "Load";
  const auto add = [command, &group](const char* name, auto& value, const char* text, auto check) {
    command->add_option(name, value, text)
        ->check(check)
        ->capture_default_str()
        ->take_last()
        ->group(group);
  };
  add("--connections", options->connections, "Sessions, distributed over the servers",
      CLI::Range(1, 100'000));
  add("--depth", options->depth, "Outstanding requests on each connection", CLI::Range(1, 10'000));
  add("--size", options->data_bytes, "Bytes of data in a znode", CLI::Range(0, 64 << 20));
  add("--keys", options->keys, "Number of znodes that are written and read",
      CLI::Range(1, 9'999'999));
  add("--populated", options->populated,
      "Number of znodes that populate --keep has left below --root, to write\n"
      "and read them (at the compared servers: --root and \"-compared\")",
      CLI::Range(0, 9'999'999));
  add("--rate", options->rate, "Operations per second of open-loop and failover",
      CLI::Range(0.1, 1e7));
  command
      ->add_option("--read-share", options->read_share,
                   "Share of reads in mix (0.9) and open-loop (0.5)")
      ->check(CLI::Range(0.0, 1.0))
      ->group(group);
  add("--children", options->children, "Number of children that are listed",
      CLI::Range(0, 9'999'999));
  add("--multi-operations", options->multi_operations, "Operations in a transaction",
      CLI::Range(1, 100'000));
  add("--watchers", options->watchers, "Number of sessions that watch", CLI::Range(1, 100'000));
  add("--count", options->count, "Number of znodes that populate creates",
      CLI::Range(1, 9'999'999));
  std::vector<std::string> shapes;
  for (const ShapeDescription& shape : AllShapes()) shapes.push_back(shape.name);
  command
      ->add_option_function<std::string>(
          "--shape", [options](const std::string& name) { options->shape = *ShapeOf(name); },
          "Shape of the tree that populate creates: one directory (flat),\n"
          "directories of 20 or of 1,000 (large-directories), or chains of 20")
      ->check(CLI::IsMember(shapes))
      ->default_str(NameOf(options->shape))
      ->take_last()
      ->group(group);
  add("--name-bytes", options->name_bytes, "Bytes in the name of each znode that populate creates",
      CLI::Range(8, 255));
  add("--session-timeout-ms", options->session_timeout_ms,
      "Session timeout to request, in milliseconds", CLI::Range(1000, 3'600'000));
  command
      ->add_option("--root", options->root,
                   "Znode below which all others are created (default: a new znode)")
      ->group(group);
  command->add_flag("--keep", options->keep, "Do not remove the znodes at the end")->group(group);
}

void AddTimeOptions(CLI::App* command, Options* options) {
  const std::string group = "Time";
  const auto add = [command, &group](const char* name, double& value, const char* text,
                                     double least) {
    command->add_option(name, value, text)
        ->check(CLI::Range(least, 1e6))
        ->capture_default_str()
        ->take_last()
        ->group(group);
  };
  add("--seconds", options->seconds, "Seconds that each workload is measured at each cluster",
      0.01);
  add("--warm-up-seconds", options->warm_up_seconds,
      "Seconds of load before that, which do not count", 0);
  add("--slice-seconds", options->slice_seconds, "Seconds of a turn when two clusters are compared",
      0.01);
}

}  // namespace

void AddBenchCommand(CommandLine* command_line) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      command_line->Add(command_line->root(), "bench",
                        "Measure servers, and compare them with others", [arguments, command_line] {
                          return RunCommand(arguments.get(), command_line->global().json);
                        });
  command->add_option("WORKLOAD", arguments->options.workloads,
                      "Workloads to run, see below (default: write, read and mix)");
  AddClusterOptions(command, arguments.get());
  AddSideOptions(command, arguments.get());
  AddLoadOptions(command, &arguments->options);
  AddTimeOptions(command, &arguments->options);
  command->add_option("--html", arguments->options.html_path, "Write a page with charts");
  command->footer(absl::StrCat(WorkloadList(), "\n", kExamples));
}

}  // namespace quorate::tools::bench
