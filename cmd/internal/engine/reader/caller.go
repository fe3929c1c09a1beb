package reader

import (
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// Caller is the tenant and agent of a request's subject. The agent "_" is the
// operator, who reads everything and changes nothing.
type Caller struct {
	Tenant, Agent string
	Key           string // public NKey of the user who sent the request; "" if none is known
}

// Operator reports whether the caller is the operator.
func (c Caller) Operator() bool { return c.Agent == "_" }

// Actor returns the caller as events name it.
func (c Caller) Actor() string { return c.Tenant + "/" + c.Agent }

// CheckVisible checks that a session is the caller's. A session of another agent is
// not found, like one that does not exist.
func CheckVisible(c Caller, s *ledger.Session) error {
	if s.Tenant != c.Tenant || (s.Agent != c.Agent && !c.Operator()) {
		return SessionNotFound(s.ID)
	}
	return nil
}

// SessionNotFound returns the error for a session that the caller does not have.
func SessionNotFound(id turns.ID) error {
	return &api.Error{Code: api.NotFound, Message: "no session " + id.String()}
}
