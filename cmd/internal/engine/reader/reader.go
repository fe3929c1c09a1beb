package reader

import (
	"context"
	"time"

	"nexus/cmd/internal/engine/cache"
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/page"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/projections"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Reader finds sessions, turns and the settings in force, as a caller may see
// them. It writes nothing. Safe for concurrent use.
type Reader struct {
	Log         ledger.Log
	Projections *projections.Store
	Now         func() time.Time
	// Models has the limits of models by name, for sessions that state none. The
	// zero table is empty.
	Models tokens.Models
	// Access returns what requests may do now. nil: everything.
	Access func() Access
	// Confirm returns once the log is found to have all that this process knows of it. nil:
	// nobody else can change the log.
	Confirm func(context.Context) error
	// Acknowledged returns a position such that projections that have applied it have all
	// that was acknowledged of a chain before the call. It reports false if it does not know
	// one. nil: the log is asked for the end of a chain.
	Acknowledged func(subject string) (seq uint64, ok bool)
	// AllAcknowledged is Acknowledged for all chains at once.
	AllAcknowledged func() (seq uint64, ok bool)

	content  *content.Store
	page     *page.Limits
	policies *cache.Cache[policyKey, cachedPolicy]
	searches *cache.Cache[search, struct{}] // that found nothing
	settings *cache.Cache[settingsKey, storedSettings]
	outlines *cache.Cache[turns.Hash, *turns.CompactionBody] // by the hash of the event
	taken    takenBlobs
}

// New returns a reader of a log and its projections.
func New(log ledger.Log, store *projections.Store, now func() time.Time, models tokens.Models, cs *content.Store, limits *page.Limits, budget *cache.Budget) *Reader {
	rd := &Reader{Log: log, Projections: store, Now: now, Models: models, content: cs, page: limits,
		policies: cache.New[policyKey, cachedPolicy](budget, "policies"), searches: cache.New[search, struct{}](budget, "policies"),
		settings: cache.New[settingsKey, storedSettings](budget, "settings"), outlines: cache.New[turns.Hash, *turns.CompactionBody](budget, "compactions")}
	cs.FindRedacted(rd.redacted)
	return rd
}

// Access says what requests may do: it is the zero Access unless the disk takes no
// writes, or the log has lost records. Then replies come from what the projections have applied,
// and may be stale.
type Access struct {
	Writes error     // why changes are refused; nil: they are not
	Reads  error     // why reads are refused, too
	Lost   []Problem // what the log has lost; then nothing is compared with it any more
}

// Problem is a problem of the ledger at a chain of a tenant; "": of no one's.
type Problem struct {
	Tenant string
	api.Problem
}

// Stale reports whether a reply may lack what was acknowledged.
func (a Access) Stale() bool { return a.Writes != nil }

// AccessNow returns what requests may do now.
func (rd *Reader) AccessNow() Access {
	if rd.Access == nil {
		return Access{}
	}
	return rd.Access()
}
