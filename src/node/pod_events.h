#pragma once

#include <map>
#include <string>

#include "base/log.h"
#include "kube/client.h"

namespace cadre::node {

// What happens to pods, as Events for people. The same once more is counted; what comes often is
// written now and then.
class PodEvents {
 public:
  enum class Type { Normal, Warning };

  PodEvents(kube::Client& client, std::string node) : client_(client), node_(std::move(node)) {}

  // `container`: empty, it is of the whole pod.
  void tell(const json::Value& pod, std::string_view container, Type type, std::string_view reason,
            std::string_view message);
  // The pod is gone.
  void forget(std::string_view pod);

 private:
  struct Told {
    std::string pod;  // its uid
    std::int64_t count = 0;
    Time written;
    Pending writing;
  };

  kube::Client& client_;
  const std::string node_;
  std::map<std::string, Told> told_;  // by the Event's name
};

}  // namespace cadre::node
