// Brings the objects of a namespace into memory, complete with their data, and tells how long that
// took and the most memory it needed. Whether the server streams the list or hands it out in pages
// is the server's choice, as it is for every Watcher.
//
//   --hold mirror    as kube::Mirror holds them: packed
//   --hold text      as compact JSON text, to be parsed when it is looked at
//   --hold nothing   the limit: the same bytes come and are thrown away (--list pages or stream)
//   --fill N         makes N ConfigMaps of about 1 KiB instead: --data settings, as people have
//                    them, or --data letters, drawn by lot: the worst for who packs
#include <algorithm>
#include <cctype>
#include <map>

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "json/write.h"
#include "kube/protobuf.h"
#include "kube/watch.h"
#include "net/http_client.h"
#include "support.h"

namespace cadre::bench {
namespace {

constexpr std::size_t kKeys = 4;
constexpr std::size_t kBytesPerKey = 256;

std::string drawLetters(Random& random) {
  static constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyz0123456789-_ \n";
  std::string text(kBytesPerKey, ' ');
  for (char& c : text) c = kLetters[random.below(sizeof kLetters - 1)];
  return text;
}

// Lines of a properties file: "cache.retry.limit = 4711".
std::string drawSettings(Random& random) {
  static constexpr std::string_view kWords[] = {
      "server",   "timeout", "seconds", "cache",  "size",    "host",    "port",   "log",
      "level",    "path",    "enabled", "retry",  "limit",   "queue",   "worker", "pool",
      "max",      "min",     "buffer",  "region", "bucket",  "session", "user",   "group",
      "policy",   "mode",    "format",  "batch",  "flush",   "replica", "shard",  "index",
      "interval", "topic",   "broker",  "client", "request", "header",  "proxy",  "backend"};
  auto word = [&] { return kWords[random.below(std::size(kWords))]; };
  std::string text;
  while (text.size() < kBytesPerKey) {
    text += format("{}.{}.{} = ", word(), word(), word());
    text += random.below(2) ? format("{}\n", random.below(100'000)) : format("{}\n", word());
  }
  text.resize(kBytesPerKey);
  return text;
}

json::Value configMap(const std::string& ns, std::size_t number, bool letters, Random& random) {
  json::Object data;
  for (std::size_t key = 0; key < kKeys; ++key)
    data.set(format("part-{}.conf", key), letters ? drawLetters(random) : drawSettings(random));
  return json::Object{
      {"apiVersion", "v1"},
      {"kind", "ConfigMap"},
      {"metadata",
       json::Object{{"name", format("settings-{}", number)},
                    {"namespace", ns},
                    {"labels", json::Object{{"app.kubernetes.io/name", format("app-{}", number)},
                                            {"app.kubernetes.io/managed-by", "bench"}}}}},
      {"data", std::move(data)}};
}

void fill(net::Loop& loop, kube::Client& client, const std::string& ns, std::size_t count,
          bool letters) {
  createNamespace(loop, client, ns);
  Random random(1);
  runInLanes(loop, count, 32, [&](std::size_t number, Function<void()> done) {
    return client.create(configMaps(), configMap(ns, number, letters, random), {},
                         [done = std::move(done)](Result<json::Value> made) {
                           if (!made) fail(made.error().text());
                           done();
                         });
  });
}

struct Picture {
  std::size_t objects = 0;
  std::size_t data_bytes = 0;  // of the values under "data": what shows that all is there
  std::size_t text_bytes = 0;  // of the objects as text, where they are held so
};

void count(Picture& picture, const json::Value& object) {
  ++picture.objects;
  for (const auto& [key, value] : object["data"].object())
    picture.data_bytes += value.string().size();
}

void report(const Cost& cost, const Memory& memory, const Picture& picture) {
  print({{"objects", picture.objects},
         {"data_bytes", picture.data_bytes},
         {"text_bytes", picture.text_bytes},
         {"seconds", cost.seconds},
         {"cpu_seconds", cost.cpu_seconds},
         {"resident_bytes", memory.resident},
         {"peak_bytes", memory.peak}});
}

void holdMirror(net::Loop& loop, kube::Client& client, const std::string& ns) {
  Random random = Random::fromSystem();
  Section section;
  kube::Mirror mirror(client, {.resource = configMaps(), .select = {.ns = ns}}, random);
  if (!loop.runUntil([&] { return mirror.synced(); }, 5min))
    fail("not in sync within 5 minutes: " + mirror.trouble());
  Cost cost = section.cost();
  Memory memory = readMemory();
  Picture picture;
  mirror.forEach([&](const kube::ObjectKey&, const json::Value& o) { count(picture, o); });
  report(cost, memory, picture);
}

void holdText(net::Loop& loop, kube::Client& client, const std::string& ns) {
  Random random = Random::fromSystem();
  std::map<kube::ObjectKey, std::string> objects;
  bool synced = false;
  Section section;
  kube::WatchHandler handler;
  handler.begin = [&] { objects.clear(); };
  handler.item = [&](json::Value object) {
    std::string text = json::write(object);
    text.shrink_to_fit();  // it was written with room to grow
    objects[kube::ObjectKey::of(object)] = std::move(text);
  };
  handler.synced = [&] { synced = true; };
  handler.failed = [](const Error& error) { fail(error.text()); };
  kube::Watcher watcher(client, {.resource = configMaps(), .select = {.ns = ns}}, random,
                        std::move(handler));
  if (!loop.runUntil([&] { return synced; }, 5min)) fail("not in sync within 5 minutes");
  Cost cost = section.cost();
  Memory memory = readMemory();
  Picture picture;
  for (const auto& [key, text] : objects) {
    json::Value object = check(json::parse(text), "reading an object");
    count(picture, object);
    picture.text_bytes += text.size();
  }
  report(cost, memory, picture);
}

// The continue token of a page that is not parsed, from the beginning of its protobuf; empty when
// it is not there. The server makes it from JSON as base64.
std::string findContinueToken(std::string_view head) {
  auto at = head.find("eyJ");
  if (at == head.npos) return "";
  auto isBase64 = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  };
  auto end = std::find_if_not(head.begin() + static_cast<std::ptrdiff_t>(at), head.end(), isBase64);
  return std::string(head.begin() + static_cast<std::ptrdiff_t>(at), end);
}

net::Headers headers(const kube::Config& config) {
  return {{"Accept", std::string(kube::kProtobufType)},
          {"Authorization", "Bearer " + config.token}};
}

void throwAwayPages(net::Loop& loop, net::HttpClient& http, const kube::Config& config,
                    const std::string& ns) {
  Picture picture;
  Section section;
  std::string token;
  do {
    std::string target = configMaps().path(ns) + "?limit=500";
    if (!token.empty()) target += "&continue=" + urlEncode(token);
    std::string head;  // the continue token stands before the items
    auto done = net::await<bool>(loop, [&](auto finish) {
      net::ResponseHandler handler;
      handler.data = [&](std::string_view piece) {
        picture.data_bytes += piece.size();
        if (head.size() < 512) head += piece.substr(0, 512 - head.size());
      };
      handler.end = [finish = std::move(finish)](Result<> result) {
        check(result, "listing");
        finish(true);
      };
      return http.send({.target = target, .headers = headers(config)}, std::move(handler));
    });
    check(std::move(done), "listing");
    token = findContinueToken(head);
  } while (!token.empty());
  report(section.cost(), readMemory(), picture);
}

void throwAwayStream(net::Loop& loop, net::HttpClient& http, const kube::Config& config,
                     const std::string& ns) {
  Picture picture;
  bool complete = false;
  std::string last;  // the end mark may lie across two pieces
  net::ResponseHandler handler;
  handler.data = [&](std::string_view piece) {
    picture.data_bytes += piece.size();
    last += piece.substr(piece.size() - std::min<std::size_t>(piece.size(), 2048));
    complete = last.find("k8s.io/initial-events-end") != last.npos;
    last.erase(0, last.size() - std::min<std::size_t>(last.size(), 2048));
  };
  handler.end = [](Result<>) { fail("the stream ended"); };
  std::string target = configMaps().path(ns) +
                       "?watch=true&allowWatchBookmarks=true&sendInitialEvents=true"
                       "&resourceVersionMatch=NotOlderThan&timeoutSeconds=300";
  Section section;
  Pending stream = http.send({.target = target, .headers = headers(config)}, std::move(handler));
  if (!loop.runUntil([&] { return complete; }, 5min)) fail("the list did not end");
  report(section.cost(), readMemory(), picture);
}

void run(Flags& flags) {
  kube::Config config = configFrom(flags);
  std::string ns = flags.text("ns", "bench");
  std::size_t fill_count = flags.number("fill", 0);
  std::string data = flags.text("data", "settings");
  std::string hold = flags.text("hold", "mirror");
  std::string list = flags.text("list", "pages");
  flags.end();

  net::Loop loop;
  if (hold == "nothing") {
    auto http =
        check(net::makeHttpClient(loop, {.url = config.server, .tls = config.tls}), "connecting");
    return list == "stream" ? throwAwayStream(loop, *http, config, ns)
                            : throwAwayPages(loop, *http, config, ns);
  }
  auto client = check(kube::Client::connect(loop, config), "connecting");
  if (fill_count > 0) return fill(loop, *client, ns, fill_count, data == "letters");
  if (hold == "mirror") return holdMirror(loop, *client, ns);
  if (hold == "text") return holdText(loop, *client, ns);
  fail(format("objects cannot be held as \"{}\"", hold));
}

}  // namespace
}  // namespace cadre::bench

int main(int argc, char** argv) {
  cadre::bench::Flags flags(argc, argv);
  cadre::bench::run(flags);
}
