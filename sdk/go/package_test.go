package crore

import (
	"bytes"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The first example of the README runs as it stands, in a module that requires this one.
func TestTheFirstExampleOfTheReadmeRuns(t *testing.T) {
	n := startNode(t, "")
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)[1]
	if lines := bytes.Count(example, []byte("\n")); lines > 10 {
		t.Errorf("the first example has %d lines", lines)
	}
	body := strings.Replace(string(example), "ws://localhost:8800", n.urls()[0], 1)
	program := "package main\n\nimport (\n\t\"context\"\n\t\"fmt\"\n\t\"os\"\n\n\tcrore \"github.com/crore/crore/sdk/go\"\n)\n\n" +
		"func example(ctx context.Context) error {\n" + body + "return nil\n}\n\n" +
		"func main() {\n\tif err := example(context.Background()); err != nil {\n\t\tfmt.Println(err)\n\t\tos.Exit(1)\n\t}\n}\n"
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, text := range map[string]string{
		"main.go": program, "go.sum": string(sums),
		"go.mod": "module example\n\ngo 1.23\n\nrequire github.com/crore/crore/sdk/go v0.0.0\n\n" +
			"require github.com/coder/websocket " + requiredVersion(t) + " // indirect\n\n" +
			"replace github.com/crore/crore/sdk/go => " + here + "\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	output := run(t, folder, "go", "run", ".")
	if !strings.Contains(output, "prices/eur") {
		t.Error(output)
	}
}

func requiredVersion(t *testing.T) string {
	module, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	return string(regexp.MustCompile(`coder/websocket (\S+)`).FindSubmatch(module)[1])
}

func run(t *testing.T, folder, name string, arguments ...string) string {
	t.Helper()
	command := exec.Command(name, arguments...)
	command.Dir = folder
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, arguments, err, output)
	}
	return string(output)
}

// The example application loses nothing when the server is killed while vehicles drive.
func TestTheExampleApplicationSurvivesAKill(t *testing.T) {
	n := startNode(t, onDisk)
	program := filepath.Join(t.TempDir(), "fleet")
	run(t, ".", "go", "build", "-o", program, "./examples/fleet")
	fleet := exec.CommandContext(bounded(t), program, "-url", n.urls()[0], "-vehicles", "5", "-every", "20ms", "-for", "3s")
	var output bytes.Buffer
	fleet.Stdout, fleet.Stderr = &output, os.Stderr
	// The watcher is there before the first vehicle drives.
	client := n.connect(Options{})
	s := subscribe(t, client, "fleet/+/report")
	if err := s.Ready(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if err := fleet.Start(); err != nil {
		t.Fatal(err)
	}
	// Reports of all vehicles are there before the kill.
	for seen := make(map[string]bool); len(seen) < 5; {
		m, err := s.Receive(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		seen[m.Topic] = true
	}
	n.kill()
	n.start()
	if err := fleet.Wait(); err != nil {
		t.Fatal(err, output.String())
	}
	if !strings.Contains(output.String(), "of 5 vehicles, complete: true") {
		t.Error(output.String())
	}
}

// Everything that applications see has a comment.
func TestEverythingPublicIsDocumented(t *testing.T) {
	files := token.NewFileSet()
	parsed, err := parser.ParseDir(files, ".", func(file fs.FileInfo) bool {
		return !strings.HasSuffix(file.Name(), "_test.go")
	}, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	sources := make([]*ast.File, 0, 32)
	for _, file := range parsed["crore"].Files {
		sources = append(sources, file)
	}
	shown, err := doc.NewFromFiles(files, sources, "github.com/crore/crore/sdk/go")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	check := func(name, text string) {
		if count++; text == "" && ast.IsExported(name) {
			t.Errorf("%s has no comment", name)
		}
	}
	check("Package", shown.Doc)
	functions := shown.Funcs
	values := append(shown.Consts, shown.Vars...)
	for _, one := range shown.Types {
		check(one.Name, one.Doc)
		functions = append(append(functions, one.Funcs...), one.Methods...)
		values = append(append(values, one.Consts...), one.Vars...)
	}
	for _, one := range functions {
		check(one.Name, one.Doc)
	}
	for _, one := range values {
		check(one.Names[0], one.Doc)
	}
	if count < 50 {
		t.Errorf("only %d names", count)
	}
}
