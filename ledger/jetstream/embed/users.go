package embed

import (
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// User is one who may connect to the listener.
type User struct {
	Name    string   // unique; for people
	NKey    string   // the public NKey, unique; "": whoever connects without credentials, at most one
	Streams []string // what it may hear of [Config.Streams], with fewer wildcards
}

// RequestHeader is the header that the server adds to each request of a user. It is
// JSON; the member "acc" is the name of the user's account.
const RequestHeader = server.ClientInfoHdr

// answerTime is how long the server keeps the way back of a request that is not
// answered: a verification of the whole ledger takes up to 30 minutes.
const answerTime = 31 * time.Minute

// What one user may take of the server, whatever others do: an agent has one connection
// and a few subscriptions, and many agents may share a key. A message may be as large as
// the server takes them.
const (
	MaxConnections   = 512   // of a user, at a time
	MaxSubscriptions = 1_000 // of a connection
)

// newAccount returns an account with limits. The server sets them from a configuration
// only.
func newAccount(name string) (*server.Account, error) {
	var o server.Options
	err := o.ProcessConfigString(fmt.Sprintf("accounts { %q: { limits: { max_connections: %d, max_subscriptions: %d, max_payload: %d } } }",
		name, MaxConnections, MaxSubscriptions, MaxPayload))
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(o.Accounts, func(a *server.Account) bool { return a.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("the server made no account of the name")
	}
	return o.Accounts[i], nil
}

// addUsers adds an account for each user to o. It imports the services and streams
// of the account service, so a user reaches the service and no other user: what
// one publishes, and what it subscribes to, stays in its own account.
//
// The names of the accounts are secret and new at each start. The server writes the
// name into [RequestHeader], and it removes what the client wrote there, except from
// a header block that is malformed on purpose. A client can forge the header that
// way, but it can't know the name of another account.
func addUsers(o *server.Options, service *server.Account, c Config) (map[string]User, error) {
	for _, subject := range c.Services {
		if err := service.AddServiceExport(subject, nil); err != nil {
			return nil, fmt.Errorf("export %s: %w", subject, err)
		}
		if err := service.SetServiceExportResponseThreshold(subject, answerTime); err != nil {
			return nil, fmt.Errorf("export %s: %w", subject, err)
		}
	}
	for _, subject := range c.Streams {
		if err := service.AddStreamExport(subject, nil); err != nil {
			return nil, fmt.Errorf("export %s: %w", subject, err)
		}
	}
	users := make(map[string]User)
	if c.Users == nil {
		return users, nil
	}
	rows, err := c.Users()
	if err != nil {
		return nil, err
	}
	for _, u := range rows {
		secret := rand.Text()
		account, err := newAccount("USER-" + secret)
		if err != nil {
			return nil, fmt.Errorf("account of %s: %w", u.Name, err)
		}
		for _, subject := range c.Services {
			if err := account.AddServiceImport(service, subject, subject); err != nil {
				return nil, fmt.Errorf("%s: import %s: %w", u.Name, subject, err)
			}
			if err := account.SetServiceImportSharing(service, subject, true); err != nil {
				return nil, fmt.Errorf("%s: import %s: %w", u.Name, subject, err)
			}
		}
		for _, subject := range u.Streams {
			if err := account.AddStreamImport(service, subject, ""); err != nil {
				return nil, fmt.Errorf("%s: import %s: %w", u.Name, subject, err)
			}
		}
		o.Accounts = append(o.Accounts, account)
		if u.NKey != "" {
			o.Nkeys = append(o.Nkeys, &server.NkeyUser{Nkey: u.NKey, Account: account})
		} else {
			o.NoAuthUser = "local"
			o.Users = append(o.Users, &server.User{Username: o.NoAuthUser, Password: secret, Account: account})
		}
		users[account.Name] = u
	}
	return users, nil
}

// UserOf returns the user with the account that a request's [RequestHeader] names.
func (s *Server) UserOf(account string) (User, bool) {
	u, ok := s.users[account]
	return u, ok
}
