package main

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func TestTargets(t *testing.T) {
	for _, c := range []struct{ method, url, want string }{
		{"GET", "/version", "////"},
		{"GET", "/apis/apps/v1", "////"},
		{"GET", "/api/v1/nodes/n", "get//nodes/n/"},
		{"GET", "/api/v1/namespaces", "list//namespaces//"},
		{"GET", "/api/v1/namespaces/a", "get//namespaces/a/"},
		{"PUT", "/api/v1/namespaces/a/status", "update//namespaces/a/status"},
		{"GET", "/api/v1/namespaces/a/secrets?limit=5", "list/a/secrets//"},
		{"GET", "/api/v1/namespaces/a/secrets?watch=true", "watch/a/secrets//"},
		{"POST", "/apis/apps/v1/namespaces/a/deployments", "create/a/deployments//"},
		{"PATCH", "/apis/kaos.tools/v1alpha1/namespaces/a/agents/b/status", "patch/a/agents/b/status"},
		{"DELETE", "/api/v1/namespaces/a/services/s", "delete/a/services/s/"},
		{"DELETE", "/api/v1/namespaces/a/services", "deletecollection/a/services//"},
		{"POST", "/api/v1/namespaces/a/services/http:s:80/proxy/mcp", "proxy/a/services/http:s:80/proxy/mcp"},
	} {
		got := targetOf(httptest.NewRequest(c.method, c.url, nil))
		if text := strings.Join([]string{got.Verb, got.Namespace, got.Resource, got.Name, got.Subresource}, "/"); text != c.want {
			t.Errorf("%s %s: %s, not %s", c.method, c.url, text, c.want)
		}
	}
	if !targetOf(httptest.NewRequest(http.MethodGet, "/api/v1/pods?watch=1&sendInitialEvents=true", nil)).initial {
		t.Error("a watch that asks for what exists is not seen as one")
	}
}

func TestRulesCount(t *testing.T) {
	a := Target{Verb: "patch", Resource: "agents", Name: "a"}
	b := Target{Verb: "patch", Resource: "agents", Name: "b"}
	second := &Rule{Skip: 1, Times: 1, Action: actAnswer}
	each := &Rule{PerObject: true, Times: 1, Action: actAnswer}
	changed := &Rule{Effective: true, Skip: 1, Action: actLose}
	var got []string
	for _, target := range []Target{a, a, b, b} {
		name := "-"
		switch pick([]*Rule{second, each}, target, false, false) {
		case second:
			name = "second"
		case each:
			name = "each"
		}
		got = append(got, name)
	}
	if want := []string{"each", "second", "each", "-"}; !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
	for i, effective := range []bool{true, false, true} {
		if met := pick([]*Rule{changed}, a, true, effective) != nil; met != (i == 2) {
			t.Errorf("write %d: %v", i, met)
		}
	}
	status := ""
	if (&Rule{Subresource: &status, Action: actAnswer}).concerns(Target{Verb: "patch", Resource: "agents", Subresource: "status"}) {
		t.Error("the status is not the object")
	}
}

func TestLastStates(t *testing.T) {
	parsed := func(kind, name, value string) event {
		e, err := parseEvent([]byte(`{"type":"` + kind + `","object":{"metadata":{"name":"` + name + `"},"value":"` + value + `"}}`))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	held := []event{
		parsed("ADDED", "brief", "1"), parsed("DELETED", "brief", "1"),
		parsed("MODIFIED", "changed", "2"), parsed("MODIFIED", "changed", "1"),
		parsed("DELETED", "again", "1"), parsed("ADDED", "again", "2"),
		parsed("ADDED", "new", "1"), parsed("DELETED", "gone", "1"),
	}
	var got []string
	for _, line := range lastStates(held, map[string]bool{"/changed": true, "/again": true, "/gone": true}) {
		e, _ := parseEvent(line)
		got = append(got, e.Type+" "+e.Object.Metadata.Name+" "+string(e.raw[len(e.raw)-3:len(e.raw)-2]))
	}
	want := []string{"MODIFIED changed 1", "MODIFIED again 2", "ADDED new 1", "DELETED gone 1"}
	if !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}
