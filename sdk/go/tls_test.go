package crore

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// secure starts a node with a certificate of its own for localhost.
func secure(t *testing.T) (url string, trusts *tls.Config) {
	n := newNode(t, "")
	certificate := filepath.Join(n.folder, "cert.pem")
	n.say("tls", "self-signed", "--out", n.folder, "--name", "localhost")
	n.flags = []string{"--tls-listen", "127.0.0.1:0", "--tls-certificate", certificate,
		"--tls-key", filepath.Join(n.folder, "key.pem")}
	n.start()
	text, err := os.ReadFile(certificate)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	return strings.Replace("wss://"+n.tlsListen, "127.0.0.1", "localhost", 1), &tls.Config{RootCAs: roots}
}

func TestMessagesGoOverTLS(t *testing.T) {
	url, trusts := secure(t)
	header := http.Header{"X-Of-The-Application": {"1"}}
	ofItsOwn := &http.Client{Transport: &http.Transport{TLSClientConfig: trusts}}
	for name, options := range map[string]Options{
		"the client's transport": {TLS: trusts, Header: header},
		"the application's":      {HTTPClient: ofItsOwn, Header: header},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := Dial(bounded(t), []string{url}, options)
			if err != nil {
				t.Fatal(err)
			}
			defer closeNow(client)
			s := subscribe(t, client, "a")
			granted(t, s)
			// More than a record of TLS, and more than the reader's buffer.
			sizes := []int{1, 20_000, 100_000, 3, 33_000}
			for range 5 {
				for _, size := range sizes {
					client.PublishAsync("a", []byte(strings.Repeat("x", size)))
				}
			}
			for range 5 {
				for _, size := range sizes {
					m, err := s.Receive(bounded(t))
					if err != nil || len(m.Payload) != size {
						t.Fatal(len(m.Payload), size, err)
					}
				}
			}
			complete(t, s)
		})
	}
}

func TestACertificateThatNobodyTrustsIsRefused(t *testing.T) {
	url, trusts := secure(t)
	for name, one := range map[string]struct {
		url string
		tls *tls.Config
	}{
		"an unknown authority": {url, nil},
		"another name":         {strings.Replace(url, "localhost", "127.0.0.1", 1), trusts},
	} {
		t.Run(name, func(t *testing.T) {
			waits := make(chan State, 8)
			client, err := New([]string{one.url}, Options{TLS: one.tls, OnState: func(state State) {
				if state.Phase != Connecting {
					select {
					case waits <- state:
					default:
					}
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer closeNow(client)
			if state := <-waits; state.Phase != Waiting || state.Reason != ReasonNetwork {
				t.Error(state)
			}
		})
	}
}
