// Writes the table of built-in types: src/kube/types_table.h, which src/kube/types.cc includes.
//
//	go run . > ../../src/kube/types_table.h        (or `make generate`)
//
// Names, numbers and patch strategies are read from the tags of the Go structs, list types and keys
// from the schemas that the API server's server-side apply uses.
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

var kinds = []runtime.Object{
	&corev1.ConfigMap{}, &corev1.Endpoints{}, &corev1.Event{}, &corev1.LimitRange{}, &corev1.Namespace{}, &corev1.Node{},
	&corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}, &corev1.Pod{}, &corev1.PodTemplate{},
	&corev1.ReplicationController{}, &corev1.ResourceQuota{}, &corev1.Secret{}, &corev1.Service{}, &corev1.ServiceAccount{},
	&appsv1.ControllerRevision{}, &appsv1.DaemonSet{}, &appsv1.Deployment{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{},
	&batchv1.CronJob{}, &batchv1.Job{},
	&networkingv1.Ingress{}, &networkingv1.IngressClass{}, &networkingv1.NetworkPolicy{},
	&policyv1.Eviction{}, &policyv1.PodDisruptionBudget{},
	&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
	&autoscalingv1.HorizontalPodAutoscaler{}, &autoscalingv1.Scale{}, &autoscalingv2.HorizontalPodAutoscaler{},
	&coordinationv1.Lease{},
	&discoveryv1.EndpointSlice{},
	&storagev1.CSIDriver{}, &storagev1.CSINode{}, &storagev1.StorageClass{}, &storagev1.VolumeAttachment{},
	&admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{},
	&apiextensionsv1.CustomResourceDefinition{},
	&schedulingv1.PriorityClass{},
	&nodev1.RuntimeClass{},
	&eventsv1.Event{},
	&authenticationv1.TokenRequest{}, &authenticationv1.TokenReview{},
	&authenticationv1.SelfSubjectReview{},
	&authorizationv1.LocalSubjectAccessReview{}, &authorizationv1.SelfSubjectAccessReview{},
	&authorizationv1.SelfSubjectRulesReview{}, &authorizationv1.SubjectAccessReview{},
	&metav1.DeleteOptions{}, &metav1.Status{},
}

// Types that have a JSON form of their own. The names are those of Form in src/kube/types.h.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():                                  "Time",
	reflect.TypeFor[metav1.MicroTime]():                             "MicroTime",
	reflect.TypeFor[resource.Quantity]():                            "Quantity",
	reflect.TypeFor[intstr.IntOrString]():                           "IntOrString",
	reflect.TypeFor[runtime.RawExtension]():                         "Any",
	reflect.TypeFor[metav1.FieldsV1]():                              "Any",
	reflect.TypeFor[apiextensionsv1.JSON]():                         "Any",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]():       "Any",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():        "Any",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray](): "Any",
}

// Types whose protobuf form is not that of their Go fields and which are not read from it: a kind
// that has one is read as JSON.
var notInProtobuf = []reflect.Type{
	reflect.TypeFor[apiextensionsv1.JSONSchemaProps](),
	reflect.TypeFor[authenticationv1.ExtraValue](),
	reflect.TypeFor[authorizationv1.ExtraValue](),
}

// The rows of the table, as they are written. References are positions, names positions in `names`.
type (
	typeRow struct {
		form     string
		relation string // of the elements of a list, map or struct; empty for the usual one
		element  int    // the type of the elements, or the struct
		keys     int
	}
	fieldRow struct {
		name     string
		typ      int
		number   int
		flags    []string
		mergeKey string
		goName   string // of its type, where that is not the usual one for its form
	}
	structRow struct {
		name   string
		fields []fieldRow
	}
)

type table struct {
	names   []string
	nameAt  map[string]int
	size    int
	keys    []int
	keysAt  map[string]int
	types   []typeRow
	structs []structRow
	// A struct that stands inline in another takes the list types from the schema of that one.
	structAt map[structKey]int
	schemas  schemas
}

type structKey struct {
	goType reflect.Type
	schema string
}

func (t *table) name(text string) int {
	at, known := t.nameAt[text]
	if !known {
		at = t.size
		t.nameAt[text] = at
		t.names = append(t.names, text)
		t.size += len(text) + 1
	}
	return at
}

func (t *table) typeRow(row typeRow) int {
	if at := slices.Index(t.types, row); at >= 0 {
		return at
	}
	t.types = append(t.types, row)
	return len(t.types) - 1
}

