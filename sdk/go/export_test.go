package crore

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// exampleTB is what a node needs of a test: examples have none.
type exampleTB struct {
	testing.TB
	folder   string
	cleanups []func()
}

func (e *exampleTB) Helper()             {}
func (e *exampleTB) TempDir() string     { return e.folder }
func (e *exampleTB) Cleanup(call func()) { e.cleanups = append(e.cleanups, call) }
func (e *exampleTB) Fatal(values ...any) { panic(fmt.Sprint(values...)) }

var ofExamples exampleTB

// ExampleURL is the address of a node for all examples, which the first one starts.
var ExampleURL = sync.OnceValue(func() string {
	folder, err := os.MkdirTemp("", "crore-examples-*")
	if err != nil {
		panic(err)
	}
	ofExamples.folder = folder
	return startNode(&ofExamples, "").urls()[0]
})

func TestMain(m *testing.M) {
	code := m.Run()
	for _, call := range ofExamples.cleanups {
		call()
	}
	if ofExamples.folder != "" {
		_ = os.RemoveAll(ofExamples.folder)
	}
	os.Exit(code)
}
