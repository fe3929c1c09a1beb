package web

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Caller is who sent a request.
type Caller struct {
	Name          string // of the token; "" on loopback without tokens
	Tenant, Agent string
	Scope         Scope
}

// TokenHeader has the token where Authorization belongs to a model's provider.
const TokenHeader = "X-Nexus-Token"

// Guard stands before the handlers of a listener. The zero value lets requests for
// this machine's own names through, and knows nobody.
type Guard struct {
	Tokens []Token
	// Hosts are names by which the listener is reached, without ports, beside those of
	// loopback and the address that a request came to.
	Hosts []string
	// Pages returns who sent a request for the explorer, by its cookie; nil: nobody has one. It
	// knows nobody on any other path: another page of this machine can send the cookie there.
	Pages func(*http.Request) (Caller, bool)
	// Anyone is the caller of a request without a token; nil: nobody.
	Anyone *Caller
	// Connections bounds those of the listener; nil: nothing does.
	Connections *Connections
}

type callerKey struct{}

// CallerOf returns who sent the request of a context; false if nobody is known.
func CallerOf(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}

// Handler refuses requests for other hosts, and adds the caller to the context of the
// rest. A token that is not known names nobody: [Require] refuses that. A known token is
// removed from the request, so no handler can pass it on.
//
// A page of another site can make its name resolve to this machine (DNS rebinding)
// and would read the answers: its Host header gives it away.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, known := g.identify(r)
		own := g.isOwnHost(r)
		if known && own {
			admitted, done, ok := g.Connections.admit(r, c)
			if ok {
				defer done()
				next.ServeHTTP(w, admitted.WithContext(context.WithValue(admitted.Context(), callerKey{}, c)))
				return
			}
			refuseBody(w, r)
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests are at work, and this agent has its share of them", http.StatusTooManyRequests)
			return
		}
		refuseBody(w, r)
		if !own {
			http.Error(w, "the Host header names no host of this listener: http_hosts (NEXUS_HTTP_HOSTS) of nexusd adds names", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuseBody ends the connection after the reply if the request has a body: nobody reads it,
// and a server waits for the rest of it before it replies.
func refuseBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	}
}

// identify returns the caller of r, and removes a known token from its headers.
func (g *Guard) identify(r *http.Request) (Caller, bool) {
	if secret := r.Header.Get(TokenHeader); secret != "" {
		r.Header.Del(TokenHeader)
		if len(g.Tokens) > 0 { // else nobody gave this listener a token to tell callers apart by
			t, ok := find(g.Tokens, secret)
			return t.Caller, ok
		}
	}
	if scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		if t, ok := find(g.Tokens, strings.TrimSpace(secret)); ok {
			r.Header.Del("Authorization")
			return t.Caller, true
		}
	}
	if g.Pages != nil {
		if c, ok := g.Pages(r); ok {
			return c, true
		}
	}
	if g.Anyone == nil {
		return Caller{}, false
	}
	return *g.Anyone, true
}

// isOwnHost reports whether r is for a name of this listener.
func (g *Guard) isOwnHost(r *http.Request) bool {
	host := strings.ToLower(hostName(r.Host))
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && net.ParseIP(host).Equal(at.IP) {
		return true
	}
	return host == "localhost" || host == "127.0.0.1" || host == "::1" || slices.ContainsFunc(g.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// hostName returns a Host header without its port and without the brackets of an
// IPv6 address.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// Require runs next for callers of a scope. Others get 401 without a known token, and
// 403 with one of a lower scope.
func Require(s Scope, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := CallerOf(r.Context())
		switch {
		case !ok:
			w.Header().Set("WWW-Authenticate", `Bearer realm="nexus"`)
			text := "a token is needed: Authorization: Bearer …"
			if r.Header.Get("Authorization") != "" {
				text = "the token is none of the configuration's"
			}
			http.Error(w, text, http.StatusUnauthorized)
		case c.Scope < s:
			http.Error(w, "the token's scope is "+c.Scope.String()+", this needs "+s.String(), http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
