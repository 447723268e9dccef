package main

import (
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// The schemas of server-side apply: those of client-go, and that of CustomResourceDefinition.
type schemas []*schema.Schema

func loadSchemas(s *runtime.Scheme) schemas {
	// The only public way to client-go's schema is through a value that has it.
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	typed, err := applyconfigurations.NewTypeConverter(s).ObjectToTyped(pod)
	if err != nil {
		fail("%v", err)
	}
	models := map[string]*spec.Schema{}
	reference := func(path string) spec.Ref {
		return spec.MustCreateRef("#/definitions/" + util.ToRESTFriendlyName(path))
	}
	for path, definition := range apiextensions.GetOpenAPIDefinitions(reference) {
		models[util.ToRESTFriendlyName(path)] = &definition.Schema
	}
	extensions, err := schemaconv.ToSchemaFromOpenAPI(models, false)
	if err != nil {
		fail("%v", err)
	}
	return schemas{typed.Schema(), extensions}
}

// A type as a schema has it. The zero value is one that no schema has: all of it is atomic.
type schemaType struct {
	name string
	in   *schema.Schema
	atom schema.Atom
}

type key struct{ name, otherwise string }

func (all schemas) ofStruct(goType reflect.Type, given schemaType) schemaType {
	name := util.ToRESTFriendlyName(goType.PkgPath() + "." + goType.Name())
	for _, in := range all {
		if found, has := in.FindNamedType(name); has && found.Map != nil && len(found.Map.Fields) > 0 {
			out := schemaType{name: name, in: in, atom: found.Atom}
			if given.relation() == "Atomic" { // said where the struct is used, not where it is defined
				out.atom.Map = &schema.Map{Fields: found.Map.Fields, ElementRelationship: schema.Atomic}
			}
			return out
		}
	}
	return schemaType{name: name}
}

func (s schemaType) resolve(reference schema.TypeRef) schemaType {
	atom, found := s.in.Resolve(reference)
	if !found {
		fail("%s refers to a type that is not there", s.name)
	}
	return schemaType{in: s.in, atom: atom}
}

func (s schemaType) field(name string) schemaType {
	if s.atom.Map != nil {
		if field, has := s.atom.Map.FindField(name); has {
			return s.resolve(field.Type)
		}
	}
	return schemaType{}
}

func (s schemaType) element() schemaType {
	switch {
	case s.atom.List != nil:
		return s.resolve(s.atom.List.ElementType)
	case s.atom.Map != nil && s.in != nil:
		return s.resolve(s.atom.Map.ElementType)
	}
	return schemaType{}
}

func (s schemaType) relation() string {
	if s.atom.Map != nil && s.atom.Map.ElementRelationship == schema.Atomic {
		return "Atomic"
	}
	return ""
}

func (s schemaType) list() (string, []key) {
	if s.atom.List == nil || s.atom.List.ElementRelationship != schema.Associative {
		return "Atomic", nil
	}
	if len(s.atom.List.Keys) == 0 {
		return "Set", nil
	}
	var keys []key
	element := s.element()
	for _, name := range s.atom.List.Keys {
		field, has := element.atom.Map.FindField(name)
		if !has {
			fail("there is no field for the key %s", name)
		}
		text := ""
		if field.Default != nil && field.Default != float64(0) && field.Default != int64(0) && field.Default != 0 {
			text = fmt.Sprint(field.Default)
		}
		keys = append(keys, key{name, text})
	}
	return "Keyed", keys
}

// "k8s.io/api v0.34.4, ...".
func versions() string {
	var out []string
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		switch module.Path {
		case "k8s.io/api", "k8s.io/apiextensions-apiserver":
			out = append(out, module.Path+" "+module.Version)
		}
	}
	return strings.Join(out, " and ")
}
