package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/ledger/api"
)

// TrustOption returns the option of a connection that uses TLS and trusts the
// certificates in a PEM file only: that of a private authority, or the server's own.
// The client reads the file again at each connect.
func TrustOption(file string) (nats.Option, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("certificates of authorities: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(b) {
		return nil, api.Errorf(api.Malformed, nil, "certificates of authorities: %s holds no certificate in PEM", file)
	}
	return nats.RootCAs(file), nil
}

// TLSError says why a client and a server did not agree on TLS. It unwraps to the
// error of the handshake.
type TLSError struct {
	Why    string // what is wrong
	Remedy string // what the user can do
	err    error
}

func (e *TLSError) Error() string { return e.Why }

// Unwrap returns the error of the handshake.
func (e *TLSError) Unwrap() error { return e.err }

// explainTLS returns err, of a connect, as a *TLSError if TLS is the reason.
func explainTLS(err error) error {
	var issuer x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var refused tls.AlertError
	switch {
	case errors.As(err, &issuer):
		who := "an authority without a name"
		if c := issuer.Cert; c != nil && c.Issuer.String() != "" {
			who = fmt.Sprintf("%q", c.Issuer.String())
		}
		return &TLSError{"the server's certificate is signed by " + who + ", which this client does not trust",
			"name the PEM file of that authority, or of the server's certificate if it signed itself, as the one to trust", err}
	case errors.As(err, &host):
		names := append([]string(nil), host.Certificate.DNSNames...)
		for _, ip := range host.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		if len(names) == 0 {
			names = []string{"no host (it has no subject alternative name)"}
		}
		return &TLSError{fmt.Sprintf("the server's certificate is for %s, not for %q", strings.Join(names, ", "), host.Host),
			"connect by a name that the certificate has, or give the server a certificate with this name", err}
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		now := time.Now().UTC().Format(time.RFC3339)
		return &TLSError{fmt.Sprintf("the server's certificate is valid from %s to %s, and this machine's clock says %s",
			invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339), now),
			"renew the certificate and start the server again, or set the clock", err}
	case errors.As(err, &invalid):
		return &TLSError{"the server's certificate is not valid: " + invalid.Error(), "give the server another certificate", err}
	case errors.Is(err, nats.ErrSecureConnWanted):
		return &TLSError{"the server does not offer TLS", "connect with nats:// and without a file of authorities, or start the server with a certificate", err}
	case errors.As(err, &refused):
		return &TLSError{"the server ended the TLS handshake: " + refused.Error(), "check whether the server asks for a certificate of the client", err}
	}
	return err
}
