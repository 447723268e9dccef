// Writes at full speed while watches are open: whether they stay open, whether each is told exactly
// what happened to the objects that it selects, and how fast the writes are.
//
// Half of the watches look at Deployments and half at Services. Each has a namespace and a label of
// its own, and each object belongs to exactly one watch of its kind.
#include <algorithm>

#include "base/format.h"
#include "support.h"

namespace cadre::bench {
namespace {

constexpr std::size_t kGroups = 10;  // labels per namespace

struct Watch {
  std::size_t expected = 0;
  std::size_t received = 0;
  bool open = true;
  std::string end;
  Pending pending;
};

class Board {
 public:
  Board(kube::Client& client, std::string prefix, std::size_t watches, std::size_t places)
      : client_(client), prefix_(std::move(prefix)), places_(places), watches_(watches) {}

  std::string ns(std::size_t place) const { return format("{}-{}", prefix_, place / kGroups); }
  std::string group(std::size_t place) const { return format("g{}", place % kGroups); }
  std::size_t placeOf(std::size_t number) const { return number % places_; }

  // Watches number w and w + half look at the same place, one at each kind.
  void open(const std::string& version) {
    for (std::size_t i = 0; i < watches_.size(); ++i) {
      std::size_t place = i % places_;
      Watch& watch = watches_[i];
      kube::WatchOptions options{.select = {.ns = ns(place), .labels = "group=" + group(place)},
                                 .resource_version = version,
                                 .timeout = 30min};
      watch.pending = client_.watch(
          i < places_ ? deployments() : services(), options,
          [this, &watch](kube::EventType type, json::Value) {
            if (type == kube::EventType::Bookmark) return;
            ++watch.received;
            ++received_;
          },
          [&watch](Result<> result) {
            watch.open = false;
            watch.end = result ? "the server ended it" : result.error().text();
          });
    }
  }

  void expectDeploymentEvent(std::size_t number) { expect(placeOf(number)); }
  void expectServiceEvent(std::size_t number) { expect(places_ + placeOf(number)); }

  std::size_t received() const { return received_; }
  std::size_t expected() const { return expected_; }
  std::size_t stillOpen() const {
    return static_cast<std::size_t>(std::count_if(watches_.begin(), watches_.end(),
                                                  [](const Watch& watch) { return watch.open; }));
  }
  // Watches that were told of exactly as much as happened.
  std::size_t exact() const {
    return static_cast<std::size_t>(
        std::count_if(watches_.begin(), watches_.end(),
                      [](const Watch& watch) { return watch.received == watch.expected; }));
  }
  std::string firstEnd() const {
    for (const Watch& watch : watches_)
      if (!watch.open) return watch.end;
    return "";
  }

 private:
  void expect(std::size_t watch) {
    if (watch >= watches_.size()) return;  // fewer watches than places: nobody looks there
    ++watches_[watch].expected;
    ++expected_;
  }

  kube::Client& client_;
  const std::string prefix_;
  const std::size_t places_;
  std::vector<Watch> watches_;
  std::size_t received_ = 0, expected_ = 0;
};

void run(Flags& flags) {
  kube::Config config = configFrom(flags);
  std::string prefix = flags.text("ns", "bench");
  std::size_t watch_count = flags.number("watches", 500);
  std::size_t places = flags.number("places", 250);
  std::size_t count = flags.number("count", 1000);
  std::size_t in_flight = flags.number("in-flight", 16);
  flags.end();
  if (watch_count != 0 && watch_count != 2 * places) fail("--watches wants 0 or twice --places");

  net::Loop loop;
  auto client = check(kube::Client::connect(loop, std::move(config)), "connecting");
  for (std::size_t place = 0; place < places; place += kGroups)
    createNamespace(loop, *client, format("{}-{}", prefix, place / kGroups));
  Board board(*client, prefix, watch_count, places);
  auto now = net::await<kube::ListPage>(loop, [&](auto done) {
    return client->listPage(deployments(), {.page = 1}, [](json::Value) {}, std::move(done));
  });
  board.open(check(std::move(now), "asking for the present version").resource_version);
  loop.runUntil([] { return false; }, 3s);  // until every watch is registered at the server
  if (board.stillOpen() != watch_count) fail("a watch did not open: " + board.firstEnd());

  auto finish = [](Function<void()> done) {
    return [done = std::move(done)](Result<json::Value> answer) {
      if (!answer) fail(answer.error().text());
      done();
    };
  };
  auto nameOf = [](std::size_t number) { return format("web-{}", number); };
  Section section;
  runInLanes(loop, count, in_flight, [&](std::size_t number, Function<void()> done) {
    std::size_t place = board.placeOf(number);
    board.expectDeploymentEvent(number);
    return client->create(deployments(),
                          deploymentObject(board.ns(place), nameOf(number), board.group(place)), {},
                          finish(std::move(done)));
  });
  runInLanes(loop, count, in_flight, [&](std::size_t number, Function<void()> done) {
    std::size_t place = board.placeOf(number);
    board.expectServiceEvent(number);
    return client->create(services(),
                          serviceObject(board.ns(place), nameOf(number), board.group(place)), {},
                          finish(std::move(done)));
  });
  runInLanes(loop, count, in_flight, [&](std::size_t number, Function<void()> done) {
    board.expectDeploymentEvent(number);
    return client->patch(deployments(), {board.ns(board.placeOf(number)), nameOf(number)},
                         kube::PatchType::Merge, deploymentStatusPatch(), {.subresource = "status"},
                         finish(std::move(done)));
  });
  Cost cost = section.cost();
  // What is on its way still counts; and what came twice would come now.
  loop.runUntil([&] { return board.received() >= board.expected(); }, 30s);
  double last_event = section.cost().seconds;
  loop.runUntil([] { return false; }, 1s);

  Memory memory = readMemory();
  print({{"writes", 3 * count},
         {"seconds", cost.seconds},
         {"cpu_seconds", cost.cpu_seconds},
         {"watches", watch_count},
         {"open", board.stillOpen()},
         {"exact", board.exact()},
         {"expected_events", board.expected()},
         {"received_events", board.received()},
         {"seconds_to_last_event", last_event},
         {"first_end", board.firstEnd()},
         {"resident_bytes", memory.resident},
         {"peak_bytes", memory.peak}});
}

}  // namespace
}  // namespace cadre::bench

int main(int argc, char** argv) {
  cadre::bench::Flags flags(argc, argv);
  cadre::bench::run(flags);
}
