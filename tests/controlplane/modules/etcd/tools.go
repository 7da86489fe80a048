//go:build tools

// Package tools names the program that this module builds for the tests.
package tools

import _ "go.etcd.io/etcd/server/v3"
