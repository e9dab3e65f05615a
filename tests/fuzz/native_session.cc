// SPDX-License-Identifier: Apache-2.0

// Any messages from clients of the native front end: of sessions, of calls and of watches; and a
// session with well-formed requests, whose answers must come in order.
#include <google/protobuf/stubs/logging.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/random.h"
#include "base/testing/manual_clock.h"
#include "rpc/frontend/frontends.h"
#include "rpc/grpc/native/frontend.h"
#include "rpc/grpc/native/stream_loop.h"
#include "rpc/grpc/native/testing/manual_transport.h"
#include "rpc/proto/quorate/v1/session.pb.h"
#include "tests/fuzz/front.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {
namespace {

using rpc::native::ManualTransport;
using rpc::native::Method;

constexpr uint8_t kMethods = 19;
const char kPassword[] = "0123456789abcdef";

class NativeFront {
 public:
  NativeFront() {
    google::protobuf::SetLogHandler(nullptr);
    transport.SetLoop(&loop_);
  }

  void Settle() {
    do {
      transport.RunIterations();
    } while (service_.Work(&frontends_));
  }

  ManualTransport transport;

 private:
  // Different bytes each time, because session ids are made from them.
  class CountingBytes final : public RandomBytes {
   public:
    void Fill(char* bytes, size_t size) override {
      ++count_;
      for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(count_ >> (8 * (i % 8)));
    }

   private:
    uint64_t count_ = 0;
  };

  const rpc::Config config_ = FuzzConfig();
  ManualClock clock_{1'700'000'000'000};
  CountingBytes random_;
  TreeService service_;
  rpc::EventHistory history_{1 << 20};
  rpc::native::NativeFrontend frontend_{config_, &service_, &clock_, &random_, &history_};
  rpc::Frontends frontends_{{{&frontend_, rpc::kNativeTags}}, &history_};
  rpc::native::StreamLoop loop_{&frontend_, &transport};
};

// Checks that the answers on a session's stream come in the order of the ids.
void TakeAnswers(NativeFront& front, uint32_t tag, uint64_t* answered) {
  for (const std::string& bytes : std::exchange(front.transport.received(tag), {})) {
    v1::SessionResponse response;
    ASSERT(response.ParseFromString(bytes));
    for (const v1::SessionItem& item : response.items()) {
      if (!item.has_response()) continue;
      ASSERT(item.response().id() == *answered + 1, "in the order of the requests");
      *answered = item.response().id();
    }
  }
}

}  // namespace

// Input: steps, each a byte with its kind, and a piece. The requests of a session are numbered
// here, so that its answers can be checked; all else is used as it is.
void Run(Input input) {
  NativeFront front;
  const uint32_t session = front.transport.Open(Method::kSession);
  v1::SessionRequest open;
  open.mutable_open()->set_password(kPassword);
  front.transport.Write(session, open.SerializeAsString());
  front.Settle();
  uint64_t sent = 0;
  uint64_t answered = 0;
  while (!input.empty()) {
    const auto choice = input.Take<uint8_t>();
    const std::string piece(input.TakePiece());
    v1::SessionRequest message;
    if ((choice & 1) != 0 && message.ParseFromString(piece) &&
        !front.transport.outcome(session).has_value()) {
      message.clear_open();
      for (v1::Request& request : *message.mutable_requests()) request.set_id(++sent);
      front.transport.Write(session, message.SerializeAsString());
    } else if ((choice & 1) == 0) {
      const auto method = static_cast<Method>((choice >> 2) % kMethods);
      const uint32_t tag = front.transport.Open(method);
      if (method == Method::kSession) front.transport.Write(tag, open.SerializeAsString());
      front.transport.Write(tag, piece);
      front.transport.HalfClose(tag);
    }
    if ((choice & 2) != 0) continue;
    front.Settle();
    TakeAnswers(front, session, &answered);
  }
  front.Settle();
  TakeAnswers(front, session, &answered);
  ASSERT(front.transport.outcome(session).has_value() || answered == sent, "all are answered");
}

}  // namespace quorate::fuzz
