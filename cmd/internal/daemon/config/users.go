package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/nkeys"

	"nexus/cmd/internal/natsapi"
	"nexus/cmd/internal/wholefile"

	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
)

// UserRow is a user of the embedded server in a configuration file, beside the two
// that the daemon makes by itself. A user connects with the seed of its NKey.
type UserRow struct {
	Name     string   `toml:"name"`
	NKey     string   `toml:"nkey"`     // the public one: U…
	Tenant   string   `toml:"tenant"`   // default: "default"
	Agents   []string `toml:"agents"`   // exact names; "*" is every agent but the operator
	Operator bool     `toml:"operator"` // may also act as the agent "_"
}

// Credentials are files with the seed of an NKey each, which every NATS client can
// connect with.
type Credentials struct {
	Operator string `json:"operator"` // of the user who may act as any agent, also as the operator
	Agent    string `json:"agent"`    // of the user who may act as any agent of the tenant "default" but the operator
}

// The users that the daemon makes by itself.
const (
	operatorUser = "operator"
	agentUser    = "agent"
	localUser    = "local" // whoever connects, with auth off
)

// UsersDir is under the data folder.
const UsersDir = "users"

// checkUsers lists the faults of c's users and of where it listens.
func (c Config) checkUsers(bad func(format string, args ...any)) {
	if (c.TLSCert == "") != (c.TLSKey == "") {
		bad("tls_cert, tls_key: one does not go without the other")
	}
	if c.NATS != "" {
		if len(c.User) > 0 {
			bad("user: the external server (nats) has users of its own; rows are for the embedded one")
		}
		if c.Auth != "" {
			bad("auth: it is for the embedded server; the external one (nats) has its own")
		}
		if host, _, err := net.SplitHostPort(c.HTTP); c.TLSCert != "" && (err != nil || IsLoopback(host)) {
			bad("tls_cert, tls_key: the external server (nats) has its own, and HTTP on loopback needs none")
		}
		return
	}
	if c.Auth != "" && c.Auth != "on" && c.Auth != "off" {
		bad("auth: %q is neither on nor off", c.Auth)
	}
	if c.Auth == "off" && len(c.User) > 0 {
		bad("user: rows have no effect with auth off")
	}
	if host, _, err := net.SplitHostPort(c.Listen); err == nil && !IsLoopback(host) {
		if c.Auth == "off" {
			bad("listen: %q is not loopback, and auth is off: everybody on the network could act as any agent", c.Listen)
		}
		if c.TLSCert == "" {
			bad("listen: %q is not loopback, and needs tls_cert and tls_key", c.Listen)
		}
	}
	names, keys := map[string]bool{operatorUser: true, agentUser: true, localUser: true}, make(map[string]bool)
	for i, r := range c.User {
		if !turns.ValidName(r.Name) || names[r.Name] {
			bad("user: row %d: %.60q is not a name, or one that is taken", i+1, r.Name)
		}
		if !nkeys.IsValidPublicUserKey(r.NKey) || keys[r.NKey] {
			bad("user %.60q: nkey is not the public key of a user (U…), or one that another has", r.Name) // it may be a seed: not quoted
		}
		names[r.Name], keys[r.NKey] = true, true
		if r.Tenant != "" && !turns.ValidName(r.Tenant) {
			bad("user %.60q: tenant %.60q is not a name", r.Name, r.Tenant)
		}
		if len(r.Agents) == 0 && !r.Operator {
			bad("user %.60q: it has no agents, and is no operator", r.Name)
		}
		for _, a := range r.Agents {
			if a != "*" && !turns.ValidName(a) {
				bad("user %.60q: agent %.60q is neither a name nor *", r.Name, a)
			}
		}
	}
}

