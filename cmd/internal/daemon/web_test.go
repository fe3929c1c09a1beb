package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
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
// the difference says how far they are behind.
func TestMetricsHaveTheLogsEndBesideTheProjections(t *testing.T) {
	d, c := startWith(t, config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", MaxStore: 1 << 30})
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
}

// A start on a port that another program has names the setting that takes another one.
func TestATakenPortNamesItsSetting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for flag, c := range map[string]config.Config{
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
	d, _ := startWith(t, config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", MaxStore: 1 << 30})
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		for host, want := range map[string]int{
			"": 200, "localhost": 200, "LOCALHOST:8422": 200, "127.0.0.1": 200, "127.0.0.1:1": 200, "[::1]": 200, "[::1]:8422": 200,
			"evil.example": 421, "evil.example:8422": 421, "127.0.0.1.evil.example": 421, "localhost.": 421, "127.0.0.2": 421, "[::2]:80": 421,
		} {
			if got := get(t, d.HTTPURL()+path, host); got != want {
				t.Errorf("%s with Host %q: %d, want %d", path, host, got, want)
			}
		}
	}
}

// Beyond loopback HTTP is HTTPS, /healthz is open, and the rest wants a token. A request
// for a host that is no name of the listener is refused there too.
func TestAnOpenListenerNeedsATokenAndItsName(t *testing.T) {
	cert, key := certificate(t)
	secret, row, err := config.NewToken("prometheus", "", "", "read")
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(t.Context(), config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "0.0.0.0:0", MaxStore: 1 << 30,
		TLSCert: cert, TLSKey: key, Token: []config.TokenRow{row}, HTTPHosts: "nexus.example, ledger"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(d.HTTPURL(), "https://"))
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	for _, tc := range []struct {
		path, host, token string
		want              int
	}{
		{"/healthz", "", "", 200}, {"/healthz", "nexus.example", "", 200}, {"/healthz", "evil.example", "", 421},
		{"/readyz", "", "", 401}, {"/readyz", "", secret, 200}, {"/readyz", "ledger:8422", secret, 200}, {"/readyz", "evil.example", secret, 421}, {"/readyz", "0.0.0.0", secret, 421},
		{"/metrics", "", "", 401}, {"/metrics", "", secret, 200}, {"/metrics", "", secret + "x", 401}, {"/metrics", "", row.Hash, 401},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:"+port+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = tc.host
		if tc.token != "" {
			r.Header.Set("Authorization", "Bearer "+tc.token)
		}
		a, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != tc.want {
			t.Errorf("%+v: %d", tc, a.StatusCode)
		}
	}
}

func TestATokenRowIsCheckedBeforeAnythingStarts(t *testing.T) {
	secret, row, err := config.NewToken("ci", "", "", "write")
	if err != nil || row.Tenant != "default" || row.Agent != "main" || strings.Contains(row.Hash, secret) {
		t.Fatalf("%+v, %v", row, err)
	}
	if _, _, err := config.NewToken("a b", "", "", "read"); !errors.Is(err, turns.ErrMalformed) {
		t.Errorf("a name with a space: %v", err)
	}
	with := func(change func(*config.TokenRow)) config.Config {
		r := row
		change(&r)
		return config.Config{Token: []config.TokenRow{r}}
	}
	all := config.Config{HTTP: "0.0.0.0:8422", TLSCert: "c", TLSKey: "k", Token: []config.TokenRow{row}}
	for name, tc := range map[string]struct {
		config config.Config
		want   string // in the error; "" for none
	}{
		"a row":                        {config.Config{Token: []config.TokenRow{row}}, ""},
		"the operator":                 {with(func(r *config.TokenRow) { r.Agent, r.Scope = "_", "admin" }), ""},
		"the operator without admin":   {with(func(r *config.TokenRow) { r.Agent = "_" }), "scope admin"},
		"the secret for its hash":      {with(func(r *config.TokenRow) { r.Hash = secret }), "hash is not"},
		"no hash":                      {with(func(r *config.TokenRow) { r.Hash = "" }), "hash is not"},
		"no scope":                     {with(func(r *config.TokenRow) { r.Scope = "" }), "scope is read, write or admin"},
		"no name":                      {with(func(r *config.TokenRow) { r.Name = "" }), "not a name"},
		"a tenant that is none":        {with(func(r *config.TokenRow) { r.Tenant = "*" }), "tenant"},
		"an agent that is none":        {with(func(r *config.TokenRow) { r.Agent = "a.b" }), "agent"},
		"two rows of a name":           {config.Config{Token: []config.TokenRow{row, row}}, "another row"},
		"rows with http off":           {config.Config{HTTP: "off", Token: []config.TokenRow{row}}, "no effect"},
		"beyond loopback":              {all, ""},
		"beyond loopback with nats":    {config.Config{NATS: "nats://x:4222", Plaintext: true, HTTP: all.HTTP, TLSCert: "c", TLSKey: "k", Token: all.Token}, ""},
		"a certificate that is unused": {config.Config{NATS: "nats://x:4222", Plaintext: true, TLSCert: "c", TLSKey: "k"}, "tls_cert"},
		"beyond loopback, no token":    {config.Config{HTTP: all.HTTP, TLSCert: "c", TLSKey: "k"}, "[[token]]"},
		"beyond loopback, no TLS":      {config.Config{HTTP: all.HTTP, Token: all.Token}, "tls_cert"},
		"every address, no token":      {config.Config{HTTP: ":8422", TLSCert: "c", TLSKey: "k"}, "[[token]]"},
		"a name of the network":        {config.Config{HTTP: "ledger.example:8422"}, "[[token]]"},
		"hosts":                        {config.Config{HTTPHosts: "nexus.example,192.0.2.7"}, ""},
		"a host with a port":           {config.Config{HTTPHosts: "nexus.example:8422"}, "http_hosts"},
		"a pattern for a host":         {config.Config{HTTPHosts: "*"}, "http_hosts"},
	} {
		err := tc.config.Validate()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) || err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// A daemon whose HTTP listener fails can't be watched any more: it ends.
func TestAFailedHTTPListenerEndsTheDaemon(t *testing.T) {
	d, _ := startWith(t, config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", MaxStore: 1 << 30})
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
	d, err := Open(t.Context(), config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: l.Addr().String(), MaxStore: 1 << 30})
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
		for { // the index makes its files behind the appends
			if hits, err := c.Search(t.Context(), api.Search{Text: "x"}); err == nil && hits.Behind == 0 {
				break
			}
			if t.Context().Err() != nil {
				t.Fatal(t.Context().Err())
			}
			time.Sleep(10 * time.Millisecond) // a pause between tries
		}
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
