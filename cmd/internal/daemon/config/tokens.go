package config

import (
	"fmt"
	"net"
	"strings"

	"nexus/cmd/internal/web"
	"nexus/turns"
)

// TokenRow is who may use HTTP in a configuration file. nexusd token makes one, with
// its secret.
type TokenRow struct {
	Name   string `toml:"name"`
	Hash   string `toml:"hash"`   // of the secret: sha256:…
	Tenant string `toml:"tenant"` // default: "default"
	Agent  string `toml:"agent"`  // default: "main"; "_", the operator, needs the scope admin
	Scope  string `toml:"scope"`  // read, write or admin
}

// NewToken returns a secret, and the row that knows it by its hash.
func NewToken(name, tenant, agent, scope string) (secret string, row TokenRow, err error) {
	secret = web.NewSecret()
	row = TokenRow{Name: name, Hash: web.Hash(secret).String(), Tenant: tenant, Agent: agent, Scope: scope}
	t, err := row.token()
	if err != nil {
		return "", TokenRow{}, err
	}
	row.Tenant, row.Agent = t.Tenant, t.Agent
	return secret, row, nil
}

// token is the row as the guard knows it. An error quotes no hash: somebody may have
// put the secret there.
func (r TokenRow) token() (t web.Token, err error) {
	t.Caller = web.Caller{Name: r.Name, Tenant: r.Tenant, Agent: r.Agent}
	if t.Tenant == "" {
		t.Tenant = "default"
	}
	if t.Agent == "" {
		t.Agent = "main"
	}
	bad := func(format string, args ...any) (web.Token, error) {
		return web.Token{}, fmt.Errorf("%w: token %.60q: %w", turns.ErrMalformed, r.Name, fmt.Errorf(format, args...))
	}
	if !turns.ValidName(t.Name) {
		return bad("it is not a name")
	}
	if t.Hash, err = turns.ParseHash(r.Hash); err != nil {
		return bad("hash is not sha256: and 64 digits of a SHA-256; nexusd token makes a row")
	}
	if t.Scope, err = web.ParseScope(r.Scope); err != nil {
		return bad("scope is read, write or admin, not %.20q", r.Scope)
	}
	switch {
	case !turns.ValidName(t.Tenant):
		return bad("tenant %.60q is not a name", t.Tenant)
	case t.Agent == "_" && t.Scope != web.Admin:
		return bad("the operator _ needs the scope admin")
	case t.Agent != "_" && !turns.ValidName(t.Agent):
		return bad("agent %.60q is not a name", t.Agent)
	}
	return t, nil
}

// hosts are the names of http_hosts.
func (c Config) hosts() (names []string) {
	for name := range strings.SplitSeq(c.HTTPHosts, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// checkWeb lists the faults of c's tokens, and of where HTTP listens.
func (c Config) checkWeb(bad func(format string, args ...any)) {
	names, hashes := make(map[string]bool), make(map[string]bool)
	for i, r := range c.Token {
		if _, err := r.token(); err != nil {
			bad("token: row %d: %w", i+1, err)
		}
		if names[r.Name] || hashes[r.Hash] {
			bad("token: row %d: another row has the name %.60q or the hash", i+1, r.Name)
		}
		names[r.Name], hashes[r.Hash] = true, true
	}
	if c.HTTP == "off" && (len(c.Token) > 0 || c.HTTPHosts != "") {
		bad("token, http_hosts: they have no effect with http off")
	}
	for _, name := range c.hosts() {
		if strings.ContainsAny(name, ":/*[] ") && net.ParseIP(name) == nil {
			bad("http_hosts: %.60q is not a host name or an address, without a port", name)
		}
	}
	host, _, err := net.SplitHostPort(c.HTTP)
	if err != nil || IsLoopback(host) { // another message says what is wrong with it
		return
	}
	if len(c.Token) == 0 {
		bad("http: %q is not loopback, and needs a [[token]] row: everybody on the network could use it", c.HTTP)
	}
	if c.TLSCert == "" {
		bad("http: %q is not loopback, and needs tls_cert and tls_key: tokens would pass in the clear", c.HTTP)
	}
}

// Guard is what stands before the handlers of a listener on host. The rows are valid.
func (c Config) Guard(host string) *web.Guard {
	g := &web.Guard{Hosts: c.hosts()}
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		g.Hosts = append(g.Hosts, host)
	}
	for _, r := range c.Token {
		if t, err := r.token(); err == nil {
			g.Tokens = append(g.Tokens, t)
		}
	}
	if len(g.Tokens) == 0 { // on loopback: the programs of this machine, never the operator
		g.Anyone = &web.Caller{Tenant: "default", Agent: "main", Scope: web.Write}
	}
	return g
}
