package main

import (
	"net/http"
	"strings"
)

// Target is what a request to a Kubernetes API is about.
type Target struct {
	Verb        string `json:"verb"` // as RBAC names them
	Group       string `json:"group"`
	Namespace   string `json:"namespace"`
	Resource    string `json:"resource"`
	Name        string `json:"name"`
	Subresource string `json:"subresource"`
	initial     bool   // a watch that asks for what exists first
}

func (t Target) writes() bool {
	switch t.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// object is where its object is found, whatever is done to it.
func (t Target) object() string {
	return t.Group + "/" + t.Namespace + "/" + t.Resource + "/" + t.Name
}

// targetOf reads path and method. Resource is empty for what is no object: discovery, /version.
func targetOf(r *http.Request) Target {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	t := Target{}
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		t.Group = parts[1]
		parts = parts[3:]
	default:
		return t
	}
	if len(parts) >= 3 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		t.Namespace = parts[1]
		parts = parts[2:]
	}
	t.Resource = parts[0]
	if len(parts) > 1 {
		t.Name = parts[1]
	}
	if len(parts) > 2 {
		t.Subresource = strings.Join(parts[2:], "/")
	}
	query := r.URL.Query()
	watch := query.Get("watch")
	if strings.HasPrefix(t.Subresource, "proxy") {
		t.Verb = "proxy" // passed on to a Service: no object is read or written
		return t
	}
	switch r.Method {
	case http.MethodPost:
		t.Verb = "create"
	case http.MethodPut:
		t.Verb = "update"
	case http.MethodPatch:
		t.Verb = "patch"
	case http.MethodDelete:
		t.Verb = "delete"
		if t.Name == "" {
			t.Verb = "deletecollection"
		}
	default:
		switch {
		case t.Name != "":
			t.Verb = "get"
		case watch == "true" || watch == "1":
			t.Verb = "watch"
			t.initial = query.Get("sendInitialEvents") == "true"
		default:
			t.Verb = "list"
		}
	}
	return t
}
