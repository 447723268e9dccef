#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/function.h"
#include "json/value.h"
#include "kube/client.h"
#include "net/loop.h"

namespace cadre::bench {

// What the benchmark programs share. Each is one process for one measurement: it takes flags, does
// its work against a cluster, and prints one line of JSON that bench/run reads. Whatever goes wrong
// ends the process with a message: a measurement with failures in it is none.

// --name value pairs. Once all are read, end() finds those that nobody asked for.
class Flags {
 public:
  Flags(int argc, char** argv);
  void end() const;
  std::string text(const std::string& name, const std::string& fallback);
  std::size_t number(const std::string& name, std::size_t fallback);

 private:
  std::map<std::string, std::string> given_;
};

[[noreturn]] void fail(std::string_view why);
void check(const Result<>& result, std::string_view doing);
template <class T>
T check(Result<T> result, std::string_view doing) {
  if (!result) fail(std::move(result).error().context(std::string(doing)).text());
  return *std::move(result);
}

// From the flag --kubeconfig, with the context --context (by default the one with a token).
kube::Config configFrom(Flags& flags);

// What our own client sends with every request, for those who send without it.
net::Headers rawHeaders(const kube::Config& config);

// How long something took: time, and processor time of this process with all its threads.
struct Cost {
  double seconds, cpu_seconds;
};
class Section {
 public:
  Section();
  Cost cost() const;  // since it was made

 private:
  double wall_, cpu_;
};

// Bytes, as the kernel counts them for this process since it was started.
struct Memory {
  std::int64_t resident;       // VmRSS
  std::int64_t peak;           // VmHWM: the largest resident size so far
  std::int64_t private_dirty;  // what no other process shares and no file backs
};
Memory readMemory();

// One line of JSON.
void print(const json::Object& figures);

// Does `total` operations, `lanes` of them at a time: `start` begins the one of that number and
// calls what it is given when that is done. Runs the loop until all are.
using StartOne = Function<Pending(std::size_t number, Function<void()> done)>;
void runInLanes(net::Loop& loop, std::size_t total, std::size_t lanes, const StartOne& start);

// The kinds that are written and read.
kube::Resource configMaps();
kube::Resource deployments();
kube::Resource services();

// What is written: of the size that a small web service has in practice.
json::Value deploymentObject(const std::string& ns, const std::string& name,
                             const std::string& group);
json::Value serviceObject(const std::string& ns, const std::string& name, const std::string& group);
json::Value deploymentStatusPatch();

// Makes the namespace and waits until it is there.
void createNamespace(net::Loop& loop, kube::Client& client, const std::string& ns);

}  // namespace cadre::bench
