// SPDX-License-Identifier: Apache-2.0

#include "tools/shell/word_candidates.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/shell/completion.h"
#include "tools/shell/console.h"
#include "tools/shell/shell.h"

namespace quorate::tools {
namespace {

// The timeout of requests, which is short because the user waits after pressing Tab.
constexpr int kTimeoutMs = 2000;
constexpr int kSessionTimeoutMs = 4000;

std::string Quoted(const std::string& word) {
  std::string quoted;
  for (const char c : word) {
    if (absl::StrContains(" \t\\\"'", c)) quoted += '\\';
    quoted += c;
  }
  return quoted;
}

}  // namespace

std::vector<std::string> ShellWordCandidates(const std::string& servers, const TlsOptions& tls,
                                             const std::vector<std::string>& words,
                                             const std::string& last) {
  shell::Console console(false);
  shell::ShellOptions options;
  options.servers = servers;
  options.tls = tls;
  options.json = true;  // events of the session are not printed
  options.timeout_ms = kTimeoutMs;
  options.session_timeout_ms = kSessionTimeoutMs;
  shell::Shell the_shell(options, &console);
  if (absl::StartsWith(last, "/") && !servers.empty() && !the_shell.Connect("").ok()) return {};
  std::string line;
  for (const std::string& word : words) absl::StrAppend(&line, Quoted(word), " ");
  const shell::Completion completion = Complete(the_shell, line + Quoted(last));
  std::vector<std::string> candidates;
  for (const shell::Candidate& candidate : completion.candidates) {
    candidates.push_back(candidate.word);
  }
  return candidates;
}

}  // namespace quorate::tools
