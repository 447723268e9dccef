//go:build tools

// Package tools keeps the command that this module exists to build in go.mod.
package tools

import _ "go.etcd.io/etcd/server/v3"
