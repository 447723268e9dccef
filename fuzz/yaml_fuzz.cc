// Any text: the reader takes it or refuses it, and what it takes is written as YAML and as JSON and
// read back as the same value.

#include <cstdint>
#include <string_view>

#include "json/parse.h"
#include "json/write.h"
#include "json/yaml.h"
#include "require.h"

using namespace cadre::json;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const Limits limits{.bytes = 1u << 16, .depth = 40, .values = 10000};
  auto documents = parseYaml(text, "f.yaml", limits);
  if (!documents.ok()) {
    require(documents.error().message.starts_with("f.yaml:"));
    return 0;
  }
  for (const Document& document : *documents) {
    require(document.line > 0 && document.lineOf("/spec/0/x~1") > 0);
    auto json = parse(write(document.value));
    require(json.ok() && *json == document.value);
    auto yaml = parseYaml(writeYaml(document.value), "f.yaml");
    require(yaml.ok() && yaml->size() == 1 && yaml->front().value == document.value);
  }
  return 0;
}
