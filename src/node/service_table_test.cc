#include "node/service_table.h"

#include "json/parse.h"
#include "json/write.h"
#include "net/connect.h"

namespace cadre::node {
namespace {

TEST(ServiceTable, TravelsAsJson) {
  ServiceTable table;
  table.entries[{"127.96.0.1", 80}] = {"default/web", {{"10.0.0.2", 8080}, {"10.0.0.3", 8080}}};
  table.entries[{"127.96.0.2", 443}] = {"default/none", {}};
  EXPECT_EQ(ServiceTable::parse(*json::parse(json::write(table.toJson()))), table);
  EXPECT_EQ(ServiceTable::parse(json::Value("nonsense")), ServiceTable());
}

TEST(ServiceRelays, ListenWhereTheTableSays) {
  net::Loop loop;
  int asked[2] = {};
  std::vector<std::unique_ptr<net::Relay>> pods;
  for (int i : {0, 1})
    pods.push_back(*net::Relay::listen(loop, {"127.0.0.1", 0}, [&asked, i](const auto&) {
      ++asked[i];
      return std::optional<net::Place>();
    }));
  auto free = net::Relay::listen(loop, {"127.97.0.1", 0}, [](const auto&) { return std::nullopt; });
  net::Place service{"127.97.0.1", (*free)->port()};
  free->reset();
  auto reach = [&](const std::string& address) {
    auto reached = net::await<bool>(loop, [&](auto done) {
      return net::tryConnect(loop, address, service.port, 5s,
                             [done = std::move(done)](auto result) { done(result.ok()); });
    });
    return *reached;
  };
  ServiceRelays relays(loop, nullptr);
  ServiceTable table;
  table.entries[service] = {"default/web",
                            {{"127.0.0.1", pods[0]->port()}, {"127.0.0.1", pods[1]->port()}}};
  relays.listen(table);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(reach("127.97.0.1"));
  EXPECT_TRUE(loop.runUntil([&] { return asked[0] == 2 && asked[1] == 2; }, 10s)) << "in turn";
  table.entries[service].places.clear();
  relays.listen(table);
  EXPECT_FALSE(reach("127.97.0.1")) << "nobody is ready";
  table.entries[service].places = {{"127.0.0.1", pods[0]->port()}};
  relays.listen(table);
  EXPECT_TRUE(reach("127.97.0.1"));
  relays.listen({});
  EXPECT_FALSE(reach("127.97.0.1"));
}

}  // namespace
}  // namespace cadre::node
