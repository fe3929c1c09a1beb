package fault

import (
	"errors"
	"net"
	"strings"

	"github.com/nats-io/nats.go"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

// NoServer is why there is no connection to a NATS server.
func NoServer(server string, err error) error {
	var dns *net.DNSError
	var insecure *client.TLSError
	switch {
	case errors.As(err, &insecure):
		return WithHint(api.Errorf(api.Unavailable, nil, "connect to %s: %v", server, insecure), insecure.Remedy+" (--tls-ca FILE or NEXUS_TLS_CA)")
	case errors.As(err, &dns):
		return WithHint(api.Errorf(api.Unavailable, nil, "connect to %s: there is no host %q", server, dns.Name),
			"--server nats://HOST:PORT or NEXUS_URL says where nexusd's server is")
	case errors.Is(err, nats.ErrNoServers):
		return api.Errorf(api.Unavailable, nil, "connect to %s: nothing answers there", server)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return WithHint(api.Errorf(api.Denied, nil, "connect to %s: the server wants other credentials", server),
			"--creds FILE or NEXUS_CREDS names them: nexusd prints the file when it starts (users/operator.nk in its data folder)")
	case errors.Is(err, nats.ErrNkeysNotSupported):
		return WithHint(api.Errorf(api.Unavailable, nil, "connect to %s: the server asks for no credentials", server), "leave out --creds, and unset NEXUS_CREDS")
	}
	return api.Errorf(api.Unavailable, nil, "connect to %s: %s", server, strings.TrimPrefix(err.Error(), "nats: "))
}
