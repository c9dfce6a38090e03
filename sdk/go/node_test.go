package crore

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// limit bounds every wait of the tests.
const limit = 90 * time.Second

func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// node is a server that may be stopped and started again at the same address.
type node struct {
	t             testing.TB
	folder        string
	configuration string
	listen        string
	flags         []string
	// tlsListen is the address with TLS, if there is one.
	tlsListen string
	process   *exec.Cmd
	ended     chan struct{}
}

// onDisk is a log on disk.
const onDisk = `[node]
data_dir = "FOLDER/data"
drain_window = "1s"
[[log]]
name = "kept"
durability = "disk"
partitions_count = 4
age_max = "1d"
`

// ownAddress is an address that no other program has: between two starts of a node nobody takes its
// port there. Nor does a client that keeps connecting: its socket has 127.0.0.1, where a connect may
// reach itself.
func ownAddress() string {
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), 1+rand.IntN(254), 1+rand.IntN(254))
}

func newNode(t testing.TB, configuration string) *node {
	n := &node{t: t, folder: t.TempDir(), listen: ownAddress() + ":0"}
	n.configuration = strings.ReplaceAll(configuration, "FOLDER", n.folder)
	t.Cleanup(n.kill)
	return n
}

func startNode(t testing.TB, configuration string) *node {
	n := newNode(t, configuration)
	n.start()
	return n
}

// bareEnvironment is without variables that begin with CRORE_: they are options of a node.
func bareEnvironment() (bare []string) {
	for _, one := range os.Environ() {
		if !strings.HasPrefix(one, "CRORE_") {
			bare = append(bare, one)
		}
	}
	return bare
}

var clientsLine = regexp.MustCompile(`listening clients(?: with TLS)? (https?)://([^ /]+)`)

// start returns when the node is ready.
func (n *node) start() {
	n.t.Helper()
	file := filepath.Join(n.folder, "crore.toml")
	if err := os.WriteFile(file, []byte(n.configuration), 0o600); err != nil {
		n.t.Fatal(err)
	}
	n.process = exec.Command(program(n.t, "CRORE_SERVER"), "serve", "--config", file, "--listen", n.listen,
		"--admin-listen", "127.0.0.1:0")
	n.process.Args = append(n.process.Args, n.flags...)
	n.process.Env = append(bareEnvironment(), "RUNTIME_DIRECTORY="+filepath.Join(n.folder, "run"))
	output, err := n.process.StdoutPipe()
	if err == nil {
		n.process.Stderr = os.Stderr
		err = n.process.Start()
	}
	if err != nil {
		n.t.Fatal(err)
	}
	n.ended = make(chan struct{})
	ready := make(chan map[string]string, 1)
	go func(process *exec.Cmd, ended chan struct{}) {
		addresses := make(map[string]string)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if found := clientsLine.FindStringSubmatch(lines.Text()); found != nil {
				addresses[found[1]] = found[2]
			}
			if strings.HasSuffix(lines.Text(), "ready") {
				ready <- addresses
			}
		}
		_ = process.Wait()
		close(ended)
	}(n.process, n.ended)
	select {
	case addresses := <-ready:
		n.listen, n.tlsListen = addresses["http"], addresses["https"]
	case <-n.ended:
		n.t.Fatal("the node has ended")
	case <-time.After(limit):
		n.t.Fatal("the node is not ready")
	}
}

func (n *node) urls() []string { return []string{"ws://" + n.listen} }

// kill ends the node as kill -9 does.
func (n *node) kill() { n.signal(syscall.SIGKILL) }

func (n *node) signal(signal os.Signal) {
	if n.process != nil {
		_ = n.process.Process.Signal(signal)
		<-n.ended
	}
}

// say returns what a command of the server's program prints.
func (n *node) say(arguments ...string) string {
	n.t.Helper()
	command := exec.Command(program(n.t, "CRORE_SERVER"), arguments...)
	command.Env = bareEnvironment()
	output, err := command.Output()
	if err != nil {
		n.t.Fatal(arguments, err)
	}
	return strings.TrimSpace(string(output))
}

// connect makes a client that ends with the test.
func (n *node) connect(options Options) *Client {
	n.t.Helper()
	if options.backoff == nil {
		options.backoff = &backoffSettings{baseMs: 20, maxMs: 200, resetAfterMs: 10_000}
	}
	client, err := New(n.urls(), options)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { closeNow(client) })
	return client
}

func closeNow(client *Client) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = client.Close(ctx)
}

func publish(t testing.TB, client *Client, topic, text string, options ...PublishOption) Published {
	t.Helper()
	published, err := client.Publish(bounded(t), topic, []byte(text), options...)
	if err != nil {
		t.Fatal(err)
	}
	return published
}

func subscribe(t testing.TB, client *Client, topic string, options ...SubscribeOption) *Subscription {
	t.Helper()
	s, err := client.Subscribe(context.Background(), topic, options...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ready(t testing.TB, client *Client) {
	t.Helper()
	if err := client.Ready(bounded(t)); err != nil {
		t.Fatal(err)
	}
}

// granted waits for the first item of a live subscription.
func granted(t testing.TB, s *Subscription) {
	t.Helper()
	if item, err := s.Next(bounded(t)); err != nil {
		t.Fatal(item, err)
	} else if _, ok := item.(*CaughtUp); !ok {
		t.Fatalf("%#v in place of caught up", item)
	}
}

// expect reads messages with these texts.
func expect(t testing.TB, s *Subscription, texts ...string) {
	t.Helper()
	ctx := bounded(t)
	for _, text := range texts {
		message, err := s.Receive(ctx)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if message.Text() != text {
			t.Fatalf("%q in place of %q", message.Text(), text)
		}
	}
}

func complete(t testing.TB, s *Subscription) {
	t.Helper()
	if report := s.Report(); !report.Complete {
		t.Errorf("not complete: %+v", report)
	}
}