func (t *table) typeOf(goType reflect.Type, schema schemaType) int {
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	if form, is := special[goType]; is {
		return t.typeRow(typeRow{form: form})
	}
	switch goType.Kind() {
	case reflect.String:
		return t.typeRow(typeRow{form: "String"})
	case reflect.Bool:
		return t.typeRow(typeRow{form: "Boolean"})
	case reflect.Int32, reflect.Int64:
		return t.typeRow(typeRow{form: "Integer"})
	case reflect.Float64:
		return t.typeRow(typeRow{form: "Number"})
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return t.typeRow(typeRow{form: "Bytes"})
		}
		relation, keys := schema.list()
		return t.typeRow(typeRow{"List", relation, t.typeOf(goType.Elem(), schema.element()), t.keyRow(keys)})
	case reflect.Map:
		return t.typeRow(typeRow{"Map", schema.relation(), t.typeOf(goType.Elem(), schema.element()), 0})
	case reflect.Struct:
		schema = t.schemas.ofStruct(goType, schema)
		return t.typeRow(typeRow{"Struct", schema.relation(), t.structOf(goType, schema), 0})
	}
	fail("no form for %v", goType)
	return 0
}

// The number of keys, and for each its name and the value that is meant where it is missing.
func (t *table) keyRow(keys []key) int {
	if len(keys) == 0 {
		return 0
	}
	text := fmt.Sprint(keys)
	at, known := t.keysAt[text]
	if !known {
		at = len(t.keys)
		t.keysAt[text] = at
		t.keys = append(t.keys, len(keys))
		for _, key := range keys {
			t.keys = append(t.keys, t.name(key.name), t.name(key.otherwise))
		}
	}
	return at
}

func (t *table) structOf(goType reflect.Type, schema schemaType) int {
	self := structKey{goType, schema.name}
	if at, known := t.structAt[self]; known {
		return at
	}
	at := len(t.structs)
	t.structAt[self] = at
	t.structs = append(t.structs, structRow{name: structName(goType)})
	var fields []fieldRow
	for i := range goType.NumField() {
		field := goType.Field(i)
		tag, has := field.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case !has || name == "-":
			fail("%v.%s has no JSON name", goType, field.Name)
		case field.Type == reflect.TypeFor[metav1.TypeMeta]() && name == "":
			for _, name := range []string{"apiVersion", "kind"} {
				fields = append(fields, fieldRow{name: name, typ: t.typeRow(typeRow{form: "String"}), flags: []string{"kOmitEmpty"}})
			}
		case name == "":
			inline := t.typeRow(typeRow{form: "Struct", element: t.structOf(field.Type, schema)})
			fields = append(fields, fieldRow{typ: inline, number: number(field)})
		default:
			row := fieldRow{name: name, typ: t.typeOf(field.Type, schema.field(name)), number: number(field)}
			if strings.Contains(options, "omitempty") {
				row.flags = append(row.flags, "kOmitEmpty")
			}
			if strings.Contains(options, "omitzero") {
				row.flags = append(row.flags, "kOmitZero")
			}
			if field.Type.Kind() == reflect.Pointer {
				row.flags = append(row.flags, "kPointer")
			}
			for _, strategy := range strings.Split(field.Tag.Get("patchStrategy"), ",") {
				if strategy != "" {
					row.flags = append(row.flags, "kPatch"+strings.ToUpper(strategy[:1])+strategy[1:])
				}
			}
			row.mergeKey = field.Tag.Get("patchMergeKey")
			row.goName = goName(field.Type)
			fields = append(fields, row)
		}
	}
	slices.SortStableFunc(fields, func(a, b fieldRow) int { return strings.Compare(a.name, b.name) })
	t.structs[at].fields = fields
	return at
}

// What a decoder's message calls a type ("int64", "v1.RestartPolicy", "[]v1.Capability"), or nothing
// where that follows from its form: string, int32, bool, structs, and lists and maps of those.
func goName(goType reflect.Type) string {
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	if _, is := special[goType]; is {
		return ""
	}
	usual := goType.Name() == "" || goType.PkgPath() == ""
	switch goType.Kind() {
	case reflect.Struct, reflect.Float64:
		return ""
	case reflect.Int64:
		usual = false
	case reflect.Slice, reflect.Map:
		usual = usual && goName(goType.Elem()) == ""
	}
	if usual {
		return ""
	}
	return goType.String()
}

// "core/v1 PodSpec", "meta/v1 ObjectMeta".
func structName(goType reflect.Type) string {
	parts := strings.Split(goType.PkgPath(), "/")
	return strings.Join(parts[len(parts)-2:], "/") + " " + goType.Name()
}

func number(field reflect.StructField) int {
	parts := strings.Split(field.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		fail("%s has no protobuf number", field.Name)
	}
	number, err := strconv.Atoi(parts[1])
	if err != nil || number < 1 || number > 255 {
		fail("%s has the protobuf number %q", field.Name, parts[1])
	}
	return number
}

// Whether the kind and its list have the protobuf form that is read from Go's fields.
func inProtobuf(goType reflect.Type) bool {
	seen := map[reflect.Type]bool{}
	var good func(reflect.Type) bool
	good = func(goType reflect.Type) bool {
		if seen[goType] {
			return true
		}
		seen[goType] = true
		if slices.Contains(notInProtobuf, goType) {
			return false
		}
		switch goType.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			return good(goType.Elem())
		case reflect.Struct:
			if _, is := special[goType]; is {
				return true
			}
			for i := range goType.NumField() {
				if !good(goType.Field(i).Type) {
					return false
				}
			}
		}
		return true
	}
	return good(goType)
}

