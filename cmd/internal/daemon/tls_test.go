package daemon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

// certificate makes a certificate for this machine, and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for file, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// With a certificate the daemon listens on every address, and talks to nobody
// without TLS.
func TestListenerWithCertificateNeedsTLS(t *testing.T) {
	cert, key := certificate(t)
	d, err := Open(t.Context(), config.Config{Data: t.TempDir(), Listen: "0.0.0.0:0", HTTP: "off", MaxStore: 1 << 30, TLSCert: cert, TLSKey: key})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if !strings.HasPrefix(d.ClientURL(), "tls://") {
		t.Errorf("clients are to connect to %s", d.ClientURL())
	}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(d.ClientURL(), "tls://"))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := client.Dial("tls://127.0.0.1:"+port, d.Credentials().Agent, nats.RootCAs(cert))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := client.New(nc, "default", "main").Create(t.Context(), api.CreateSession{}); err != nil {
		t.Error(err)
	}
	if state, err := nc.TLSConnectionState(); err != nil || state.Version < 0x0303 {
		t.Errorf("TLS %+v, %v", state.Version, err)
	}
	conn, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("CONNECT {\"verbose\":false}\r\nPING\r\n")); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	b := make([]byte, 4096)
	for n, err := conn.Read(b); err == nil; n, err = conn.Read(b) {
		said.Write(b[:n])
	}
	if strings.Contains(said.String(), "PONG") {
		t.Errorf("it answered in the clear: %s", said.String())
	}
}

func TestCertificateThatCannotBeReadEndsTheStart(t *testing.T) {
	cert, key := certificate(t)
	for _, c := range []config.Config{{TLSCert: cert, TLSKey: cert}, {TLSCert: cert + "x", TLSKey: key}} {
		c.Data, c.Listen, c.HTTP = t.TempDir(), "127.0.0.1:0", "off"
		if d, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "tls_cert") {
			t.Errorf("%v, want an error that names the setting", err)
			if err == nil {
				_ = d.Close(t.Context())
			}
		}
	}
}
