package client

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"nexus/ledger/api"
	"nexus/turns"
)

// ServerContext says how the user of this machine reaches a daemon: its address, and files
// with credentials for [Dial]. nexusd writes one at its start, as a file named after
// its address.
type ServerContext struct {
	URL      string `json:"url"`
	Operator string `json:"operator,omitempty"` // may act as any agent, also as the operator
	Agent    string `json:"agent,omitempty"`    // may act as any agent of the tenant "default"
	CA       string `json:"ca,omitempty"`       // the server's certificate, for [TrustOption]; "" without TLS
	HTTP     string `json:"http,omitempty"`     // where health and metrics are; "" if they are off
}

// FindServerContext returns the context of the daemon at rawURL. The error matches
// [fs.ErrNotExist] if there is none.
func FindServerContext(rawURL string) (ServerContext, error) {
	file, err := contextFile(rawURL)
	if err != nil {
		return ServerContext{}, err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return ServerContext{}, err
	}
	var c ServerContext
	if err := api.UnmarshalLenient(b, &c); err != nil {
		return ServerContext{}, fmt.Errorf("context %s can't be read; start nexusd again, or remove the file", file)
	}
	return c, nil
}

// SaveServerContext writes c for its URL. It replaces the file in one step.
func SaveServerContext(c ServerContext) error {
	file, err := contextFile(c.URL)
	if err != nil {
		return err
	}
	b, err := turns.EncodeJSON(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), "*.tmp") // for its owner alone
	if err != nil {
		return err
	}
	_, err = tmp.Write(append(b, '\n'))
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// RemoveServerContext removes the context for a URL, if there is one.
func RemoveServerContext(rawURL string) error {
	file, err := contextFile(rawURL)
	if err != nil {
		return err
	}
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// contextFile is the file of the context for a URL. The names of this machine are
// one address.
func contextFile(rawURL string) (string, error) {
	dir, err := configDir()
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(rawURL, ",")
	if !strings.Contains(first, "://") {
		first = "nats://" + first
	}
	u, err := url.Parse(first)
	if err != nil || u.Hostname() == "" {
		return "", api.Errorf(api.Malformed, nil, "the URL of the server can't be read; it has the form nats://host:port") // it may hold a password: not quoted
	}
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	if port == "" {
		port = "4222"
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, host)
	return filepath.Join(dir, "nexus", "contexts", name+"_"+port+".json"), nil
}

// configDir is the folder of the user's configuration, the same on every system, as
// the nats command has it.
func configDir() (string, error) {
	if dir := os.Getenv("XDG_CONFIG_HOME"); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".config"), err
}

// NATSContext is what a context of the nats command says of a connection.
type NATSContext struct {
	URL      string `json:"url"`
	NKey     string `json:"nkey"`  // a file
	Creds    string `json:"creds"` // a file
	User     string `json:"user"`
	Password string `json:"password"`
	Token    string `json:"token"`
	CA       string `json:"ca"`   // a file
	Cert     string `json:"cert"` // a file, of the client
	Key      string `json:"key"`  // a file
}

// FindNATSContext returns the context that the nats command keeps under a name.
func FindNATSContext(name string) (NATSContext, error) {
	var c NATSContext
	if name == "" || strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") {
		return c, api.Errorf(api.Malformed, nil, "%q is not the name of a context", name)
	}
	dir, err := configDir()
	if err != nil {
		return c, err
	}
	file := filepath.Join(dir, "nats", "context", name+".json")
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, api.Errorf(api.NotFound, nil, "there is no nats context %q (%s)", name, file)
	}
	if err != nil {
		return c, err
	}
	if err := api.UnmarshalLenient(b, &c); err != nil {
		return c, api.Errorf(api.Malformed, nil, "nats context %s can't be read", file) // it may hold a password: not quoted
	}
	return c, nil
}
