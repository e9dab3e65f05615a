// SPDX-License-Identifier: Apache-2.0

// Reports why a server cannot start or go on.
//
// Thread-safety: WithAdvice is a function of its argument; DoNotReportAbort may be called from any
// thread; the others are called by the program's main thread.
#pragma once

#include <string>

namespace quorate::rpc {

// Returns `message`, followed by advice if it contains a system error that this function knows: a
// text of strerror, whichever library the message is from. A message that already has the advice is
// returned unchanged.
std::string WithAdvice(std::string message);

// Logs, as critical, why the server ends, with advice, and shuts the log down. Also prints the
// message to standard error if the log goes elsewhere.
void ReportFatal(const std::string& message);

// While an object of this class exists, a call of abort() is reported as fatal, with `message`, and
// the exit status is 1: some libraries abort the process when they get no thread or descriptor. An
// abort by this program itself (after DoNotReportAbort) still ends with SIGABRT. At most one object
// exists at a time; `message` is the whole text of the log line, including what to do.
class ReportedAborts {
 public:
  explicit ReportedAborts(std::string message);
  ~ReportedAborts();
  ReportedAborts(const ReportedAborts&) = delete;
  ReportedAborts& operator=(const ReportedAborts&) = delete;

 private:
  const std::string message_;
};
// Ends the reporting of aborts: from now on, abort() ends the process with SIGABRT.
void DoNotReportAbort();

// Reports, from now on, an unhandled exception for a system error (no thread can be started, no
// memory is left) as fatal, with the exit status 1. Any other unhandled exception is a bug of the
// program, and aborts it.
void ReportUnhandledSystemErrors();

}  // namespace quorate::rpc
