package natsapi

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/micro"

	"nexus/ledger/api"
	"nexus/turns"
)

// User is who sends requests, and what it may ask.
type User struct {
	Name     string
	Key      string   // public NKey; "" where no credentials are asked for
	Tenant   string   // "*": every tenant
	Agents   []string // exact names; "*": every agent but the operator
	Operator bool     // it may also act as the agent "_"
	// Unknown: the NATS server has users of its own, and only the subject of a request says what
	// its sender may do.
	Unknown bool
}

// Users finds the user of an account of the NATS server. The server writes the
// name of the account into each request.
type Users func(account string) (User, bool)

// accountHeader is the header of a request with the account that it comes from.
const accountHeader = "Nats-Request-Info"

// sender returns the user who sent a request with header h, and a name of the
// connection that it came from. Without users every request is permitted, and the
// connection is not known: the NATS server has its own users.
func (s *Service) sender(h micro.Headers) (_ User, connection string, _ error) {
	if s.users == nil {
		return User{Tenant: "*", Agents: []string{"*"}, Operator: true, Unknown: true}, "", nil
	}
	var from struct {
		Account string `json:"acc"`
		User    string `json:"user"` // the public NKey of the connection
		ID      uint64 `json:"id"`   // of the connection
	}
	// The server writes one. A second is the client's own, by a malformed header block.
	stamps := h.Values(accountHeader)
	if len(stamps) != 1 || json.Unmarshal([]byte(stamps[0]), &from) != nil {
		return User{}, "", &api.Error{Code: api.Denied, Message: "the request names no user"}
	}
	u, ok := s.users(from.Account)
	if !ok || u.Key != "" && u.Key != from.User {
		return User{}, "", &api.Error{Code: api.Denied, Message: "the request names no user of this daemon"}
	}
	return u, strconv.FormatUint(from.ID, 36), nil
}

// readByOperator are the verbs that who may act as the operator may also ask as any agent: the
// operator reads all, and these change nothing, whatever their request says. context.get may
// commit a compaction, compaction.take leases one, and ui.open is a login.
var readByOperator = []string{"session.get", "session.list", "session.resolve", "session.export", "turn.get", "turn.list", "compaction.list", "compaction.get",
	"compaction.expand", "compaction.lost", "lineage.path", "lineage.base", "lineage.find", "lineage.tree", "blob.get", "policy.list", "policy.get",
	"event.get", "event.list", "event.channels", "memory.list", "memory.search", "search.query", "audit.proof"}

// check returns nil if u may ask a verb as an agent of a tenant. What an agent may do, the
// engine decides: it exports its own sessions, with their content keys, and no other's.
func (u User) check(tenant, agent, verb string) error {
	mayAct := slices.Contains(u.Agents, agent) || (slices.Contains(u.Agents, "*") && agent != api.Operator) || u.Operator && slices.Contains(readByOperator, verb)
	if agent == api.Operator {
		mayAct = u.Operator
	}
	switch {
	case u.Tenant != "*" && u.Tenant != tenant, !mayAct:
		return &api.Error{Code: api.Denied, Message: fmt.Sprintf("user %s may not act as agent %s of tenant %s", u.Name, clip(agent, turns.MaxName), clip(tenant, turns.MaxName))}
	}
	return nil
}

// Subjects returns the subjects that clients send requests to, with wildcards.
// Notifications are under none of them.
func Subjects() []string {
	out := []string{"$SRV.>"} // PING, INFO and STATS of the service
	for _, v := range verbs {
		out = append(out, prefix+"*.*."+noun(v.name)+".>")
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Notifications returns the subject of the notifications for an agent of a tenant;
// each may be "*".
func Notifications(tenant, agent string) string {
	return prefix + tenant + "." + agent + ".notify.>"
}
