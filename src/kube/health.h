#pragma once

#include <string>

#include "json/value.h"

namespace cadre::kube {

// Whether what an object asks for has come about, by what its status says. Of kinds that are not
// known here, by generation and by a condition Ready; an object that says nothing is healthy.
struct Health {
  enum class State { Healthy, Progressing, Failed };
  State state = State::Healthy;
  std::string why = {};  // when it is not healthy: "1 of 3 replicas are available"

  bool ok() const { return state == State::Healthy; }
};

Health healthOf(const json::Value& object);

}  // namespace cadre::kube