// IsLoopback reports whether only this machine reaches a listener on host.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// NewUser makes a key for a user of the embedded server. It returns the seed, which the
// user connects with, and the row of the configuration, which does not hold it.
// [turns.ErrMalformed] lists the faults of the row.
func NewUser(name, tenant string, agents []string, operator bool) (seed []byte, row UserRow, err error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, row, err
	}
	defer pair.Wipe()
	row = UserRow{Name: name, Tenant: cmp.Or(tenant, "default"), Agents: agents, Operator: operator}
	if row.NKey, err = pair.PublicKey(); err != nil {
		return nil, row, err
	}
	var faults []error
	Config{User: []UserRow{row}}.checkUsers(func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: %s", turns.ErrMalformed, fmt.Sprintf(format, args...)))
	})
	if err := errors.Join(faults...); err != nil {
		return nil, row, err
	}
	seed, err = pair.Seed()
	return slices.Clone(seed), row, err // Wipe clears the pair's own
}

// Users returns who may use the embedded server, and makes the credentials of those
// that the daemon makes by itself.
func (c Config) Users() ([]natsapi.User, Credentials, error) {
	if c.Auth == "off" {
		return []natsapi.User{{Name: localUser, Tenant: "*", Agents: []string{"*"}, Operator: true}}, Credentials{}, nil
	}
	dir, err := filepath.Abs(filepath.Join(c.Data, UsersDir))
	if err != nil {
		return nil, Credentials{}, err
	}
	files := Credentials{Operator: filepath.Join(dir, operatorUser+".nk"), Agent: filepath.Join(dir, agentUser+".nk")}
	out := []natsapi.User{
		{Name: operatorUser, Tenant: "*", Agents: []string{"*"}, Operator: true},
		{Name: agentUser, Tenant: "default", Agents: []string{"*"}},
	}
	for i, file := range []string{files.Operator, files.Agent} {
		if out[i].Key, err = Credential(file); err != nil {
			return nil, Credentials{}, fmt.Errorf("credentials: %w", err)
		}
	}
	for _, r := range c.User {
		u := natsapi.User{Name: r.Name, Key: r.NKey, Tenant: r.Tenant, Agents: r.Agents, Operator: r.Operator}
		if u.Tenant == "" {
			u.Tenant = "default"
		}
		for _, own := range out[:2] {
			if own.Key == u.Key {
				return nil, Credentials{}, fmt.Errorf("%w: configuration: user %s has the nkey of user %s", turns.ErrMalformed, u.Name, own.Name)
			}
		}
		out = append(out, u)
	}
	return out, files, nil
}

// Credential returns the public key of the seed in file, which it makes if it is not
// there. The caller has locked the folder.
//
// Crash states: the name appears in one step, after the content is durable. A crash
// before leaves a file *.tmp, which the next start replaces.
func Credential(file string) (string, error) {
	seed, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		seed, err = makeCredential(file)
	}
	if err != nil {
		return "", err
	}
	if err := OwnerOnly(file); err != nil {
		return "", err
	}
	pair, err := nkeys.ParseDecoratedUserNKey(seed)
	if err != nil {
		return "", fmt.Errorf("%w: %s holds no seed of a user: %w; remove the file, and the next start makes another key", turns.ErrCorrupt, file, err)
	}
	defer pair.Wipe()
	return pair.PublicKey()
}

func makeCredential(file string) ([]byte, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := mark.SyncDir(filepath.Dir(dir)); err != nil {
		return nil, err
	}
	return seed, wholefile.Write(file, 0o600, wholefile.Bytes(seed)) // without an end of line, which some clients do not expect
}

// OwnerOnly takes the permissions of everybody but the owner from path.
func OwnerOnly(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	return os.Chmod(path, info.Mode().Perm()&0o700)
}

// Embedded returns the users as the server has them, and as the service finds them.
func Embedded(users []natsapi.User) (rows []embed.User, byName map[string]natsapi.User) {
	byName = make(map[string]natsapi.User)
	for _, u := range users {
		row := embed.User{Name: u.Name, NKey: u.Key}
		agents := u.Agents
		if u.Operator || slices.Contains(agents, "*") { // the operator reads all agents
			agents = []string{"*"}
		}
		for _, a := range slices.Compact(slices.Sorted(slices.Values(agents))) {
			row.Streams = append(row.Streams, natsapi.Notifications(u.Tenant, a))
		}
		rows, byName[u.Name] = append(rows, row), u
	}
	return rows, byName
}
