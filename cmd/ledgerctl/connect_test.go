package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api/client"
)

func TestCredentialsAreFound(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("NEXUS_CREDS", "")
	t.Setenv("NEXUS_URL", "")
	d, err := daemon.Open(t.Context(), config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	url, files := d.ClientURL(), d.Credentials()
	saved := filepath.Join(home, "nats", "context", "work.json")
	if err := os.MkdirAll(filepath.Dir(saved), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(saved, []byte(`{"url":"`+url+`","nkey":"`+files.Agent+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(home, "empty.nk")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// Before the daemon's context is there, and after: each is a command line, its exit
	// status, and what it says.
	for _, tc := range []struct {
		context bool
		args    []string
		code    int
		want    string
	}{
		{false, []string{"--server", url, "sessions"}, 8, "other credentials"},
		{false, []string{"--server", url, "--creds", files.Operator, "sessions"}, 0, ""},
		{false, []string{"--server", url, "--creds", files.Agent, "sessions"}, 8, "user agent may not act as agent _"},
		{false, []string{"--server", url, "--creds", files.Agent, "--agent", "main", "sessions"}, 0, ""},
		{false, []string{"--server", url, "--creds", empty, "sessions"}, 2, "no seed"},
		{false, []string{"--server", url, "--creds", empty + "x", "sessions"}, 2, "--creds FILE"},
		{false, []string{"--nats-context", "work", "--agent", "main", "sessions"}, 0, ""},
		{false, []string{"--nats-context", "work", "sessions"}, 8, "user agent"},
		{false, []string{"--nats-context", "play", "sessions"}, 4, `no nats context "play"`},
		{false, []string{"--server", url, "nats-context"}, 4, "nexusd prints the files"},
		{false, []string{"--server", url, "--creds", "/a b.nk", "nats-context", "it's"}, 0, `nats context save 'it'\''s' --server ` + url + ` --nkey '/a b.nk' --select`},
		{true, []string{"--server", url, "sessions"}, 0, ""},
		{true, []string{"--server", strings.Replace(url, "127.0.0.1", "localhost", 1), "sessions"}, 0, ""},
		{false, []string{"--server", url, "--creds", "/a.nk", "--tls-ca", "/ca.pem", "nats-context"}, 0, "nats context save nexus --server " + url + " --nkey /a.nk --tlsca /ca.pem --select\n"},
		{true, []string{"--server", url, "nats-context"}, 0, "nats context save nexus --server " + url + " --nkey " + files.Agent + " --select\n"},
	} {
		if tc.context {
			if err := client.SaveServerContext(client.ServerContext{URL: url, Operator: files.Operator, Agent: files.Agent}); err != nil {
				t.Fatal(err)
			}
		}
		var out, errs bytes.Buffer
		if code := run(t.Context(), tc.args, strings.NewReader(""), &out, &errs); code != tc.code || !strings.Contains(out.String()+errs.String(), tc.want) {
			t.Errorf("%q: exit status %d, want %d: %s%s", tc.args, code, tc.code, &out, &errs)
		}
	}
}

// An error about a server shows no user, password or token of its URL.
func TestErrorsShowNoPasswordOfAURL(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("NEXUS_CREDS", "")
	for _, url := range []string{
		"nats://bob:s3cr3t@127.0.0.1:1", "nats://s3cr3t@127.0.0.1:1", "bob:s3cr3t@127.0.0.1:1", "nats://bob:s3cr3t@127.0.0.1:1,nats://al:s3cr3t@127.0.0.1:2",
		"nats://bob:s3cr3t@no.such.host.invalid:1", "nats://bob:s3cr3t@127.0.0.1:port", "nats://bob:s3cr3t%@127.0.0.1:1", "nats://bob:s3cr3t@:x:y", "nats://bob:s3c@s3cr3t@127.0.0.1:1",
	} {
		for _, verb := range []string{"sessions", "nats-context"} {
			var out, errs bytes.Buffer
			if code := run(t.Context(), []string{"--server", url, verb}, strings.NewReader(""), &out, &errs); code == 0 {
				t.Errorf("%s: exit status 0", url)
			}
			if said := out.String() + errs.String(); strings.Contains(said, "s3c") || !strings.Contains(said, "error:") {
				t.Errorf("%s %s: it says %q", verb, url, said)
			}
		}
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

func TestAPrivateAuthorityIsTrustedWhenItIsNamed(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	for _, name := range []string{"NEXUS_CREDS", "NEXUS_URL", "NEXUS_TLS_CA"} {
		t.Setenv(name, "")
	}
	cert, key := certificate(t)
	d, err := daemon.Open(t.Context(), config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30, TLSCert: cert, TLSKey: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	url, creds := d.ClientURL(), d.Credentials().Operator
	saved := filepath.Join(home, "nats", "context", "work.json")
	if err := os.MkdirAll(filepath.Dir(saved), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(saved, []byte(`{"url":"`+url+`","nkey":"`+creds+`","ca":"`+cert+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(variable string, args []string, code int, wants ...string) {
		t.Helper()
		t.Setenv("NEXUS_TLS_CA", variable)
		var out, errs bytes.Buffer
		got := run(t.Context(), args, strings.NewReader(""), &out, &errs)
		for _, want := range append(wants, "") {
			if got != code || !strings.Contains(errs.String(), want) {
				t.Errorf("%q: exit status %d, want %d and %q: %s%s", args, got, code, want, &out, &errs)
			}
		}
	}
	verb := []string{"--server", url, "--creds", creds, "sessions"}
	check("", verb, 5, "which this client does not trust", "hint: name the PEM file", "--tls-ca")
	check("", append([]string{"--tls-ca", cert}, verb...), 0)
	check(cert, verb, 0)
	check("", append([]string{"--tls-ca", key}, verb...), 2, "holds no certificate in PEM")
	check("", append([]string{"--tls-ca", cert + "x"}, verb...), 2, "--tls-ca FILE")
	check("", []string{"--nats-context", "work", "sessions"}, 0)
	if err := client.SaveServerContext(client.ServerContext{URL: url, Operator: creds, CA: cert}); err != nil {
		t.Fatal(err)
	}
	check("", []string{"--server", url, "sessions"}, 0)
}
