package client

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"nexus/ledger/api"
)

// certificate makes a certificate that signed itself, for a host, valid for an hour from
// a time on, and returns it with the file that a client trusts it by.
func certificate(t *testing.T, from time.Time, host net.IP) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "shelf"}, NotBefore: from, NotAfter: from.Add(time.Hour),
		IPAddresses: []net.IP{host}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// natsServer starts a server with a certificate, or without one, and returns its URL.
func natsServer(t *testing.T, cert *tls.Certificate) string {
	t.Helper()
	o := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true}
	if cert != nil {
		o.TLS, o.TLSConfig, o.TLSTimeout = true, &tls.Config{Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS12}, 10
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server is not ready")
	}
	return "nats://" + s.Addr().String()
}

func TestDialSaysWhatIsWrongWithACertificate(t *testing.T) {
	loopback, now := net.IPv4(127, 0, 0, 1), time.Now()
	good, goodFile := certificate(t, now.Add(-time.Minute), loopback)
	old, oldFile := certificate(t, now.Add(-48*time.Hour), loopback)
	other, otherFile := certificate(t, now.Add(-time.Minute), net.IPv4(192, 0, 2, 7))
	for _, tc := range []struct {
		name, trust, want string
		cert              *tls.Certificate
	}{
		{"trusted", goodFile, "", &good},
		{"unknown authority", "", `signed by "CN=shelf", which this client does not trust`, &good},
		{"another authority", otherFile, `signed by "CN=shelf"`, &good},
		{"expired", oldFile, "and this machine's clock says", &old},
		{"another host", otherFile, `is for 192.0.2.7, not for "127.0.0.1"`, &other},
		{"no TLS", goodFile, "does not offer TLS", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var opts []nats.Option
			if tc.trust != "" {
				o, err := TrustOption(tc.trust)
				if err != nil {
					t.Fatal(err)
				}
				opts = append(opts, o)
			}
			nc, err := Dial(natsServer(t, tc.cert), "", opts...)
			if err == nil {
				nc.Close()
			}
			var wrong *TLSError
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
			} else if !errors.As(err, &wrong) || !strings.Contains(err.Error(), tc.want) || wrong.Remedy == "" {
				t.Errorf("%v; want a TLSError with %q", err, tc.want)
			}
		})
	}
}

func TestFileWithoutCertificatesIsMalformed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte("-----BEGIN PRIVATE KEY-----\nsecret"), 0o600); err != nil {
		t.Fatal(err)
	}
	var typed *api.Error
	if _, err := TrustOption(file); !errors.As(err, &typed) || typed.Code != api.Malformed || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v, want malformed", err)
	}
	if _, err := TrustOption(file + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is missing: %v", err)
	}
}
