package reader

import (
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// Caller is who asks: the tenant and agent of the request's subject. The agent
// "_" is the operator, who reads everything and creates nothing.
type Caller struct {
	Tenant, Agent string
}

// Operator reports whether the caller is the operator.
func (c Caller) Operator() bool { return c.Agent == "_" }

func (c Caller) Actor() string { return c.Tenant + "/" + c.Agent }

// CheckVisible checks that a session is the caller's. Another's is not found, like
// one that does not exist.
func CheckVisible(c Caller, s *ledger.Session) error {
	if s.Tenant != c.Tenant || (s.Agent != c.Agent && !c.Operator()) {
		return SessionNotFound(s.ID)
	}
	return nil
}

func SessionNotFound(id turns.ID) error {
	return &api.Error{Code: api.NotFound, Message: "no session " + id.String()}
}
