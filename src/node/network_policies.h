#pragma once

#include <map>
#include <string>

#include "base/random.h"
#include "kube/watch.h"
#include "net/loop.h"
#include "node/policy.h"

namespace cadre::node {

// What NetworkPolicies say now of the pods that this is told of. Belongs to its loop.
class NetworkPolicies {
 public:
  // `changed`: it may be something else than before, for any of them.
  NetworkPolicies(net::Loop& loop, kube::Client& client, Random& random, Function<void()> changed);

  // Before that nobody knows what a pod is allowed.
  bool synced() const { return policies_.synced() && namespaces_.synced(); }
  // A pod as it is now; it is gone.
  void see(const json::Value& pod);
  void forget(const std::string& uid);

  Policy of(const std::string& uid);

 private:
  void lookSoon();

  net::Loop& loop_;
  const Function<void()> changed_;
  std::map<std::string, json::Value> pods_;  // by uid, what counts of them
  PolicyTable table_;
  bool is_old_ = true;  // the table
  Pending soon_;
  kube::Mirror policies_, namespaces_;
};

}  // namespace cadre::node
