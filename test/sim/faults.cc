#include "sim/faults.h"

#include <deque>
#include <utility>

#include "base/format.h"
#include "json/write.h"

namespace cadre::sim {
namespace {

Error cut(std::string_view what) {
  return {.code = Code::Unavailable, .message = format("the simulation {}", what)};
}

std::string status(int code, std::string_view reason) {
  return json::write(json::Object{{"kind", "Status"},
                                  {"apiVersion", "v1"},
                                  {"status", "Failure"},
                                  {"reason", reason},
                                  {"message", "the simulation says so"},
                                  {"code", code}});
}

}  // namespace

Faults Faults::draw(Random& random) {
  auto up_to = [&](double most) { return random.below(2) == 0 ? 0 : most * random.fraction(); };
  return {.lost_request = up_to(0.2),
          .lost_answer = up_to(0.2),
          .refused = up_to(0.2),
          .conflict = up_to(0.2),
          .cut_watch = up_to(0.9),
          .gone_watch = up_to(0.5),
          .held_watch = up_to(0.2),
          .delay = std::chrono::milliseconds(1 + random.below(200))};
}

// What is heard of an answer comes in order, each piece at its time.
struct FaultyTransport::Exchange : std::enable_shared_from_this<Exchange> {
  Scheduler& scheduler;
  Random& random;
  const Faults& faults;
  net::ResponseHandler handler;
  bool over = false;
  bool watch = false;
  Pending inner = {}, starting = {}, cutting = {}, delivering = {};
  std::deque<std::pair<Instant, Function<void()>>> pieces = {};

  Exchange(Scheduler& scheduler, Random& random, const Faults& faults, net::ResponseHandler handler)
      : scheduler(scheduler), random(random), faults(faults), handler(std::move(handler)) {}

  Duration someTime() {
    return Duration(
        static_cast<std::int64_t>(static_cast<double>(faults.delay.count()) * random.fraction()));
  }

  void deliver(Function<void()> piece) {
    Instant at = scheduler.clock().instant() + someTime();
    if (watch && random.fraction() < faults.held_watch)
      at += std::chrono::milliseconds(random.below(20'000));
    if (!pieces.empty()) at = std::max(at, pieces.back().first);
    pieces.emplace_back(at, std::move(piece));
    if (pieces.size() == 1) schedule();
  }
  void schedule() {
    delivering =
        scheduler.after(std::max<Duration>(0s, pieces.front().first - scheduler.clock().instant()),
                        [weak = weak_from_this()] {
                          auto self = weak.lock();
                          if (!self || self->over) return;
                          auto piece = std::move(self->pieces.front().second);
                          self->pieces.pop_front();
                          piece();
                          if (!self->over && !self->pieces.empty()) self->schedule();
                        });
  }
  void end(Result<> result) {
    if (std::exchange(over, true)) return;
    inner.reset();
    cutting.reset();
    pieces.clear();
    handler.end(std::move(result));
  }
  void fail(std::string_view what) { end(cut(what)); }
  void answer(int code, std::string_view reason) {
    net::Headers headers{{"content-type", "application/json"}};
    if (code == 429) headers.add("retry-after", "1");
    handler.head({code, std::move(headers)});
    if (over) return;
    handler.data(status(code, reason));
    end({});
  }
};

FaultyTransport::FaultyTransport(Scheduler& scheduler, Random& random, const Faults& faults,
                                 std::unique_ptr<net::HttpClient> inner, std::uint64_t& writes)
    : scheduler_(scheduler),
      random_(random),
      faults_(faults),
      inner_(std::move(inner)),
      writes_(writes) {}

Pending FaultyTransport::send(net::HttpRequest request, net::ResponseHandler handler) {
  auto exchange = std::make_shared<Exchange>(scheduler_, random_, faults_, std::move(handler));
  std::weak_ptr<Exchange> weak = exchange;
  exchange->watch = request.target.find("watch=") != std::string::npos;
  bool writes = request.method != "GET";
  exchange->starting = scheduler_.after(
      exchange->someTime(), [this, weak, writes, request = std::move(request)]() mutable {
        auto self = weak.lock();
        if (!self || self->over) return;
        auto happens = [&](double chance) { return random_.fraction() < chance; };
        if (happens(faults_.lost_request)) return self->fail("lost the request");
        if (happens(faults_.refused)) {
          constexpr std::pair<int, std::string_view> kRefusals[] = {
              {429, "TooManyRequests"}, {500, "InternalError"}, {503, "ServiceUnavailable"}};
          auto [code, reason] = kRefusals[random_.below(3)];
          return self->answer(code, reason);
        }
        if (writes && request.method != "POST" && happens(faults_.conflict))
          return self->answer(409, "Conflict");
        if (writes) ++writes_;
        bool lost = !self->watch && happens(faults_.lost_answer);
        if (self->watch && happens(faults_.cut_watch))
          self->cutting =
              scheduler_.after(std::chrono::milliseconds(random_.below(30'000)), [weak] {
                if (auto self = weak.lock()) self->fail("cut the watch");
              });
        if (self->watch && happens(faults_.gone_watch))
          self->cutting =
              scheduler_.after(std::chrono::milliseconds(random_.below(30'000)), [weak] {
                auto self = weak.lock();
                if (!self || self->over) return;
                self->handler.data(
                    format("{{\"type\":\"ERROR\",\"object\":{}}}\n", status(410, "Expired")));
                self->end({});
              });
        self->inner =
            inner_->send(std::move(request),
                         {.head =
                              [weak, lost](net::ResponseHead head) {
                                if (auto self = weak.lock(); self && !lost)
                                  self->deliver([weak, head = std::move(head)] {
                                    if (auto self = weak.lock()) self->handler.head(head);
                                  });
                              },
                          .data =
                              [weak, lost](std::string_view data) {
                                if (auto self = weak.lock(); self && !lost)
                                  self->deliver([weak, data = std::string(data)] {
                                    if (auto self = weak.lock()) self->handler.data(data);
                                  });
                              },
                          .end =
                              [weak, lost](Result<> result) {
                                auto self = weak.lock();
                                if (!self) return;
                                self->deliver([weak, lost, result = std::move(result)]() mutable {
                                  auto self = weak.lock();
                                  if (!self) return;
                                  if (lost) return self->fail("lost the answer");
                                  self->end(std::move(result));
                                });
                              }});
      });
  return Pending([exchange] {
    exchange->over = true;
    exchange->inner.reset();
    exchange->starting.reset();
    exchange->cutting.reset();
    exchange->delivering.reset();
  });
}

}  // namespace cadre::sim
