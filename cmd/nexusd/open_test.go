package main

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/localserver"
	"nexus/cmd/nexusd/internal/faulttest"
	"nexus/ledger/jetstream/embed"
)

// TestACommandServesThePagesItself: where no daemon runs, the child of ledgerctl serves the explorer and nothing else over
// HTTP, for as long as a page follows the ledger, and ends after that.
func TestACommandServesThePagesItself(t *testing.T) {
	ledgerctl := faulttest.Build(t, "../ledgerctl")
	home := t.TempDir()
	data := filepath.Join(home, "ledger")
	cmd := exec.Command(ledgerctl, "open", "--print", "--data="+data, "--idle=300ms")
	cmd.Dir = home
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "NEXUS_") || strings.HasPrefix(v, "XDG_") || strings.HasPrefix(v, "HOME=")
	}), "HOME="+home)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	link := strings.TrimSpace(string(out))
	at, err := url.Parse(link)
	if err != nil || at.Hostname() != "127.0.0.1" {
		t.Fatalf("%q, %v", link, err)
	}
	base := "http://" + at.Host
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Timeout: 30 * time.Second}
	status := func(r *http.Response, err error) int {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		return r.StatusCode
	}
	// The code waits for longer than the child would without it.
	time.Sleep(1500 * time.Millisecond)
	if got := status(browser.Post(link, "", nil)); got != http.StatusOK { // by way of /ui/
		t.Fatalf("login: %d", got)
	}
	// At once: between two requests without it the child may end, and a busy machine takes long for each.
	stream, err := (&http.Client{Jar: jar}).Get(base + "/ui/live")
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatal(stream, err)
	}
	for _, path := range []string{"/mcp", "/v1/models", "/metrics", "/readyz"} {
		if got := status(browser.Get(base + path)); got != http.StatusNotFound {
			t.Errorf("%s: %d", path, got)
		}
	}
	time.Sleep(1500 * time.Millisecond)
	if got := status(browser.Get(base + "/ui/")); got != http.StatusOK {
		t.Errorf("beside a page that follows: %d", got)
	}
	stream.Body.Close()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, err := localserver.Find(data); err != nil { // to ask whether it answers would keep it
			lock, err := embed.Lock(data)
			if err == nil { // and it is gone, with all that it had open in the folder
				_ = lock.Close()
				break
			}
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(data, "serve.log"))
			t.Fatalf("the child serves without a page; its log:\n%s", log)
		}
	}
}
