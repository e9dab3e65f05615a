// SPDX-License-Identifier: Apache-2.0

// Measures the decoding of a client's bytes to a command, and the encoding of a result as a reply.

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "base/assert.h"
#include "base/bytes.h"
#include "rpc/zookeeper/protocol.h"
#include "tree/command.h"

namespace quorate::bench {
namespace {

using rpc::zk::OpCode;

const std::string kPath = "/services/payments/node-0000000042";

std::string SetDataBody() {
  std::string body;
  BigEndianWriter writer(&body);
  writer.String(kPath);
  writer.String(std::string(100, 'd'));
  writer.Int(int32_t{-1});
  return body;
}

void BM_DecodeSetData(benchmark::State& state) {
  const std::string body = SetDataBody();
  for (auto unused : state) {
    tree::Request request;
    std::vector<OpCode> shapes;
    const tree::ErrorCode error = rpc::zk::DecodeWrite(OpCode::kSetData, body, &request, &shapes);
    ASSERT(error == tree::ErrorCode::kOk);
    benchmark::DoNotOptimize(request);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_DecodeSetData);

void BM_EncodeCommand(benchmark::State& state) {
  const std::string body = SetDataBody();
  tree::Request request;
  std::vector<OpCode> shapes;
  ASSERT(rpc::zk::DecodeWrite(OpCode::kSetData, body, &request, &shapes) == tree::ErrorCode::kOk);
  std::string command;
  for (auto unused : state) {
    command.clear();
    tree::AppendRequest({}, request, &command);
    benchmark::DoNotOptimize(command);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_EncodeCommand);

void BM_DecodeCommand(benchmark::State& state) {
  tree::Request request;
  std::vector<OpCode> shapes;
  const std::string body = SetDataBody();
  ASSERT(rpc::zk::DecodeWrite(OpCode::kSetData, body, &request, &shapes) == tree::ErrorCode::kOk);
  std::string command;
  tree::AppendRequest({}, request, &command);
  for (auto unused : state) {
    auto decoded = tree::DecodeRequest(command);
    ASSERT(decoded.ok());
    benchmark::DoNotOptimize(decoded);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_DecodeCommand);

void BM_DecodeGetData(benchmark::State& state) {
  std::string body;
  BigEndianWriter writer(&body);
  writer.String(kPath);
  writer.Int(int8_t{0});
  for (auto unused : state) {
    rpc::zk::ReadRequest request;
    ASSERT(rpc::zk::DecodeReadRequest(body, /*has_watch_flag=*/true, &request));
    benchmark::DoNotOptimize(request);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_DecodeGetData);

void BM_EncodeGetDataReply(benchmark::State& state) {
  const std::string data(100, 'd');
  const tree::Stat stat;
  std::string out;
  for (auto unused : state) {
    out.clear();
    {
      rpc::zk::ReplyWriter reply(&out, 1, tree::Zxid(7), tree::ErrorCode::kOk);
      rpc::zk::WriteData(true, data, reply.body());
      rpc::zk::WriteStat(stat, reply.body());
    }
    benchmark::DoNotOptimize(out);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_EncodeGetDataReply);

}  // namespace
}  // namespace quorate::bench