// Lists are read without a table: their metadata is field 1, their items are field 2.
func checkList(kind runtime.Object, s *runtime.Scheme) {
	gvks, _, _ := s.ObjectKinds(kind)
	list, err := s.New(gvks[0].GroupVersion().WithKind(gvks[0].Kind + "List"))
	if err != nil {
		return
	}
	goType := reflect.TypeOf(list).Elem()
	meta, _ := goType.FieldByName("ListMeta")
	items, _ := goType.FieldByName("Items")
	if number(meta) != 1 || number(items) != 2 || items.Type.Elem() != reflect.TypeOf(kind).Elem() {
		fail("%v is not the list that it should be", goType)
	}
}

func (t *table) write(out *bufio.Writer, s *runtime.Scheme) {
	var kindRows []string
	for _, kind := range kinds {
		gvks, _, err := s.ObjectKinds(kind)
		if err != nil {
			fail("%v", err)
		}
		checkList(kind, s)
		goType := reflect.TypeOf(kind).Elem()
		gvk := gvks[0]
		if goType.PkgPath() == reflect.TypeFor[metav1.Status]().PkgPath() { // it is in every group
			gvk.Group, gvk.Version = "", "v1"
		}
		kindRows = append(kindRows, fmt.Sprintf("{%d, %d, %d, %d, %v},  // %s %s", t.name(gvk.Group), t.name(gvk.Version),
			t.name(gvk.Kind), t.typeOf(goType, schemaType{}), inProtobuf(goType), gvk.GroupVersion(), gvk.Kind))
	}
	var fieldRows, structRows []string
	for _, row := range t.structs {
		structRows = append(structRows, fmt.Sprintf("{%d, %d, %d},  // %s", t.name(row.name), len(fieldRows), len(row.fields), row.name))
		for _, field := range row.fields {
			flags := cmp.Or(strings.Join(field.flags, " | "), "0")
			fieldRows = append(fieldRows, fmt.Sprintf("{%d, %d, %d, %s, %d, %d},  // %s", t.name(field.name), field.typ, field.number, flags,
				t.name(field.mergeKey), t.name(field.goName), cmp.Or(field.name, "(inline)")))
		}
	}
	fmt.Fprintf(out, "// Private to kube: the rows of types.cc, which alone includes this, inside of its namespace.\n")
	fmt.Fprintf(out, "// Generated by `make generate` (the program is in tools/types) from\n// %s.\n", versions())
	fmt.Fprintf(out, "// clang-format off\n#pragma once\n")
	fmt.Fprintf(out, "\n// Each name behind its length.\nconstexpr char kNames[] =\n")
	for _, name := range t.names {
		fmt.Fprintf(out, "    \"\\%03o\" %q\n", len(name), name)
	}
	fmt.Fprintf(out, "    ;\n\n")
	fmt.Fprintf(out, "// How many, then name and default of each.\nconstexpr std::uint16_t kKeys[] = {%s};\n\n", strings.ReplaceAll(strings.Trim(fmt.Sprint(t.keys), "[]"), " ", ", "))
	var typeRows []string
	for _, row := range t.types {
		typeRows = append(typeRows, fmt.Sprintf("{Form::%s, Relation::%s, %d, %d},", row.form, cmp.Or(row.relation, "Granular"), row.element, row.keys))
	}
	rows(out, "TypeRow kTypes", typeRows)
	rows(out, "StructRow kStructs", structRows)
	rows(out, "FieldRow kFields", fieldRows)
	rows(out, "KindRow kKinds", kindRows)
	for _, size := range []int{t.size, len(fieldRows), len(typeRows)} {
		if size > 65535 {
			fail("the table has outgrown 16 bits")
		}
	}
}

func rows(out *bufio.Writer, name string, rows []string) {
	fmt.Fprintf(out, "constexpr %s[] = {\n", name)
	for _, row := range rows {
		fmt.Fprintf(out, "    %s\n", row)
	}
	fmt.Fprintf(out, "};\n\n")
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "types: "+format+"\n", args...)
	os.Exit(1)
}

func main() {
	s := scheme.Scheme
	if err := apiextensionsv1.AddToScheme(s); err != nil {
		fail("%v", err)
	}
	t := &table{nameAt: map[string]int{}, keysAt: map[string]int{}, keys: []int{0}, structAt: map[structKey]int{}, schemas: loadSchemas(s)}
	t.name("") // at 0, so that 0 is no name
	out := bufio.NewWriter(os.Stdout)
	t.write(out, s)
	if err := out.Flush(); err != nil {
		fail("%v", err)
	}
}
