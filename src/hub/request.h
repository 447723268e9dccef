#pragma once

#include <optional>
#include <string>

#include "net/http.h"

namespace cadre::hub {

enum class Verb { Get, List, Watch, Create, Update, Patch, Delete, DeleteCollection };
std::string_view verbName(Verb verb);  // "deletecollection", as rules have it

// What a request is about, by its method and its path.
struct Asked {
  bool resource = false;  // else it is a path of its own: /version
  Verb verb = Verb::Get;
  std::string group, version, plural;
  std::string ns, name, subresource;
  std::vector<std::string> segments;  // of the path
  net::Target target;

  std::string_view option(std::string_view name) const { return target.parameter(name); }
  bool has(std::string_view name) const;
  // It is there, and neither "false" nor "0".
  bool flag(std::string_view name) const;
};

// Every segment is decoded by itself, so that no name reaches another path. Nothing when there can
// be no such path.
std::optional<Asked> parseRequest(std::string_view method, std::string_view target);

// Whether such a subresource of a pod is answered by whoever runs it.
// Whether each % in its path begins two hexadecimal digits.
bool isEscaped(std::string_view target);
bool isOfNode(std::string_view subresource);

// How an answer is wanted, by the Accept header.
struct Form {
  enum class As { Object, Table, Metadata, Groups };
  As as = As::Object;
  bool yaml = false;
};
// What is answered, which decides what it can be shown as. Groups: the roots of discovery.
enum class Answered { Object, List, Watch, Groups, Document };
// The first that can be given. Nothing: none.
std::optional<Form> parseAccept(std::string_view accept, Answered what);

}  // namespace cadre::hub
