package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// A password or token in --nats is in neither the ready line nor the log.
func TestTheReadyLineShowsNoPassword(t *testing.T) {
	const secret = "s3cr3t-w0rd"
	for name, o := range map[string]server.Options{
		"nats://ledger:" + secret + "@": {Username: "ledger", Password: secret},
		"nats://" + secret + "@":        {Authorization: secret},
	} {
		s := startServer(t, o)
		line, log, code := startAndStop(t, "--nats", name+s.Addr().String(), "--replicas", "1", "--create", "--plaintext", "--data", t.TempDir(), "--log-level", "debug")
		if code != 0 {
			t.Fatalf("exit status %d: %s", code, log)
		}
		if want := `"nats_url":"nats://` + s.Addr().String() + `"`; !strings.Contains(line, want) {
			t.Errorf("%s is without %s", line, want)
		}
		if strings.Contains(line+log, secret) {
			t.Errorf("the password shows:\n%s%s", line, log)
		}
	}
}

func TestATakenHTTPPortIsAnExitStatus(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var out, log bytes.Buffer
	code := run(t.Context(), []string{"--listen", "127.0.0.1:0", "--http", l.Addr().String(), "--data", t.TempDir(), "--max-store", "1000000000"}, nil, &out, &log)
	if code == 0 || out.Len() > 0 || !strings.Contains(log.String(), "nexusd: error: http: listen tcp "+l.Addr().String()) {
		t.Errorf("exit status %d, ready line %q, log:\n%s", code, out.String(), log.String())
	}
}

// A server that nobody can reach may be there later: supervisors tell it from a wrong configuration by the status.
func TestAServerThatIsNotReachedIsExitStatusFive(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "nats://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	code := run(t.Context(), []string{"--nats", url, "--plaintext", "--http", "off", "--data", t.TempDir()}, nil, &out, &log)
	if code != 5 || !strings.Contains(log.String(), "check that the server runs") {
		t.Errorf("exit status %d, want 5, log:\n%s", code, log.String())
	}
}

// The ready line names the files of the credentials. On a port that was named, the
// user's configuration has them too, and they work; on one that was picked it does not.
func TestReadyLineNamesTheCredentials(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cert, key := certificate(t)
	for _, tc := range []struct {
		name           string
		args           []string
		named, context bool
	}{
		{"picked port", []string{"--listen", "127.0.0.1:0"}, true, false},
		{"named port", []string{"--listen", free}, true, true},
		{"with a certificate", []string{"--listen", free, "--tls-cert", cert, "--tls-key", key}, true, true},
		{"auth off on the same port", []string{"--listen", free, "--auth", "off"}, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			out, in := io.Pipe()
			var log bytes.Buffer
			code := make(chan int, 1)
			go func() {
				code <- run(ctx, append(tc.args, "--http", "off", "--data", t.TempDir(), "--max-store", "1000000000"), nil, in, &log)
				in.Close()
			}()
			line, readErr := bufio.NewReader(out).ReadBytes('\n')
			defer func() {
				cancel()
				if got := <-code; got != 0 || readErr != nil {
					t.Errorf("exit status %d, %v: %s", got, readErr, log.String())
				}
			}()
			var ready struct {
				Ready       bool                `json:"ready"`
				URL         string              `json:"nats_url"`
				HTTP        string              `json:"http_url"`
				Data        string              `json:"data"`
				Version     string              `json:"version"`
				Key         string              `json:"checkpoint_key"`
				Credentials *config.Credentials `json:"credentials"`
			}
			if err := turns.DecodeJSON(bytes.TrimSpace(line), &ready); err != nil || (ready.Credentials != nil) != tc.named {
				t.Fatalf("ready line %s, %v", line, err)
			}
			found, err := client.FindServerContext(ready.URL)
			if (err == nil) != tc.context {
				t.Fatalf("context %+v, %v", found, err)
			}
			if !tc.context {
				return
			}
			if want := (client.ServerContext{URL: ready.URL, Operator: ready.Credentials.Operator, Agent: ready.Credentials.Agent}); found != want {
				if want.CA = cert; found != want || !slices.Contains(tc.args, cert) {
					t.Errorf("context %+v, want %+v", found, want)
				}
			}
			var opts []nats.Option
			if found.CA != "" {
				trust, err := client.TrustOption(found.CA)
				if err != nil {
					t.Fatal(err)
				}
				opts = append(opts, trust)
			}
			for file, may := range map[string]bool{found.Operator: true, found.Agent: false} {
				nc, err := client.Dial(ready.URL, file, opts...)
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				operator := client.New(nc, "default", api.Operator)
				if _, err := operator.Verify(ctx); (err == nil) != may {
					t.Errorf("%s as the operator: %v", file, err)
				}
				if k, err := operator.CheckpointKey(ctx); may && (err != nil || k.Key != ready.Key || k.Key == "") {
					t.Errorf("the ready line has the key %q, the ledger %+v, %v", ready.Key, k, err)
				}
			}
		})
	}
}

// certificate returns PEM files of a certificate for this machine that signed itself,
// and of its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	pair := s.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for file, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// The collector's limit leaves the caches their budget.
func TestMemoryLimitIsAboveTheCaches(t *testing.T) {
	for cache, want := range map[int64]int64{0: config.DefaultCacheBytes + workMemory, 1 << 30: 1<<30 + workMemory} {
		if got := memoryLimit(cache); got != want {
			t.Errorf("cache_bytes %d: %d, want %d", cache, got, want)
		}
	}
}

// help is what people type first.
func TestHelpIsAVerbAndAFlag(t *testing.T) {
	for _, arg := range []string{"help", "--help"} {
		var out, log bytes.Buffer
		if code := run(t.Context(), []string{arg}, nil, &out, &log); code != 0 || out.String() != usage {
			t.Errorf("%s: exit status %d, %.60q, %s", arg, code, out.String(), log.String())
		}
	}
}
