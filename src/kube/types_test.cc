#include "kube/types.h"

namespace cadre::kube {
namespace {

using testing::IsEmpty;

// The type at a path of field names; [] goes to the elements of a list or map.
Type at(Type type, std::initializer_list<std::string_view> path) {
  for (std::string_view step : path)
    type = step == "[]" ? type.element() : type.field(step) ? type.field(step)->type() : Type();
  return type;
}

const Type kPod = Type::of("", "v1", "Pod");
const Type kDeployment = Type::of("apps", "v1", "Deployment");

TEST(Types, KnowsBuiltInKindsOnly) {
  EXPECT_TRUE(kPod);
  EXPECT_EQ(kPod.name(), "core/v1 Pod");
  EXPECT_EQ(kDeployment.form(), Form::Struct);
  EXPECT_FALSE(Type::of("apps", "v1", "Pod"));
  EXPECT_FALSE(Type::of("", "", ""));
  Type unknown = Type::of("example.com", "v1", "Thing");
  EXPECT_FALSE(unknown);
  EXPECT_EQ(unknown.form(), Form::Any);
  EXPECT_FALSE(unknown.field("spec"));
  EXPECT_FALSE(unknown.element());
  EXPECT_THAT(unknown.keys(), IsEmpty());
  EXPECT_EQ(unknown.fieldCount(), 0u);
  EXPECT_EQ(builtInKinds().size(), 55u);
}

TEST(Types, KnowsWhatFieldsHold) {
  struct Case {
    Type kind;
    std::vector<std::string_view> path;
    Form form;
    Relation relation;
  };
  Type pvc = Type::of("", "v1", "PersistentVolumeClaim"), secret = Type::of("", "v1", "Secret");
  Type service = Type::of("", "v1", "Service"),
       lease = Type::of("coordination.k8s.io", "v1", "Lease");
  const Case cases[] = {
      {kPod, {"metadata", "name"}, Form::String, Relation::Granular},
      {kPod, {"metadata", "labels"}, Form::Map, Relation::Granular},
      {kPod, {"metadata", "finalizers"}, Form::List, Relation::Set},
      {kPod, {"metadata", "creationTimestamp"}, Form::Time, Relation::Granular},
      {kPod, {"metadata", "managedFields", "[]", "fieldsV1"}, Form::Any, Relation::Granular},
      {kPod, {"spec", "containers"}, Form::List, Relation::Keyed},
      {kPod, {"spec", "containers", "[]", "ports"}, Form::List, Relation::Keyed},
      {kPod, {"spec", "containers", "[]", "args"}, Form::List, Relation::Atomic},
      {kPod,
       {"spec", "containers", "[]", "resources", "limits", "[]"},
       Form::Quantity,
       Relation::Granular},
      // These stand inline in others.
      {kPod,
       {"spec", "containers", "[]", "livenessProbe", "httpGet", "port"},
       Form::IntOrString,
       Relation::Granular},
      {kPod, {"spec", "volumes", "[]", "configMap", "items"}, Form::List, Relation::Atomic},
      {kPod, {"spec", "ephemeralContainers", "[]", "env"}, Form::List, Relation::Keyed},
      {kPod, {"spec", "nodeSelector"}, Form::Map, Relation::Atomic},
      {kPod, {"spec", "hostNetwork"}, Form::Boolean, Relation::Granular},
      {kDeployment, {"spec", "selector"}, Form::Struct, Relation::Atomic},
      {kDeployment, {"spec", "replicas"}, Form::Integer, Relation::Granular},
      {secret, {"data", "[]"}, Form::Bytes, Relation::Granular},
      {service, {"spec", "selector"}, Form::Map, Relation::Atomic},
      {lease, {"spec", "renewTime"}, Form::MicroTime, Relation::Granular},
      {pvc, {"spec", "resources", "requests", "[]"}, Form::Quantity, Relation::Granular},
  };
  for (const Case& c : cases) {
    Type type = c.kind;
    for (std::string_view step : c.path) type = at(type, {step});
    EXPECT_TRUE(type) << c.path.back();
    EXPECT_EQ(type.form(), c.form) << c.path.back();
    EXPECT_EQ(type.relation(), c.relation) << c.path.back();
  }
}

TEST(Types, KnowsKeysAndTheirDefaults) {
  auto keys = at(kPod, {"spec", "containers", "[]", "ports"}).keys();
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0].name, "containerPort");
  EXPECT_EQ(keys[0].otherwise, "");
  EXPECT_EQ(keys[1].name, "protocol");
  EXPECT_EQ(keys[1].otherwise, "TCP");
  auto condition = at(Type::of("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
                      {"status", "conditions"});
  ASSERT_EQ(condition.keys().size(), 1u);
  EXPECT_EQ(condition.keys()[0].name, "type");
}

TEST(Types, KnowsPatchStrategies) {
  Type spec = at(kPod, {"spec"});
  EXPECT_TRUE(spec.field("volumes")->patchMerges());
  EXPECT_TRUE(spec.field("volumes")->patchRetainsKeys());
  EXPECT_EQ(spec.field("volumes")->patchMergeKey(), "name");
  EXPECT_FALSE(spec.field("tolerations")->patchMerges());
  EXPECT_EQ(spec.field("tolerations")->patchMergeKey(), "");
  EXPECT_TRUE(at(kDeployment, {"spec"}).field("strategy")->patchRetainsKeys());
}

TEST(Types, KnowsProtobufNumbersAndWhatJsonLeavesOut) {
  Type meta = at(kPod, {"metadata"});
  EXPECT_EQ(meta.field("name")->number(), 1u);
  EXPECT_EQ(meta.field(17u)->name(), "managedFields");
  EXPECT_FALSE(meta.field(99u));
  EXPECT_FALSE(meta.field(0u));
  EXPECT_TRUE(meta.field("creationTimestamp")->omitsZero());
  EXPECT_TRUE(at(kDeployment, {"spec"}).field("replicas")->isPointer());
  EXPECT_FALSE(at(kPod, {"spec"}).field("containers")->omitsEmpty());
  EXPECT_EQ(kPod.field("apiVersion")->number(), 0u);
  EXPECT_TRUE(at(kPod, {"spec"}).field("containers")->showsNull());
  EXPECT_TRUE(at(kDeployment, {"spec"}).field("selector")->showsNull());
  EXPECT_FALSE(at(kDeployment, {"spec"}).field("template")->showsNull());
  EXPECT_FALSE(meta.field("labels")->showsNull());
  Type volume = at(kPod, {"spec", "volumes", "[]"});
  EXPECT_TRUE(volume.fieldAt(0).isInline());
  EXPECT_EQ(volume.fieldAt(0).number(), 2u);
  EXPECT_TRUE(inProtobuf("", "v1", "Pod"));
  EXPECT_FALSE(inProtobuf("apiextensions.k8s.io", "v1", "CustomResourceDefinition"));
  EXPECT_FALSE(inProtobuf("example.com", "v1", "Thing"));
}

}  // namespace
}  // namespace cadre::kube
