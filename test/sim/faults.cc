#include "sim/faults.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/format.h"
#include "json/parse.h"
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

bool has(const net::HttpRequest& request, std::string_view option) {
  return request.target.find(option) != std::string::npos;
}

bool isAbout(const net::HttpRequest& request, const std::string& plural) {
  return request.method == "GET" &&
         request.target.substr(0, request.target.find('?')).ends_with("/" + plural);
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

// ---- Process

void Process::post(Function<void()> task) {
  world_.post([weak = std::weak_ptr(state_), task = std::move(task)]() mutable {
    auto state = weak.lock();
    if (!state) return;
    if (!state->stopped) return task();
    state->posted.push_back(std::move(task));
  });
}

Pending Process::after(Duration delay, Function<void()> task) {
  auto timer = std::make_shared<Timer>(std::move(task));
  arm(timer, delay);
  return Pending([timer] {
    timer->pending.reset();
    timer->task = nullptr;
  });
}

void Process::arm(const std::shared_ptr<Timer>& timer, Duration delay) {
  timer->pending = world_.after(delay, [weak = std::weak_ptr(state_), timer] {
    auto state = weak.lock();
    if (!state) return;
    if (state->stopped) return state->late.push_back(timer);
    if (auto task = std::exchange(timer->task, nullptr)) task();
  });
}

void Process::goOn(Random& random) {
  state_->stopped = false;
  for (const auto& timer : std::exchange(state_->late, {}))
    arm(timer, std::chrono::milliseconds(random.below(100)));
  for (auto& task : std::exchange(state_->posted, {})) post(std::move(task));
}

// ---- FaultyTransport

// What is heard of an answer comes in order, each piece at its time.
struct FaultyTransport::Exchange : std::enable_shared_from_this<Exchange> {
  Network& network;
  Process& process;  // not once it is over
  std::shared_ptr<Way> way;
  net::ResponseHandler handler;
  bool over = false;
  bool watch = false, writes = false;
  Pending inner = {}, starting = {}, cutting = {}, delivering = {};
  std::deque<std::pair<Instant, Function<void()>>> pieces = {};

  Exchange(Network& network, Process& process, std::shared_ptr<Way> way,
           net::ResponseHandler handler)
      : network(network), process(process), way(std::move(way)), handler(std::move(handler)) {}

  Instant now() const { return network.scheduler.clock().instant(); }
  bool happens(double chance) { return network.random.fraction() < chance; }
  Duration someTime() {
    return Duration(static_cast<std::int64_t>(static_cast<double>(network.faults.delay.count()) *
                                              network.random.fraction()));
  }
  Duration upTo(std::uint64_t milliseconds) {
    return std::chrono::milliseconds(network.random.below(milliseconds));
  }

  void deliver(Function<void()> piece) {
    if (over) return;
    Instant at = now() + someTime();
    if (watch && happens(network.faults.held_watch)) at += upTo(20'000);
    if (!pieces.empty()) at = std::max(at, pieces.back().first);
    pieces.emplace_back(at, std::move(piece));
    if (pieces.size() == 1) schedule();
  }
  void schedule() {
    delivering = process.after(pieces.front().first - now(), [weak = weak_from_this()] {
      auto self = weak.lock();
      if (!self || self->over) return;
      auto piece = std::move(self->pieces.front().second);
      self->pieces.pop_front();
      piece();
      if (!self->over && !self->pieces.empty()) self->schedule();
    });
  }
  void end(Result<> result) {
    if (!std::exchange(over, true)) handler.end(std::move(result));
  }
  // The last that is heard, and what was on its way is not.
  void conclude(std::string text, Result<> result, net::ResponseHead head = {}) {
    inner.reset();
    cutting.reset();
    pieces.clear();
    deliver([this, text = std::move(text), head = std::move(head),
             result = std::move(result)]() mutable {
      if (head.status > 0) handler.head(std::move(head));
      if (!over && !text.empty()) handler.data(text);
      end(std::move(result));
    });
  }
  void fail(std::string_view what) { conclude("", cut(what)); }
  void answer(int code, std::string_view reason) {
    net::Headers headers{{"content-type", "application/json"}};
    if (code == 429) headers.add("retry-after", "1");
    conclude(status(code, reason), {}, {code, std::move(headers)});
  }

  void arrive(net::HttpRequest request);
  void forward(net::HttpRequest request);
};

void FaultyTransport::Exchange::arrive(net::HttpRequest request) {
  const Faults& faults = network.faults;
  if (happens(faults.lost_request)) return fail("lost the request");
  if (happens(faults.refused)) {
    constexpr std::pair<int, std::string_view> kRefusals[] = {
        {429, "TooManyRequests"}, {500, "InternalError"}, {503, "ServiceUnavailable"}};
    auto [code, reason] = kRefusals[network.random.below(3)];
    return answer(code, reason);
  }
  if (writes && request.method != "POST" && happens(faults.conflict))
    return answer(409, "Conflict");
  if (network.stale && now() < network.stale->until && isAbout(request, network.stale->plural)) {
    if (has(request, "sendInitialEvents=")) return answer(400, "Invalid");  // it has only lists
    if (watch) {
      starting = network.scheduler.after(
          network.stale->until - now(),
          [weak = weak_from_this(), request = std::move(request)]() mutable {
            if (auto self = weak.lock()) self->forward(std::move(request));
          });
      return;
    }
    if (!has(request, "continue="))
      request.target += format("{}resourceVersion={}&resourceVersionMatch=Exact",
                               has(request, "?") ? "&" : "?", network.stale->revision);
  }
  forward(std::move(request));
}

void FaultyTransport::Exchange::forward(net::HttpRequest request) {
  auto weak = weak_from_this();
  way->arrives(request);
  bool lost = !watch && happens(network.faults.lost_answer);
  if (watch && happens(network.faults.cut_watch))
    cutting = network.scheduler.after(upTo(30'000), [weak] {
      if (auto self = weak.lock()) self->fail("cut the watch");
    });
  if (watch && happens(network.faults.gone_watch))
    cutting = network.scheduler.after(upTo(30'000), [weak] {
      if (auto self = weak.lock())
        self->conclude(format("{{\"type\":\"ERROR\",\"object\":{}}}\n", status(410, "Expired")),
                       {});
    });
  inner = way->inner->send(
      std::move(request),
      {.head =
           [weak, lost](net::ResponseHead head) {
             if (auto self = weak.lock(); self && !lost)
               self->deliver(
                   [self = self.get(), head = std::move(head)] { self->handler.head(head); });
           },
       .data =
           [weak, lost](std::string_view data) {
             if (auto self = weak.lock(); self && !lost)
               self->deliver(
                   [self = self.get(), data = std::string(data)] { self->handler.data(data); });
           },
       .end =
           [weak, lost](Result<> result) {
             auto self = weak.lock();
             if (self && lost) return self->fail("lost the answer");
             if (self)
               self->deliver([self = self.get(), result = std::move(result)]() mutable {
                 self->end(std::move(result));
               });
           }});
}

Pending FaultyTransport::send(net::HttpRequest request, net::ResponseHandler handler) {
  auto exchange = std::make_shared<Exchange>(network_, process_, way_, std::move(handler));
  exchange->watch = has(request, "watch=");
  exchange->writes = request.method != "GET";
  exchange->starting = network_.scheduler.after(
      exchange->someTime(),
      [weak = std::weak_ptr(exchange), request = std::move(request)]() mutable {
        if (auto self = weak.lock()) self->arrive(std::move(request));
      });
  return Pending([exchange] {
    if (std::exchange(exchange->over, true)) return;
    exchange->delivering.reset();
    if (exchange->writes) return exchange->network.strays.push_back(exchange);
    for (Pending* pending : {&exchange->inner, &exchange->starting, &exchange->cutting})
      pending->reset();
  });
}

// ---- BadWebhook

Pending BadWebhook::send(net::HttpRequest request, net::ResponseHandler handler) {
  auto heard = std::make_shared<net::ResponseHandler>(std::move(handler));
  std::uint64_t how = random_.below(4);
  if (how < 2)
    return scheduler_.after(how == 0 ? 1ms : request.timeout,
                            [heard] { heard->end(cut("has no such webhook")); });
  auto review = json::parse(request.body);
  json::Object said{{"uid", review ? (*review)["request"]["uid"] : json::Value()},
                    {"allowed", false},
                    {"status", json::Object{{"code", how == 2 ? 403 : 422}, {"message", "no"}}}};
  std::string body = json::write(json::Object{{"apiVersion", "admission.k8s.io/v1"},
                                              {"kind", "AdmissionReview"},
                                              {"response", std::move(said)}});
  return scheduler_.after(1ms, [heard, body = std::move(body)] {
    heard->head({200, {{"content-type", "application/json"}}});
    heard->data(body);
    static const Result<>
        kGood;  // g++ 12 takes a temporary for uninitialized under AddressSanitizer
    heard->end(kGood);
  });
}

}  // namespace cadre::sim
