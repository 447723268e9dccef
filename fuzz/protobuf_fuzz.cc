// Any bytes, as an object, a list and a watch: the readers take them or refuse them with a
// sentence, in one piece or in many alike, and what they take is JSON.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "json/parse.h"
#include "json/write.h"
#include "kube/protobuf.h"
#include "kube/types.h"
#include "require.h"

using namespace cadre;

namespace {

const json::ParseOptions kOptions{.limits = {.bytes = 1u << 20, .depth = 40, .values = 10000}};

void requireJson(const json::Value& value) {
  auto again = json::parse(json::write(value));
  require(again.ok() && *again == value);
}

template <class MakeParser>
std::string inPieces(MakeParser make, std::string_view bytes, std::size_t size) {
  std::string out;
  auto parser = make([&](json::Value value) {
    requireJson(value);
    out += json::write(value);
  });
  for (std::size_t at = 0; at < bytes.size(); at += size)
    if (!parser.feed(std::string(bytes.substr(at, size))).ok()) break;
  auto end = parser.finish();
  if (!end.ok()) require(!end.error().message.empty());
  return out + (end.ok() ? "" : end.error().text());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  static const auto kinds = kube::builtInKinds();
  const kube::GroupVersionKind& kind = kinds[data[0] % kinds.size()].gvk;

  if (auto value = kube::parseProtobuf(bytes, kOptions); value.ok()) requireJson(*value);
  auto list = [&](auto on_item) {
    return kube::ProtobufListParser(kind, std::move(on_item), kOptions);
  };
  require(inPieces(list, bytes, size) == inPieces(list, bytes, 1 + size % 7));
  auto watch = [&](auto on_event) {
    return kube::ProtobufStreamParser(std::move(on_event), kOptions);
  };
  require(inPieces(watch, bytes, size) == inPieces(watch, bytes, 1 + size % 5));
  return 0;
}
