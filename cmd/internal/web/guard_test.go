package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// request sends a request through a guard and a scope, and returns the status and what
// the handler saw.
func request(g *Guard, s Scope, host string, header ...string) (int, string) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Host = host
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	g.Handler(Require(s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := CallerOf(r.Context())
		fmt.Fprintf(w, "%s %s/%s %v|%s|%s", c.Name, c.Tenant, c.Agent, c.Scope, r.Header.Get("Authorization"), r.Header.Get(TokenHeader))
	}))).ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestATokenNamesItsCaller(t *testing.T) {
	reader, admin := NewSecret(), NewSecret()
	g := &Guard{Tokens: []Token{
		{Hash(reader), Caller{"ci", "default", "main", Read}},
		{Hash(admin), Caller{"ops", "default", "_", Admin}},
	}}
	for _, tc := range []struct {
		name   string
		scope  Scope
		header []string
		code   int
		want   string
	}{
		{"bearer", Read, []string{"Authorization", "Bearer " + reader}, 200, "ci default/main read||"},
		{"bearer in another case", Read, []string{"Authorization", "bearer " + reader}, 200, "ci default/main read||"},
		{"own header beside a provider's key", Read, []string{TokenHeader, reader, "Authorization", "Bearer sk-1"}, 200, "ci default/main read|Bearer sk-1|"},
		{"a higher scope", Write, []string{TokenHeader, admin}, 200, "ops default/_ admin||"},
		{"a lower scope", Write, []string{TokenHeader, reader}, 403, "the token's scope is read, this needs write\n"},
		{"none", Read, nil, 401, ""},
		{"another", Read, []string{"Authorization", "Bearer " + NewSecret()}, 401, ""},
		{"an unknown own header beside a known bearer", Read, []string{TokenHeader, "x", "Authorization", "Bearer " + reader}, 401, ""},
		{"the hash itself", Read, []string{"Authorization", "Bearer " + Hash(reader).String()}, 401, ""},
		{"basic", Read, []string{"Authorization", "Basic " + reader}, 401, ""},
		{"a prefix", Read, []string{"Authorization", "Bearer " + reader[:len(reader)-1]}, 401, ""},
		{"nothing after Bearer", Read, []string{"Authorization", "Bearer"}, 401, ""},
	} {
		code, body := request(g, tc.scope, "localhost", tc.header...)
		if code != tc.code || tc.want != "" && body != tc.want || strings.Contains(body, reader) {
			t.Errorf("%s: %d %q, want %d %q", tc.name, code, body, tc.code, tc.want)
		}
	}
}

func TestWithoutTokensAnyoneIsTheCallerOfTheGuard(t *testing.T) {
	g := &Guard{Anyone: &Caller{Tenant: "default", Agent: "main", Scope: Write}}
	if code, body := request(g, Write, "localhost", "Authorization", "Bearer sk-provider"); code != 200 || body != " default/main write|Bearer sk-provider|" {
		t.Errorf("%d %q", code, body)
	}
	if code, body := request(g, Write, "localhost", TokenHeader, "left over", "Authorization", "Bearer sk-provider"); code != 200 || body != " default/main write|Bearer sk-provider|" {
		t.Errorf("with a token that nobody asks for: %d %q", code, body)
	}
	if code, _ := request(g, Admin, "localhost"); code != 403 {
		t.Errorf("the operator's: %d, want 403", code)
	}
	if code, _ := request(new(Guard), Read, "localhost"); code != 401 {
		t.Errorf("a guard that knows nobody: %d, want 401", code)
	}
}

func TestRequestsForOtherHostsAreRefused(t *testing.T) {
	g := &Guard{Hosts: []string{"nexus.example", "192.0.2.9"}, Anyone: &Caller{Scope: Read}}
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:8422": 200, "127.0.0.1:1": 200, "[::1]": 200, "[::1]:8422": 200, "nexus.example": 200, "Nexus.Example:443": 200, "192.0.2.9:8422": 200,
		"": 421, "evil.example": 421, "nexus.example.evil.example": 421, "localhost.": 421, "127.0.0.2": 421, "[::2]:80": 421, "0.0.0.0": 421,
	} {
		if got, _ := request(g, Read, host); got != want {
			t.Errorf("Host %q: %d, want %d", host, got, want)
		}
	}
}

func TestScopesAreReadFromTheirNames(t *testing.T) {
	for _, s := range []Scope{Read, Write, Admin} {
		if got, err := ParseScope(s.String()); got != s || err != nil {
			t.Errorf("%v: %v, %v", s, got, err)
		}
	}
	for _, bad := range []string{"", "READ", "root"} {
		if s, err := ParseScope(bad); err == nil {
			t.Errorf("%q is %v", bad, s)
		}
	}
}
