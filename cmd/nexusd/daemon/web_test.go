package daemon

import (
	"context"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

func get(t *testing.T, url, host string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	return a.StatusCode
}

// The metrics have the log's end beside what the projections have applied, so that
// the difference says how far they are behind. While the log can't be read its end is
// absent.
func TestMetricsHaveTheLogsEndBesideTheProjections(t *testing.T) {
	d, c := startWith(t, Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", MaxStore: 1 << 30})
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "hello")}})
	if err != nil {
		t.Fatal(err)
	}
	at := strings.TrimPrefix(a.Position, "p")
	if body := read(t, d.HTTPURL()+"/readyz"); body != "ok\n" { // it waits for the projections
		t.Fatal(body)
	}
	body := read(t, d.HTTPURL()+"/metrics")
	for _, want := range []string{"\nnexus_log_last_position " + at + "\n", "\nnexus_projections_position " + at + "\n"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	down := make(chan prometheus.Metric, 1)
	(&logEnd{unreadable{}}).Collect(down)
	if len(down) != 0 {
		t.Error("a log that can't be read has an end")
	}
}

// unreadable is a log that can't be read.
type unreadable struct{ ledger.Log }

func (unreadable) State(context.Context) (ledger.State, error) {
	return ledger.State{}, ledger.ErrUnavailable
}

// A start on a port that another program has names the setting that takes another one.
func TestATakenPortNamesItsSetting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for flag, c := range map[string]Config{
		"--listen or NEXUS_LISTEN": {Listen: l.Addr().String(), HTTP: "off"},
		"--http or NEXUS_HTTP":     {Listen: "127.0.0.1:0", HTTP: l.Addr().String()},
	} {
		c.Data, c.MaxStore = t.TempDir(), 1<<30
		d, err := Open(t.Context(), c)
		if err == nil {
			t.Error(d.Close(context.Background()))
			t.Fatalf("two listen on one port: %s", flag)
		}
		if !strings.Contains(err.Error(), flag) {
			t.Errorf("%q does not name %s", err, flag)
		}
	}
}

// A page of another site that resolves to 127.0.0.1 reads nothing.
func TestALoopbackListenerRefusesForeignHosts(t *testing.T) {
	d, _ := startWith(t, Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", MaxStore: 1 << 30})
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		for host, want := range map[string]int{
			"": 200, "localhost": 200, "LOCALHOST:8422": 200, "127.0.0.1": 200, "127.0.0.1:1": 200, "[::1]": 200, "[::1]:8422": 200,
			"evil.example": 403, "evil.example:8422": 403, "127.0.0.1.evil.example": 403, "localhost.": 403, "127.0.0.2": 403, "[::2]:80": 403,
		} {
			if got := get(t, d.HTTPURL()+path, host); got != want {
				t.Errorf("%s with Host %q: %d, want %d", path, host, got, want)
			}
		}
	}
}

// A listener for others takes every name: it can't know by which it is reached.
func TestAnOpenListenerTakesEveryHost(t *testing.T) {
	d, _ := startWith(t, Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "0.0.0.0:0", MaxStore: 1 << 30})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(d.HTTPURL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if got := get(t, "http://127.0.0.1:"+port+"/healthz", "nexus.example"); got != 200 {
		t.Errorf("%d, want 200", got)
	}
}

// A daemon whose HTTP listener fails can't be watched any more: it ends.
func TestAFailedHTTPListenerEndsTheDaemon(t *testing.T) {
	d, _ := startWith(t, Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", MaxStore: 1 << 30})
	if err := d.web.listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-d.Failed(); err == nil || !strings.Contains(err.Error(), "http on 127.0.0.1:") {
		t.Errorf("%v, want an error of the HTTP listener", err)
	}
}

func TestATakenHTTPPortEndsTheStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d, err := Open(t.Context(), Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: l.Addr().String(), MaxStore: 1 << 30})
	if err == nil {
		_ = d.Close(t.Context())
	}
	if err == nil || !strings.Contains(err.Error(), "http: listen tcp "+l.Addr().String()) {
		t.Errorf("%v, want an error that names the port", err)
	}
}

// Nobody but the owner reads any file of the data folder, also in a copy of it.
func TestADataFolderIsItsOwnersAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	d, c := start(t, dir)
	extend(t, c, must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{})).ID, 3)
	for range 2 { // the second time with what a restart writes
		files := 0
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			files++
			return err
		})
		if err != nil || files < 10 {
			t.Fatalf("%d files, %v", files, err)
		}
		stop(t, d, c)
		d, c = start(t, dir)
	}
}
