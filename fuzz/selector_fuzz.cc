// Any text as a label selector and as a field selector: it is refused with a sentence, or says the
// same when it is written and read again.

#include <cstdint>
#include <string_view>

#include "kube/selector.h"
#include "require.h"

using namespace cadre;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const json::Object labels{{"app", "web"}, {"tier", "front"}, {"n", "7"}};
  if (auto selector = kube::LabelSelector::parse(text)) {
    auto again = kube::LabelSelector::parse(selector->text());
    require(again.ok() && again->text() == selector->text());
    require(again->matches(labels) == selector->matches(labels));
  } else {
    require(!selector.error().message.empty());
  }
  auto fields = kube::FieldSelector::parse(text);
  require(fields.ok() || !fields.error().message.empty());
  return 0;
}
