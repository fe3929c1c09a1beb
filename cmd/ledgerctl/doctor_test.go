package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/build"
	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/ledgerctl/internal/doctor"
	"nexus/ledger/api/client"

	"nexus/turns"
)

// examined runs doctor with JSON, and returns its exit status and the results by check.
func examined(t *testing.T, args ...string) (code int, results map[string]string, said string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"doctor", "--json"}, args...), strings.NewReader(""), &out, &errs)
	var got struct {
		OK     bool           `json:"ok"`
		Checks []doctor.Check `json:"checks"`
	}
	if err := turns.DecodeJSON(bytes.TrimSpace(out.Bytes()), &got); err != nil || got.OK != (code == 0) || errs.Len() > 0 {
		t.Fatalf("exit status %d, %v: %s%s", code, err, &out, &errs)
	}
	results = make(map[string]string)
	for _, c := range got.Checks {
		if results[c.Name] += c.Result; c.Result == doctor.Failed && c.Do == "" {
			t.Errorf("%s fails, and nothing says what to do", c.Name)
		}
	}
	return code, results, out.String()
}

func TestDoctorSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, name := range []string{"NEXUS_CREDS", "NEXUS_URL", "NEXUS_TLS_CA", "NEXUS_TOKEN"} {
		t.Setenv(name, "")
	}
	d, err := daemon.Open(t.Context(), config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", MaxStore: 1 << 30, Version: build.Version()})
	if err != nil {
		t.Fatal(err)
	}
	url, files := d.ClientURL(), d.Credentials()
	closed := false
	stop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := d.Close(ctx); err != nil && !closed {
			t.Error(err)
		}
		closed = true
	}
	defer stop()
	at := []string{"--server", url, "--creds", files.Operator, "--http", d.HTTPURL()}
	code, got, said := examined(t, at...)
	for name, want := range map[string]string{"context": "skipped", "credentials": "ok", "connection": "ok", "max_payload": "ok", "user": "okok", "service": "ok",
		"ready": "ok", "clock": "ok", "version": "ok", "key": "ok", "durability": "ok", "scrub": "ok"} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q: %s", name, got[name], want, said)
		}
	}
	if code != 0 || got["fsync"] == "" || got["disk"] == "" { // which are as they are on this machine
		t.Errorf("exit status %d: %s", code, said)
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), append([]string{"doctor"}, at...), strings.NewReader(""), &out, &errs); code != 0 || !strings.Contains(out.String(), "ok       service: nexusd answers\n") {
		t.Errorf("as text: exit status %d: %s%s", code, &out, &errs)
	}
	// By the context that nexusd writes, without flags.
	if err := client.SaveServerContext(client.ServerContext{URL: url, Operator: files.Operator, Agent: files.Agent, HTTP: d.HTTPURL()}); err != nil {
		t.Fatal(err)
	}
	if code, got, said := examined(t, "--server", url); code != 0 || got["context"] != "ok" || got["ready"] != "ok" {
		t.Errorf("by the context: exit status %d: %s", code, said)
	}
	// An agent's user is not the operator, which is no fault; as another tenant's agent it may do nothing.
	if code, got, said := examined(t, "--server", url, "--creds", files.Agent); code != 0 || got["user"] != "okok" || got["key"] != "skipped" {
		t.Errorf("an agent's user: exit status %d: %s", code, said)
	}
	if code, _, said := examined(t, "--server", url, "--creds", files.Agent, "--tenant", "other"); code != 8 {
		t.Errorf("another tenant: exit status %d, want 8: %s", code, said)
	}
	// A key that others read, and credentials of nobody.
	if err := os.Chmod(files.Agent, 0o644); err != nil {
		t.Fatal(err)
	}
	if code, got, said := examined(t, "--server", url, "--creds", files.Agent); code != 0 || got["credentials"] != "warn" || !strings.Contains(said, "chmod 600") {
		t.Errorf("a key for all: exit status %d: %s", code, said)
	}
	if code, got, said := examined(t, "--server", url, "--creds", filepath.Join(t.TempDir(), "none.nk")); code != 1 || got["credentials"] != "fail" || got["connection"] != "fail" || got["ready"] != "ok" {
		t.Errorf("a file that is missing: exit status %d: %s", code, said)
	}
	stop()
	if code, got, said := examined(t, at...); code != 5 || got["connection"] != "fail" || got["http"] != "fail" || got["credentials"] != "ok" || !strings.Contains(said, "nexusd is down") {
		t.Errorf("nexusd is down: exit status %d: %s", code, said)
	}
}

