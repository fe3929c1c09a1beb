package engine

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nexus/cmd/internal/engine/archive"
	"nexus/cmd/internal/engine/audit"
	"nexus/cmd/internal/engine/backup"
	"nexus/cmd/internal/engine/cache"
	"nexus/cmd/internal/engine/compactions"
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/contexts"
	"nexus/cmd/internal/engine/covered"
	"nexus/cmd/internal/engine/episodes"
	"nexus/cmd/internal/engine/erasure"
	"nexus/cmd/internal/engine/events"
	"nexus/cmd/internal/engine/extraction"
	"nexus/cmd/internal/engine/forks"
	"nexus/cmd/internal/engine/history"
	"nexus/cmd/internal/engine/memories"
	"nexus/cmd/internal/engine/metrics"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/paths"
	"nexus/cmd/internal/engine/policies"
	"nexus/cmd/internal/engine/proofs"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/resets"
	"nexus/cmd/internal/engine/search"
	"nexus/cmd/internal/engine/sessions"
	"nexus/cmd/internal/engine/transfer"
	"nexus/cmd/internal/engine/writer"
	"nexus/compactor"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/projections"
	index "nexus/projections/search"
	"nexus/turns/tokens"
)

// Config is what an engine is made from.
type Config struct {
	Ledger      [16]byte // UUID of the ledger
	Log         ledger.Log
	Blobs       ledger.Blobs
	Projections *projections.Store
	Search      *index.Index // nil: no searches
	Keys        content.Keys // nil seals nothing
	Counter     tokens.Counter
	Tiers       []compactor.Tier // summarizers, in the order in which they are tried
	// ModelTiers returns the summarizers of a model that a policy or a session names and that is
	// none of Tiers'; nil if there is none, or if the function is nil.
	ModelTiers func(model string) []compactor.Tier
	Now        func() time.Time
	Rand       io.Reader    // safe for concurrent use
	Logger     *slog.Logger // nil is silent; turn content is never logged
	// Notify, if not nil, is called after a commit. It must not block.
	Notify func(tenant, agent string, n api.Notification)
	// Registry takes the engine's metrics. nil counts nothing.
	Registry prometheus.Registerer
	// MaxPayload is the largest message of the connection that carries the
	// replies, in bytes. It bounds pages and the content that an event holds
	// itself. 0 means 8 MiB.
	MaxPayload int
	// MaxContent bounds the content that a request loads of a path, in bytes.
	// 0 means 48 MiB.
	MaxContent int
	// CacheBytes bounds the memory of all caches together. 0 means
	// [cache.DefaultBytes].
	CacheBytes int
	// Models has the limits of models by name, for sessions that state none. The
	// zero table is empty.
	Models tokens.Models
	// Access returns what requests may do now. nil: everything.
	Access func() reader.Access
	// Confirm returns once the log is found to have all that this process knows of it, before
	// a change is answered. nil: nobody else can change the log.
	Confirm func(ctx context.Context) error
	// Acknowledged is [reader.Reader]'s. nil: the log is asked for the end of a chain.
	Acknowledged func(subject string) (seq uint64, ok bool)
	// AllAcknowledged is [reader.Reader]'s. nil: the log is asked whether it has a session.
	AllAcknowledged func() (seq uint64, ok bool)
	// MayOpenMain reports whether an agent may open sessions of kind main. nil: none may.
	MayOpenMain func(tenant, agent string) bool
	// Backup reads the streams for a backup. nil: they can't be backed up here.
	Backup backup.Source
	// Checkpoints signs the log of hashes. nil: nobody does.
	Checkpoints proofs.Source
}

// Engine joins the rooms of a daemon. It has no method of its own.
//
// Any number of engines may serve one log. The compare-and-set arbitrates.
type Engine struct {
	Caches      *cache.Budget // of all rooms
	Limits      *page.Limits
	Store       *content.Store
	Reader      *reader.Reader
	Loader      *paths.Loader
	Writer      *writer.Writer
	Policies    *policies.Policies
	Events      *events.Events
	Memories    *memories.Memories
	Compactions *compactions.Compactions
	Sessions    *sessions.Sessions
	Resets      *resets.Resets
	Extraction  *extraction.Extraction
	Episodes    *episodes.Episodes
	Forks       *forks.Forks
	Search      *search.Search
	Covered     *covered.Covered
	Contexts    *contexts.Contexts
	History     *history.History
	Transfer    *transfer.Transfer
	Audit       *audit.Audit
	Backup      *backup.Backup
	Proofs      *proofs.Proofs
	Erasure     *erasure.Erasure

	// Archive is what the files beside the ledger are written from.
	Archive *archive.Archive
}

