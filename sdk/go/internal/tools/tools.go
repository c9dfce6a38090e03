//go:build tools

// Package tools names the programs that check the SDK, so that go.mod and go.sum pin them. It is a
// module of its own: nobody who uses the SDK gets them.
package tools

import _ "honnef.co/go/tools/cmd/staticcheck"
