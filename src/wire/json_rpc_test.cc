#include "wire/json_rpc.h"

#include "json/parse.h"

namespace cadre::wire {
namespace {

using testing::HasSubstr;

TEST(JsonRpc, ReadsAndWritesMessages) {
  struct {
    const char* text;
    RpcMessage message;
  } cases[] = {
      {R"({"id":1,"jsonrpc":"2.0","method":"tools/list"})", RpcRequest{1, "tools/list"}},
      {R"({"id":"a","jsonrpc":"2.0","method":"m","params":{"x":1}})",
       RpcRequest{"a", "m", json::Object{{"x", 1}}}},
      {R"({"jsonrpc":"2.0","method":"m","params":[1]})", RpcNotification{"m", json::Array{1}}},
      {R"({"id":1,"jsonrpc":"2.0","result":{}})", RpcResponse{1, json::Value(json::Object{})}},
      {R"({"id":1,"jsonrpc":"2.0","result":null})", RpcResponse{1, json::Value()}},
      {R"({"error":{"code":-32601,"message":"no"},"id":1,"jsonrpc":"2.0"})",
       RpcResponse{1, RpcError{-32601, "no"}}},
      {R"({"error":{"code":1,"data":[2],"message":""},"id":null,"jsonrpc":"2.0"})",
       RpcResponse{std::nullopt, RpcError{1, "", json::Array{2}}}},
  };
  for (const auto& [text, message] : cases) {
    SCOPED_TRACE(text);
    auto read = parseRpc(text);
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(*read, std::vector<RpcMessage>{message});
    EXPECT_EQ(writeRpc(message), text);
  }
}

TEST(JsonRpc, IsPatientWithHabits) {
  struct {
    const char* text;
    RpcMessage message;
  } cases[] = {
      {R"({"jsonrpc":"2.0","id":1,"result":3,"error":null})", RpcResponse{1, json::Value(3)}},
      {R"({"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":"m"}})",
       RpcResponse{1, RpcError{1, "m"}}},
      {R"({"jsonrpc":"2.0","id":1.0,"method":"m","params":null,"more":true})", RpcRequest{1, "m"}},
      {R"({"jsonrpc":"2.0","error":{"code":1,"message":"m"}})",
       RpcResponse{std::nullopt, RpcError{1, "m"}}},
  };
  for (const auto& [text, message] : cases) {
    SCOPED_TRACE(text);
    auto read = parseRpc(text);
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(read->front(), message);
  }
}

TEST(JsonRpc, RefusesWhatIsNoMessage) {
  struct {
    const char* text;
    Code code;
    const char* why;
  } cases[] = {
      {"", Code::DataLoss, ""},
      {"{", Code::DataLoss, ""},
      {"nonsense", Code::InvalidArgument, ""},
      {"1", Code::InvalidArgument, "type integer"},
      {"[]", Code::InvalidArgument, "empty batch"},
      {"[1]", Code::InvalidArgument, "type integer"},
      {"[[]]", Code::InvalidArgument, "type array"},
      {R"({"id":1,"method":"m"})", Code::InvalidArgument, "2.0"},
      {R"({"jsonrpc":2.0,"id":1,"method":"m"})", Code::InvalidArgument, "2.0"},
      {R"({"jsonrpc":"2.0"})", Code::InvalidArgument, "no method, result or error"},
      {R"({"jsonrpc":"2.0","id":1,"error":null})", Code::InvalidArgument, "no method"},
      {R"({"jsonrpc":"2.0","id":1,"method":1})", Code::InvalidArgument,
       "method is of type integer"},
      {R"({"jsonrpc":"2.0","id":null,"method":"m"})", Code::InvalidArgument, "id is of type null"},
      {R"({"jsonrpc":"2.0","id":1.5,"method":"m"})", Code::InvalidArgument, "id is of type number"},
      {R"({"jsonrpc":"2.0","id":1e300,"method":"m"})", Code::InvalidArgument,
       "id is of type number"},
      {R"({"jsonrpc":"2.0","id":{},"result":1})", Code::InvalidArgument, "id is of type object"},
      {R"({"jsonrpc":"2.0","id":1,"method":"m","params":"x"})", Code::InvalidArgument,
       "params are of type string"},
      {R"({"jsonrpc":"2.0","id":1,"method":"m","result":1})", Code::InvalidArgument,
       "a method and an outcome"},
      {R"({"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":"m"}})",
       Code::InvalidArgument, "a result and an error"},
      {R"({"jsonrpc":"2.0","result":1})", Code::InvalidArgument, "no id"},
      {R"({"jsonrpc":"2.0","id":1,"error":"no"})", Code::InvalidArgument,
       "error is of type string"},
      {R"({"jsonrpc":"2.0","id":1,"error":{"message":"m"}})", Code::InvalidArgument, "no code"},
      {R"({"jsonrpc":"2.0","id":1,"error":{"code":1,"message":[]}})", Code::InvalidArgument,
       "no message"},
  };
  for (const auto& [text, code, why] : cases) {
    SCOPED_TRACE(text);
    auto read = parseRpc(text);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, code);
    EXPECT_THAT(read.error().text(), HasSubstr(why));
  }
  std::string deep(200, '[');
  EXPECT_EQ(parseRpc(deep, {.depth = 64}).error().code, Code::ResourceExhausted);
  std::string batch = "[";
  for (int i = 0; i < 11; ++i)
    batch += std::string(i ? "," : "") + R"({"jsonrpc":"2.0","method":"m"})";
  EXPECT_EQ(parseRpc(batch + "]", {}, 11)->size(), 11u);
  EXPECT_EQ(parseRpc(batch + "]", {}, 10).error().code, Code::ResourceExhausted);
}

TEST(JsonRpc, AnswersBelongToTheirRequest) {
  RpcResponse response{.id = RpcId(7), .outcome = json::Value(1)};
  EXPECT_TRUE(response.answers(7));
  EXPECT_FALSE(response.answers(8));
  EXPECT_FALSE(response.answers("7"));
  EXPECT_FALSE((RpcResponse{.id = std::nullopt, .outcome = RpcError{}}.answers(7)));
}

TEST(JsonRpc, ErrorsBecomeOurs) {
  struct {
    std::int64_t number;
    Code code;
  } cases[] = {{-32601, Code::Unimplemented},   {-32602, Code::InvalidArgument},
               {-32600, Code::InvalidArgument}, {-32603, Code::Internal},
               {-32000, Code::Internal},        {5, Code::Internal}};
  for (auto [number, code] : cases) {
    Error error = toError({.code = number, .message = "it broke"});
    EXPECT_EQ(error.code, code) << number;
    EXPECT_THAT(error.text(), HasSubstr("it broke"));
    EXPECT_EQ(rpcCode(error.context("calling")), number);
  }
  EXPECT_EQ(rpcCode(Error{.message = "other"}), std::nullopt);
  EXPECT_LT(toError({.message = std::string(100000, 'x')}).text().size(), 1000u);
}

}  // namespace
}  // namespace cadre::wire
