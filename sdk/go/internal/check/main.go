// Check runs everything that must pass before a commit: see README.md, section Development. Its last
// line counts the tests.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	var all tally
	all.step("formatting", func() error {
		output, err := exec.Command("gofmt", "-l", ".").CombinedOutput()
		if err == nil && len(output) > 0 {
			err = fmt.Errorf("run gofmt -w on %s", strings.Fields(string(output)))
		}
		return err
	})
	all.command("generated codes", "go", "run", "./internal/gencodes", "-check")
	all.command("go.mod and go.sum", "go", "mod", "tidy", "-diff")
	all.command("modules as published", "go", "mod", "verify")
	all.command("vet", "go", "vet", "./...")
	all.step("staticcheck", staticcheck)
	all.tests("-race", "-skip", "TestNothingLeaks", "./...")
	all.tests("-run", "TestNothingLeaks", ".")
	// A count, not a time: at the end of a time, Go before 1.27 may fail with "context deadline exceeded".
	fuzz := []string{"go", "test", "-run", "none", "-fuzztime", "100000x", "-fuzzminimizetime", "1x", "-fuzz"}
	all.command("fuzzing of the decoder", append(fuzz, "FuzzDecode", "./internal/wire")...)
	all.command("fuzzing of the core", append(fuzz, "FuzzCore", ".")...)
	bench := func(name, run, count string, more ...string) {
		words := []string{"go", "test", "-run", "none", "-bench", run, "-benchtime", count}
		all.command(name, append(append(words, more...), ".")...)
	}
	bench("benchmark of receiving beside a bare loop", "Receive", "11x")
	bench("benchmark of the core", "Core", "1000000x", "-cpu", "1")
	bench("benchmark of publishing", "Publish", "3x")
	bench("memory of idle clients", "Idle", "1x")
	fmt.Printf("%d passed, %d failed\n", all.passed, all.failed)
	if all.failed > 0 {
		os.Exit(1)
	}
}

// staticcheck builds the pinned version, and runs all its checks.
func staticcheck() error {
	folder, err := os.MkdirTemp("", "staticcheck-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, "staticcheck")
	build := exec.Command("go", "build", "-C", "internal/tools", "-o", program, "honnef.co/go/tools/cmd/staticcheck")
	for _, command := range []*exec.Cmd{build, exec.Command(program, "-checks", "all", "./...")} {
		command.Stdout, command.Stderr = os.Stdout, os.Stderr
		if err := command.Run(); err != nil {
			return err
		}
	}
	return nil
}

type tally struct{ passed, failed int }

func (t *tally) step(name string, run func() error) {
	fmt.Println("==", name)
	if err := run(); err != nil {
		fmt.Println(name, "failed:", err)
		t.failed++
	} else {
		t.passed++
	}
}

func (t *tally) command(name string, words ...string) {
	t.step(name, func() error {
		command := exec.Command(words[0], words[1:]...)
		command.Stdout, command.Stderr = os.Stdout, os.Stderr
		return command.Run()
	})
}

// event is a line of go test -json.
type event struct{ Action, Test, Output string }

// tests runs tests and counts them; the output of passed ones is dropped, but for what they measured.
func (t *tally) tests(arguments ...string) {
	command := exec.Command("go", append([]string{"test", "-json", "-count", "1", "-timeout", "10m"}, arguments...)...)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		fmt.Println(err)
		t.failed++
		return
	}
	failed := t.failed
	for lines := bufio.NewScanner(output); lines.Scan(); {
		var it event
		if json.Unmarshal(lines.Bytes(), &it) != nil {
			fmt.Println(lines.Text())
			continue
		}
		switch {
		case it.Action == "output" && !strings.HasPrefix(it.Output, "=== "):
			fmt.Print(it.Output)
		case it.Test != "" && it.Action == "pass":
			t.passed++
		case it.Test != "" && it.Action == "fail":
			t.failed++
		}
	}
	if command.Wait() != nil && t.failed == failed {
		t.failed++
	}
}
