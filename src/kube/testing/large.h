#pragma once

#include <string>

#include "base/format.h"
#include "json/value.h"

namespace cadre::kube {

// For tables: the value with what is too long to be written out in its place.
//   {$repeat: {text: x, times: 100000}}     the text that often
//   {$numbered: {text: tool-, times: 300}}  the list of tool-000 to tool-299
inline json::Value enlarged(const json::Value& value) {
  if (value.isArray()) {
    json::Array list;
    for (const json::Value& element : value.array()) list.push_back(enlarged(element));
    return list;
  }
  if (!value.isObject()) return value;
  if (const json::Value& repeat = value["$repeat"]; !repeat.isNull()) {
    std::string text;
    for (std::int64_t i = 0; i < repeat["times"].integer(); ++i) text += repeat["text"].string();
    return text;
  }
  if (const json::Value& numbered = value["$numbered"]; !numbered.isNull()) {
    json::Array list;
    for (std::int64_t i = 0; i < numbered["times"].integer(); ++i)
      list.emplace_back(format("{}{:03}", numbered["text"].string(), i));
    return list;
  }
  json::Value object = json::Object{};
  for (const auto& [key, member] : value.object()) object.make(key) = enlarged(member);
  return object;
}

}  // namespace cadre::kube