func TestDoctorJudgesWhatNexusdCounts(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("NEXUS_TOKEN", "")
	t.Setenv("NEXUS_TLS_CA", "")
	info := func(sync string) string {
		return fmt.Sprintf("nexus_info{replicas=\"3\",seal=\"off\",server=\"external\",sync=%q,version=%q} 1\n", sync, build.Version())
	}
	for name, tc := range map[string]struct {
		ready   int
		skew    time.Duration
		metrics string
		code    int
		want    map[string]string
		notes   string // of /readyz
	}{
		"an external cluster":           {200, 0, info("always"), 5, map[string]string{"ready": "ok", "durability": "ok", "fsync": "skipped", "scrub": "skipped", "clock": "ok"}, ""},
		"servers that acknowledge late": {200, 0, info("later"), 5, map[string]string{"durability": "warn"}, ""},
		"servers that do not tell":      {200, 0, info("unknown"), 5, map[string]string{"durability": "warn"}, ""},
		"another version":               {200, 0, strings.Replace(info("always"), build.Version(), "9.9.9", 1), 5, map[string]string{"version": "warn"}, ""},
		"a clock that is off":           {200, time.Hour, info("always"), 5, map[string]string{"clock": "warn"}, ""},
		"not ready":                     {503, 0, info("always"), 5, map[string]string{"ready": "fail"}, ""},
		"no token":                      {401, 0, "", 5, map[string]string{"http": "fail"}, ""},
		"another program":               {404, 0, "", 5, map[string]string{"http": "fail"}, ""},
		"damage":                        {200, 0, info("always") + "nexus_damaged 1\n", 6, map[string]string{"scrub": "fail"}, ""},
		"a slow disk":                   {200, 0, info("always") + "nexus_fsync_seconds 0.02\nnexus_disk_free_bytes 1000\nnexus_chains_set_aside 2\n", 5, map[string]string{"fsync": "warn", "disk": "warn", "sessions": "warn"}, ""},
		"a disk that forgets":           {200, 0, info("always") + "nexus_fsync_seconds 1e-05\n", 5, map[string]string{"fsync": "warn"}, ""},
		"keys that are missing":         {200, 0, info("always"), 5, map[string]string{"ready": "ok", "keys": "warn", "cluster": ""}, "3 sessions can't be read: their key is missing or damaged\n"},
		"a server that is away":         {200, 0, info("always"), 5, map[string]string{"cluster": "warn", "keys": ""}, "server b is offline: the log has one copy less\n"},
		"checkpoints that stay here":    {200, 0, info("always"), 5, map[string]string{"cluster": "", "checkpoints": "warn"}, "checkpoints are not written elsewhere: no such file\n"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", time.Now().Add(-tc.skew).UTC().Format(http.TimeFormat))
			if r.URL.Path == "/metrics" {
				fmt.Fprint(w, tc.metrics)
				return
			}
			w.WriteHeader(tc.ready)
			fmt.Fprint(w, "ok\n"+tc.notes)
		}))
		// No NATS server is there: that is the 5.
		code, got, said := examined(t, "--server", "nats://127.0.0.1:1", "--http", s.URL)
		s.Close()
		for check, want := range tc.want {
			if got[check] != want || code != tc.code {
				t.Errorf("%s: %s is %q, want %q; exit status %d, want %d: %s", name, check, got[check], want, code, tc.code, said)
			}
		}
	}
}
