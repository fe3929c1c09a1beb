package client

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"nexus/ledger/api"
)

// Dial connects to the URL address with the credentials in a file: the seed of an NKey, or the
// JWT and the seed of a user. Without a file it connects without credentials, or
// with the user in the URL. The error of a server whose certificate the client does not
// trust is a [*TLSError].
func Dial(address, credentials string, opts ...nats.Option) (*nats.Conn, error) {
	if credentials != "" {
		o, err := CredentialsOption(credentials)
		if err != nil {
			return nil, err
		}
		opts = append([]nats.Option{o}, opts...)
	}
	nc, err := nats.Connect(address, opts...)
	if bad := (*url.Error)(nil); errors.As(err, &bad) { // it quotes the URL, which may hold a password
		return nil, api.Errorf(api.Malformed, nil, "the URL of the server can't be read; it has the form nats://host:port")
	}
	return nc, explainTLS(err)
}

// CredentialsOption returns the option of a connection for a file of credentials.
func CredentialsOption(file string) (nats.Option, error) {
	if _, err := nkeys.FromSeed([]byte(file)); err == nil {
		return nil, api.Errorf(api.Malformed, nil, "credentials: that is a seed itself; name a file that holds it")
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	if bytes.Contains(b, []byte("BEGIN NATS USER JWT")) {
		return nats.UserCredentials(file), nil
	}
	seed, err := nats.NkeyOptionFromSeed(file)
	if err != nil {
		return nil, api.Errorf(api.Malformed, nil, "credentials: %s holds no seed of an NKey", file) // the cause may quote it
	}
	return seed, nil
}
