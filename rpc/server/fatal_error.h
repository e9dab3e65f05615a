// What is said when a server cannot start or go on.
//
// Thread-safety: WithAdvice is a function of its argument; DoNotReportAbort may be called from any
// thread; the others are called by the program's main thread.
#pragma once

#include <string>

namespace quorate::rpc {

// `message`, and behind it what to do about the reason that the system gave, if the message has
// one: a reason is a text of strerror, whichever library the message is from. A message that says
// what to do about that reason already is returned as it is.
std::string WithAdvice(std::string message);

// Logs, as critical, why the server ends, with advice, and ends the log. Says it on standard error,
// too, if the log goes elsewhere.
void ReportFatal(const std::string& message);

// While an object of it exists, a call of abort() is reported as fatal, with `message`, and the
// exit status is 1: some libraries abort the process when they get no thread or descriptor. What
// this program aborts by itself (DoNotReportAbort) still ends with SIGABRT. At most one object
// exists at a time; `message` is the text of the whole line, with what to do.
class ReportedAborts {
 public:
  explicit ReportedAborts(std::string message);
  ~ReportedAborts();
  ReportedAborts(const ReportedAborts&) = delete;
  ReportedAborts& operator=(const ReportedAborts&) = delete;

 private:
  const std::string message_;
};
// From now on an abort is no more reported.
void DoNotReportAbort();

// From now on an error of the system that nobody handles (no thread can be started, no memory is
// left) is reported as fatal, with the exit status 1. Any other exception is a mistake of the
// program, and aborts it.
void ReportUnhandledSystemErrors();

}  // namespace quorate::rpc