// New returns an engine.
func New(c Config) *Engine {
	budget := cache.NewBudget(c.CacheBytes)
	if c.Keys != nil {
		c.Keys.OnDestroy(budget.Clear) // what is kept is plain
	}
	var set *metrics.Set
	if c.Registry != nil {
		set = metrics.New(c.Registry, c.Projections, budget)
	}
	e := &Engine{Caches: budget, Limits: &page.Limits{MaxPayload: c.MaxPayload}}
	e.Store = content.New(c.Ledger, c.Blobs, c.Keys, c.Counter, c.Rand, e.Limits, budget)
	e.Reader = reader.New(c.Log, c.Projections, c.Now, c.Models, e.Store, e.Limits, budget)
	e.Reader.Access, e.Reader.Acknowledged, e.Reader.Confirm = c.Access, c.Acknowledged, c.Confirm
	e.Reader.AllAcknowledged = c.AllAcknowledged
	e.Loader = paths.New(c.Tiers, c.MaxContent, e.Store, e.Reader, e.Limits, budget)
	e.Loader.ModelTiers = c.ModelTiers
	e.Writer = writer.New(c.Logger, set, c.Notify, e.Store, e.Reader, e.Limits)
	e.Policies = policies.New(e.Store, e.Limits, e.Reader, e.Writer)
	e.Events = events.New(e.Store, e.Limits, e.Reader, e.Writer)
	e.Memories = memories.New(e.Store, e.Limits, e.Reader, e.Writer, budget)
	e.Compactions = compactions.New(e.Store, e.Limits, e.Loader, e.Reader, e.Writer, e.Policies, e.Memories, budget)
	e.Sessions = sessions.New(e.Store, e.Limits, e.Loader, e.Reader, e.Writer, e.Policies, e.Compactions)
	e.Sessions.MayOpenMain = c.MayOpenMain
	e.Resets = resets.New(c.Logger, e.Reader, e.Sessions)
	e.Extraction = extraction.New(c.Logger, e.Loader, e.Reader, e.Writer, e.Events, e.Memories, e.Sessions)
	e.Episodes = episodes.New(c.Logger, e.Loader, e.Reader, e.Memories)
	e.Forks = forks.New(e.Store, e.Reader, e.Writer, e.Compactions, e.Sessions)
	e.Search = search.New(c.Search, e.Store, e.Limits, e.Reader, e.Memories, budget)
	e.Covered = covered.New(e.Store, e.Limits, e.Loader, e.Reader, e.Search)
	e.Contexts = contexts.New(e.Store, e.Limits, e.Loader, e.Reader, e.Memories, e.Covered, e.Compactions, budget)
	e.History = history.New(e.Store, e.Limits, e.Reader, budget)
	e.Transfer = transfer.New(e.Store, e.Limits, e.Loader, e.Reader, e.Writer, e.Policies, e.Sessions, budget)
	e.Audit = audit.New(e.Store, e.Limits, e.Loader, e.Reader)
	e.Proofs = proofs.New(c.Checkpoints, e.Store, e.Limits, e.Reader)
	e.Audit.Signed, e.Audit.Inconsistent = e.Proofs.Signed, e.Proofs.Inconsistent
	e.Erasure = erasure.New(c.Logger, e.Store, e.Reader, e.Writer)
	e.Memories.MayErase = e.Erasure.May
	if c.Search != nil {
		e.Erasure.Add(erasure.Store{Name: "search", Note: "words of the index, which is made again as a whole", Erase: func(ctx context.Context, s *ledger.Session) (uint64, bool, error) {
			done, err := e.Search.Without(ctx, s.ID, s.Tail.Seq)
			return 0, done, err
		}, Redact: func(ctx context.Context, s *ledger.Session, taken uint64) (uint64, bool, error) {
			done, err := e.Search.WithoutRedacted(ctx, s.ID, taken, s.Tail.Seq)
			return 0, done, err
		}})
	}
	e.Backup = backup.New(c.Backup, e.Store, e.Limits)
	e.Archive = archive.New(e.Store, e.Reader, e.Transfer, e.Memories)
	return e
}
