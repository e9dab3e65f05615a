// SPDX-License-Identifier: Apache-2.0

#include "rpc/listen/lookup.h"

#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/condition_variable.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace quorate::rpc {
namespace {

using boost::asio::ip::tcp;
using Clock = std::chrono::steady_clock;

constexpr auto kFirst = std::chrono::seconds(5);
constexpr auto kAgain = std::chrono::seconds(60);

// Logs, as long as the object exists, that the lookup of a name is still running.
class LookupReporter {
 public:
  LookupReporter(std::string key, std::string host)
      : key_(std::move(key)),
        host_(std::move(host)),
        begin_(Clock::now()),
        thread_(StartThread("lookup-report", [this] { Run(); })) {}
  ~LookupReporter() {
    {
      MutexLock lock(&mutex_);
      is_done_ = true;
      changed_.NotifyOne();
    }
    thread_.join();
  }
  LookupReporter(const LookupReporter&) = delete;
  LookupReporter& operator=(const LookupReporter&) = delete;

 private:
  void Run() {
    MutexLock lock(&mutex_);
    for (Clock::time_point next = begin_ + kFirst; !is_done_;) {
      if (changed_.WaitUntil(&mutex_, next) || Clock::now() < next) continue;
      const auto waited = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin_);
      spdlog::warn(
          "the start waits for the address of {} ({}): the resolver has not answered for {} s. "
          "Check the name servers (/etc/resolv.conf), add the name to /etc/hosts, or configure an "
          "IP address",
          host_, key_, waited.count());
      next += kAgain;
    }
  }

  const std::string key_;
  const std::string host_;
  const Clock::time_point begin_;
  Mutex mutex_;
  ConditionVariable changed_;
  bool is_done_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // the last member: the thread uses the members above
};

}  // namespace

std::vector<tcp::endpoint> LookUpOwnName(const std::string& key, const std::string& host,
                                         uint16_t port, boost::system::error_code* error) {
  const auto address = boost::asio::ip::make_address(host, *error);
  if (!*error) return {tcp::endpoint(address, port)};
  const LookupReporter reporter(key, host);
  boost::asio::io_context context;
  const auto found =
      tcp::resolver(context).resolve(host, std::to_string(port), tcp::resolver::passive, *error);
  return {found.begin(), found.end()};
}

}  // namespace quorate::rpc
