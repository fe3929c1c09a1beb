package api

import (
	"bytes"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
)

// Dial connects to url with the credentials in a file: the seed of an NKey, or the
// JWT and the seed of a user. Without a file it connects without credentials, or
// with the user in url.
func Dial(url, credentials string, opts ...nats.Option) (*nats.Conn, error) {
	if credentials == "" {
		return nats.Connect(url, opts...)
	}
	o, err := CredentialsOption(credentials)
	if err != nil {
		return nil, err
	}
	return nats.Connect(url, append([]nats.Option{o}, opts...)...)
}

// CredentialsOption returns the option of a connection for a file of credentials.
func CredentialsOption(file string) (nats.Option, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	if bytes.Contains(b, []byte("BEGIN NATS USER JWT")) {
		return nats.UserCredentials(file), nil
	}
	seed, err := nats.NkeyOptionFromSeed(file)
	if err != nil {
		return nil, fmt.Errorf("credentials: %s holds no seed of an NKey", file) // the cause may quote it
	}
	return seed, nil
}
