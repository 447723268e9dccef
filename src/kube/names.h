#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cadre::kube {

// The rules that Kubernetes has for names. Pure.

// What is wrong with a text and what would be right, as a sentence for a user that starts with the
// text in quotes; nothing when it is right.
using NameProblem = std::optional<std::string>;

// Namespaces, containers, ports: a-z, 0-9 and '-', a letter or digit at both ends, 1 to 63.
NameProblem checkDnsLabel(std::string_view text);
// Most objects: DNS labels joined by '.', 253 together.
NameProblem checkDnsSubdomain(std::string_view text);
// Services: a DNS label that starts with a letter.
NameProblem checkDns1035Label(std::string_view text);
// Finalizers, conditions and label keys: letters of both cases, digits, '-', '_' and '.', a letter
// or digit at both ends, 1 to 63, and before it possibly a DNS subdomain and '/'.
NameProblem checkQualifiedName(std::string_view text);
NameProblem checkLabelKey(std::string_view text);
// As the name part of a label key, or empty.
NameProblem checkLabelValue(std::string_view text);

// A text in double quotes for messages: control characters escaped, shortened where it is long.
std::string inQuotes(std::string_view text);

// base + suffix as a name of at most `limit` characters, the same one each time. What already is a
// DNS subdomain within the limit stays as it is. Everything else is lowered, mended and cut, and
// gets '-' and a hash of the whole at its end, so that different inputs give different names.
// The result has dots only where the input has; a limit below 10 leaves only a part of the hash.
std::string boundedName(std::string_view base, std::string_view suffix = {},
                        std::size_t limit = 63);

}  // namespace cadre::kube
