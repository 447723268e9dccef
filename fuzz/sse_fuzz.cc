// Any bytes: events come out alike in one piece or in many, small limits hold, and what came out is
// written and read back as the same event. Data that is JSON-RPC is read and written too.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "require.h"
#include "wire/json_rpc.h"
#include "wire/sse.h"

using namespace cadre::wire;

namespace {

struct Outcome {
  std::vector<SseEvent> events;
  std::string last_id;
  bool good = true;

  bool operator==(const Outcome&) const = default;
};

Outcome inPieces(std::string_view text, std::size_t size, SseLimits limits) {
  Outcome outcome;
  SseParser parser([&](SseEvent event) { outcome.events.push_back(std::move(event)); }, limits);
  for (std::size_t at = 0; at < text.size() && outcome.good; at += size)
    outcome.good = parser.feed(std::string(text.substr(at, size))).ok();
  outcome.last_id = parser.lastId();
  return outcome;
}

void rpc(std::string_view text) {
  auto messages = parseRpc(text, {.bytes = 1u << 20, .depth = 40, .values = 10000}, 100);
  if (!messages.ok()) return;
  for (const RpcMessage& message : *messages) {
    auto again = parseRpc(writeRpc(message));
    require(again.ok() && again->size() == 1 && again->front() == message);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const SseLimits roomy{};
  Outcome whole = inPieces(text, size + 1, roomy);
  require(whole.good == inPieces(text, 1 + size % 5, roomy).good);
  require(whole == inPieces(text, 1 + size % 7, roomy));

  const SseLimits tight{.line_bytes = 40, .event_bytes = 60};
  Outcome limited = inPieces(text, size + 1, tight);
  require(limited == inPieces(text, 1 + size % 3, tight));
  require(limited.events.size() <= whole.events.size());
  // A byte that is not UTF-8 becomes three.
  for (const SseEvent& event : limited.events)
    require(event.data.size() <= tight.event_bytes * std::size_t{3});

  for (const SseEvent& event : whole.events) {
    Outcome again = inPieces(writeSse(event), 1 + size % 4, roomy);
    require(again.good && again.events == std::vector<SseEvent>{event});
    rpc(event.data);
  }
  rpc(text);
  return 0;
}
