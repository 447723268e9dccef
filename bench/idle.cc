// A client that has one watch open, over TLS, with nothing to do: how much memory that takes.
#include "kube/watch.h"
#include "support.h"

namespace cadre::bench {
namespace {

void run(Flags& flags) {
  kube::Config config = configFrom(flags);
  std::string ns = flags.text("ns", "default");
  auto quiet = std::chrono::seconds(flags.number("quiet-seconds", 3));
  flags.end();

  net::Loop loop;
  auto client = check(kube::Client::connect(loop, std::move(config)), "connecting");
  Random random = Random::fromSystem();
  kube::Mirror mirror(*client, {.resource = configMaps(), .select = {.ns = ns}}, random);
  if (!loop.runUntil([&] { return mirror.synced(); }, 30s))
    fail("not in sync within 30 seconds: " + mirror.trouble());
  loop.runUntil([] { return false; }, quiet);
  if (!mirror.trouble().empty()) fail(mirror.trouble());

  Memory memory = readMemory();
  print({{"objects", mirror.size()},
         {"resident_bytes", memory.resident},
         {"private_dirty_bytes", memory.private_dirty},
         {"peak_bytes", memory.peak}});
}

}  // namespace
}  // namespace cadre::bench

int main(int argc, char** argv) {
  cadre::bench::Flags flags(argc, argv);
  cadre::bench::run(flags);
}
