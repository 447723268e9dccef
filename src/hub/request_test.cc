#include "hub/request.h"

#include "base/format.h"

namespace cadre::hub {
namespace {

std::string shown(std::string_view method, std::string_view target) {
  auto asked = parseRequest(method, target);
  if (!asked) return "none";
  if (!asked->resource) return format("path of {}", asked->segments.size());
  return format("{} {}/{} {} ns={} name={} sub={}", verbName(asked->verb), asked->group,
                asked->version, asked->plural, asked->ns, asked->name, asked->subresource);
}

TEST(Request, PathsAreEscapedWell) {
  for (std::string_view target : {"/version", "/a%2Fb", "/?a=%zz", "/%e4%BC"})
    EXPECT_TRUE(isEscaped(target)) << target;
  for (std::string_view target : {"/%zz", "/%2", "/%", "/a%2gb/c", "/%%20", "/x%?a=20"})
    EXPECT_FALSE(isEscaped(target)) << target;
}

TEST(Request, SaysWhatIsAskedFor) {
  struct Case {
    std::string_view method, target, expected;
  };
  for (const Case& c : {
           Case{"GET", "/version", "path of 1"},
           Case{"GET", "/", "path of 0"},
           Case{"GET", "https://somewhere:6443/version", "path of 1"},
           Case{"GET", "http://x/api/v1/pods", "list /v1 pods ns= name= sub="},
           Case{"GET", "HTTPS://x/api/v1/pods", "list /v1 pods ns= name= sub="},
           Case{"GET", "http://x?y=/api/v1/pods", "none"},
           Case{"GET", "https://x", "none"},
           Case{"GET", "/api/v1", "path of 2"},
           Case{"GET", "/apis/apps/v1", "path of 3"},
           Case{"GET", "/api/v1/pods", "list /v1 pods ns= name= sub="},
           Case{"GET", "/api/v1/pods?watch=1", "watch /v1 pods ns= name= sub="},
           Case{"GET", "/api/v1/pods/x?watch=true", "get /v1 pods ns= name=x sub="},
           Case{"GET", "/api/v1/namespaces", "list /v1 namespaces ns= name= sub="},
           Case{"GET", "/api/v1/namespaces/x", "get /v1 namespaces ns= name=x sub="},
           Case{"PUT", "/api/v1/namespaces/x/finalize",
                "update /v1 namespaces ns= name=x sub=finalize"},
           Case{"GET", "/api/v1/namespaces/x/pods", "list /v1 pods ns=x name= sub="},
           Case{"DELETE", "/api/v1/namespaces/x/pods", "deletecollection /v1 pods ns=x name= sub="},
           Case{"POST", "/api/v1/namespaces/x/pods/p/eviction",
                "create /v1 pods ns=x name=p sub=eviction"},
           Case{"PATCH", "/apis/apps/v1/namespaces/x/deployments/d/status",
                "patch apps/v1 deployments ns=x name=d sub=status"},
           Case{"GET", "/apis/g/v1/namespaces/x/services/s/proxy/a/b",
                "get g/v1 services ns=x name=s sub=proxy/a/b"},
           // Names that mean other places.
           Case{"GET", "/api/v1/namespaces/..%2f..%2fversion/pods", "none"},
           Case{"GET", "/api/v1/namespaces/x/pods/..", "none"},
           Case{"GET", "/api/v1/namespaces/x/pods/%2e%2e", "none"},
           Case{"GET", "/api/v1/namespaces/x/pods/a%2fb", "none"},
           Case{"GET", "/api/v1/namespaces/x/pods/a%00b", "none"},
           Case{"GET", "/api/v1/namespaces/x/pods/a%25b", "none"},
           Case{"GET", "/api/v1//pods", "none"},
           Case{"GET", "version", "none"},
           Case{"TRACE", "/api/v1/pods", "list /v1 pods ns= name= sub="},
       })
    EXPECT_EQ(shown(c.method, c.target), c.expected) << c.method << " " << c.target;
  EXPECT_EQ(shown("GET", "/" + std::string(5000, 'a')), "none");
}

TEST(Request, TheFirstFormThatCanBeGiven) {
  struct Case {
    std::string_view accept;
    Answered what;
    std::optional<Form> expected;
  };
  using As = Form::As;
  for (const Case& c : {
           Case{"", Answered::List, Form{}},
           Case{"*/*", Answered::List, Form{}},
           Case{"application/yaml", Answered::Object, Form{.yaml = true}},
           Case{"application/yaml", Answered::Watch, std::nullopt},
           Case{"application/vnd.kubernetes.protobuf, application/json", Answered::List, Form{}},
           Case{"application/vnd.kubernetes.protobuf", Answered::List, std::nullopt},
           Case{"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Answered::List,
                Form{.as = As::Table}},
           Case{"application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Answered::List,
                Form{}},
           Case{"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", Answered::List,
                Form{.as = As::Metadata}},
           Case{"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
                Answered::Object, std::nullopt},
           Case{"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", Answered::Watch,
                Form{.as = As::Metadata}},
           Case{"application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
                Answered::Groups, Form{.as = As::Groups}},
           Case{"application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
                Answered::Document, std::nullopt},
       }) {
    auto form = parseAccept(c.accept, c.what);
    ASSERT_EQ(form.has_value(), c.expected.has_value()) << c.accept;
    if (form) {
      EXPECT_EQ(form->as, c.expected->as) << c.accept;
      EXPECT_EQ(form->yaml, c.expected->yaml) << c.accept;
    }
  }
}

}  // namespace
}  // namespace cadre::hub
