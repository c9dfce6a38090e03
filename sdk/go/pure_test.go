package crore

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The core has no socket, goroutine, timer, clock or random number of its own.
func TestTheCoreIsPure(t *testing.T) {
	files, err := filepath.Glob("core*.go")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	files = slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, "_test.go") })
	files = append(files, "backoff.go", "buffer.go", "calls.go", "proof.go", "tickets.go", "tokens.go")
	permitted := []string{`"math"`, `"slices"`, `"container/list"`, `"github.com/crore/crore/sdk/go/internal/wire"`}
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range tree.Imports {
			if !slices.Contains(permitted, one.Path.Value) {
				t.Errorf("%s imports %s", file, one.Path.Value)
			}
		}
	}
}
