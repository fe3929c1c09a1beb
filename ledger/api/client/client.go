package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// Client speaks the contract for one agent of one tenant over a NATS
// connection. Safe for concurrent use; the zero value is not usable.
//
// Every call is retried on busy, unavailable and indeterminate answers until ctx
// ends. A mutating call that has no id is given one before the first try, so it
// is stored once however often it is sent. A ctx without a deadline lets a call
// try for ever, unless [Client.Within] limits it.
//
// errors.As finds an [*Error] in what a call returns; errors.Is finds ctx's error
// too, where ctx ended the call. Unavailable means that no try was carried out,
// Indeterminate that one may have been; Denied is also what a permission of the
// NATS server refuses.
type Client struct {
	link          *link
	tenant, agent string
	limit         time.Duration // of a call; 0: none but ctx's
	after         time.Duration // of a call, before waiting is called
	waiting       func(Waiting) // nil: nobody is told
	stale         func()        // nil: nobody is told
}

// New uses nc, which stays the caller's to close. It puts an error handler
// in front of nc's own, which still hears everything; one that is set on nc
// later has to call it. So make one client for a connection, and the clients of
// other agents with [Client.As].
func New(nc *nats.Conn, tenant, agent string) *Client {
	return &Client{link: newLink(nc), tenant: tenant, agent: agent}
}

// As is a client for another agent on the same connection.
func (c *Client) As(agent string) *Client {
	other := *c
	other.agent = agent
	return &other
}

// For is a client for an agent of any tenant on the same connection.
func (c *Client) For(tenant, agent string) *Client {
	other := *c
	other.tenant, other.agent = tenant, agent
	return &other
}

// Within is a client whose calls end after d at the latest, audit.verify after
// 31 minutes if that is longer.
func (c *Client) Within(d time.Duration) *Client {
	other := *c
	other.limit = d
	return &other
}

// OnStale returns a client that calls f with each answer that may lack what was
// acknowledged, since the daemon's disk takes no writes. f must not block.
func (c *Client) OnStale(f func()) *Client {
	other := *c
	other.stale = f
	return &other
}

// Conn is the connection.
func (c *Client) Conn() *nats.Conn { return c.link.nc }

// NotifySubject is where hints of a session's events come; what may be ">" for all.
func (c *Client) NotifySubject(session turns.ID, what string) string {
	return fmt.Sprintf("nexus.v1.%s.%s.notify.%s.%s", c.tenant, c.agent, session, what)
}

// NotifyChannelSubject is where hints of a channel's events come, by the id of the channel.
func (c *Client) NotifyChannelSubject(channelID string) string {
	return fmt.Sprintf("nexus.v1.%s.%s.notify.%s.event.appended", c.tenant, c.agent, channelID)
}

// Create is session.create.
func (c *Client) Create(ctx context.Context, r api.CreateSession) (*api.Session, error) {
	return write[api.Session](ctx, c, "session.create", turns.ID{}, &r.ID, &r)
}

// Session is session.get.
func (c *Client) Session(ctx context.Context, id turns.ID) (*api.Session, error) {
	return c.GetSession(ctx, id, api.GetSession{})
}

// GetSession is session.get, with all that may be asked of it.
func (c *Client) GetSession(ctx context.Context, id turns.ID, r api.GetSession) (*api.Session, error) {
	return read[api.Session](ctx, c, "session.get", id, r)
}

// Sessions is session.list, page after page.
func (c *Client) Sessions(ctx context.Context) iter.Seq2[api.Session, error] {
	return c.ListSessions(ctx, api.ListSessions{})
}

// ListSessions is session.list, with all that may be asked of it, page after page.
func (c *Client) ListSessions(ctx context.Context, r api.ListSessions) iter.Seq2[api.Session, error] {
	return list(ctx, c, "session.list", turns.ID{}, r, (*api.SessionList).Items)
}

// Resolve is session.resolve.
func (c *Client) Resolve(ctx context.Context, label string) (*api.Session, error) {
	return read[api.Session](ctx, c, "session.resolve", turns.ID{}, api.Resolve{Label: label})
}

// FindNames is lineage.find.
func (c *Client) FindNames(ctx context.Context, r api.FindNames) (*api.Names, error) {
	return read[api.Names](ctx, c, "lineage.find", turns.ID{}, r)
}

// Set is session.set.
func (c *Client) Set(ctx context.Context, id turns.ID, r api.SetSession) (*api.Session, error) {
	return write[api.Session](ctx, c, "session.set", id, &r.ID, &r)
}

// Close is session.close.
func (c *Client) Close(ctx context.Context, id turns.ID, r api.CloseSession) (*api.Session, error) {
	return write[api.Session](ctx, c, "session.close", id, &r.ID, &r)
}

// Hide is session.hide.
func (c *Client) Hide(ctx context.Context, id turns.ID, r api.HideSession) (*api.Session, error) {
	return write[api.Session](ctx, c, "session.hide", id, &r.ID, &r)
}

// Unhide is session.unhide.
func (c *Client) Unhide(ctx context.Context, id turns.ID, r api.HideSession) (*api.Session, error) {
	return write[api.Session](ctx, c, "session.unhide", id, &r.ID, &r)
}

// Erase is session.erase. Only the operator may: c must be of [api.Operator]. A call again says what is done by then.
func (c *Client) Erase(ctx context.Context, id turns.ID, r api.EraseSession) (*api.Receipt, error) {
	return read[api.Receipt](ctx, c, "session.erase", id, r)
}

// Describe is session.describe.
func (c *Client) Describe(ctx context.Context, id turns.ID, r api.DescribeSession) (*api.Session, error) {
	return write[api.Session](ctx, c, "session.describe", id, &r.ID, &r)
}

// Note is turn.note.
func (c *Client) Note(ctx context.Context, session turns.ID, r api.NoteTurn) (*api.Turn, error) {
	return write[api.Turn](ctx, c, "turn.note", session, &r.ID, &r)
}

// Reset is session.reset; it returns the successor.
func (c *Client) Reset(ctx context.Context, id turns.ID, r api.ResetSession) (*api.Session, error) {
	return write[api.Session](ctx, c, "session.reset", id, &r.ID, &r)
}

// Move is session.move.
func (c *Client) Move(ctx context.Context, id turns.ID, r api.MoveSession) (*api.Session, error) {
	return write[api.Session](ctx, c, "session.move", id, &r.ID, &r)
}

// Append is turn.append. If r is larger than a message, Append stores the content of its
// largest parts with [Client.PutContent] first.
func (c *Client) Append(ctx context.Context, session turns.ID, r api.AppendTurn) (*api.Appended, error) {
	ensure(&r.ID)
	if r.Messages == nil {
		r.Messages = []turns.Message{}
	}
	content := messageBytes(r.Messages)
	if r.Response != nil {
		content += messageBytes([]turns.Message{*r.Response})
	}
	return writeFitting[api.Appended](ctx, c, "turn.append", session, r.ID, &r, content, func(size int64) error { return c.fitAppend(ctx, session, &r, size) })
}

// Turn is turn.get.
func (c *Client) Turn(ctx context.Context, session, id turns.ID) (*api.Turn, error) {
	return read[api.Turn](ctx, c, "turn.get", session, api.GetTurn{ID: id})
}

// Turns is turn.list, page after page.
func (c *Client) Turns(ctx context.Context, session turns.ID, r api.ListTurns) iter.Seq2[api.Turn, error] {
	return list(ctx, c, "turn.list", session, r, (*api.TurnList).Items)
}

// Expand is compaction.expand, page after page.
func (c *Client) Expand(ctx context.Context, session turns.ID, r api.ExpandCompaction) iter.Seq2[api.Turn, error] {
	return list(ctx, c, "compaction.expand", session, r, (*api.Expanded).Items)
}

// Expansion is compaction.expand: one page.
func (c *Client) Expansion(ctx context.Context, session turns.ID, r api.ExpandCompaction) (*api.Expanded, error) {
	return read[api.Expanded](ctx, c, "compaction.expand", session, r)
}

// LostFacts is compaction.lost: one page.
func (c *Client) LostFacts(ctx context.Context, session turns.ID, r api.ListLost) (*api.LostList, error) {
	return read[api.LostList](ctx, c, "compaction.lost", session, r)
}

// Compactions is compaction.list, page after page.
func (c *Client) Compactions(ctx context.Context, session turns.ID) iter.Seq2[api.Turn, error] {
	return c.ListCompactions(ctx, session, api.ListCompactions{})
}

// ListCompactions is compaction.list, page after page, of what a request asks for.
func (c *Client) ListCompactions(ctx context.Context, session turns.ID, r api.ListCompactions) iter.Seq2[api.Turn, error] {
	return list(ctx, c, "compaction.list", session, r, (*api.TurnList).Items)
}

// Compaction is compaction.get.
func (c *Client) Compaction(ctx context.Context, session, id turns.ID) (*api.Turn, error) {
	return read[api.Turn](ctx, c, "compaction.get", session, api.GetTurn{ID: id})
}

// Context is context.get; the pages of one context are put together.
func (c *Client) Context(ctx context.Context, session turns.ID, r api.GetContext) (*api.Context, error) {
	return wholeContext(ctx, c, "context.get", session, r)
}

// Overflow is context.overflow; the pages of the context are put together.
func (c *Client) Overflow(ctx context.Context, session turns.ID, r api.Overflow) (*api.Context, error) {
	ensure(&r.ID)
	return wholeContext(ctx, c, "context.overflow", session, r)
}

// contextReads is how often a context is read whose settings change between two pages.
const contextReads = 4

func wholeContext[Req any, PReq pagedRequest[Req]](ctx context.Context, c *Client, verb string, session turns.ID, r Req) (*api.Context, error) {
	for range contextReads {
		out, err := joinContext(pages[api.Context, Req, PReq](ctx, c, verb, session, r, func(p *api.Context) string { return p.Next }))
		if stale := api.FromError(err); err != nil && stale.Code == api.Conflict && stale.Details["field"] == "/after" {
			continue // begin with the first page again
		}
		if out != nil || err != nil {
			return out, err
		}
	}
	return nil, api.Errorf(api.Conflict, nil, "the context kept changing while it was read")
}

// joinContext puts the pages of one context together; nil if they are of two.
func joinContext(pages iter.Seq2[*api.Context, error]) (out *api.Context, _ error) {
	var partial strings.Builder // of the JSON of a message that is larger than a page
	for p, err := range pages {
		if err != nil {
			return nil, err
		}
		if partial.WriteString(p.Partial); p.PartialEnd {
			p.Messages = append(p.Messages, turns.Raw(partial.String()))
			partial.Reset()
		}
		switch {
		case out == nil:
			out = p
		case p.Fingerprint != out.Fingerprint || p.PreambleDigest != out.PreambleDigest:
			return nil, nil
		default:
			out.Messages, out.Sources = append(out.Messages, p.Messages...), append(out.Sources, p.Sources...)
		}
	}
	out.Next, out.Partial, out.PartialEnd = "", "", false
	return out, nil
}

// Compact is compaction.run.
func (c *Client) Compact(ctx context.Context, session turns.ID, r api.RunCompaction) (*api.CompactionRun, error) {
	if !r.DryRun {
		ensure(&r.ID)
	}
	return read[api.CompactionRun](ctx, c, "compaction.run", session, &r)
}

// Take is compaction.take; the pages of the content are put together.
func (c *Client) Take(ctx context.Context, session turns.ID, r api.TakeCompaction) (*api.TakenCompaction, error) {
	var out *api.TakenCompaction
	var content strings.Builder
	for p, err := range pages(ctx, c, "compaction.take", session, r, func(p *api.TakenCompaction) string { return p.Next }) {
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = p
		}
		content.WriteString(p.Content)
	}
	out.Content, out.Next = content.String(), ""
	return out, nil
}

// Submit is compaction.submit.
func (c *Client) Submit(ctx context.Context, session turns.ID, r api.SubmitCompaction) (*api.Turn, error) {
	return write[api.Turn](ctx, c, "compaction.submit", session, &r.ID, &r)
}

// Record is compaction.record. If r is larger than a message, Record stores the content
// of the largest parts of its replacement with [Client.PutContent] first.
func (c *Client) Record(ctx context.Context, session turns.ID, r api.RecordCompaction) (*api.Turn, error) {
	ensure(&r.ID)
	return writeFitting[api.Turn](ctx, c, "compaction.record", session, r.ID, &r, messageBytes(r.Replacement), func(size int64) (err error) {
		r.Replacement, err = c.moveParts(ctx, session, r.Replacement, size, c.Conn().MaxPayload(), true)
		return err
	})
}

// BeginFlush is flush.begin.
func (c *Client) BeginFlush(ctx context.Context, session turns.ID, r api.BeginFlush) (*api.BegunFlush, error) {
	return write[api.BegunFlush](ctx, c, "flush.begin", session, &r.ID, &r)
}

// DoneFlush is flush.done.
func (c *Client) DoneFlush(ctx context.Context, session turns.ID, r api.DoneFlush) (*api.EndedFlush, error) {
	return write[api.EndedFlush](ctx, c, "flush.done", session, &r.ID, &r)
}

// Fork is fork.create.
func (c *Client) Fork(ctx context.Context, session turns.ID, r api.CreateFork) (*api.Session, error) {
	return write[api.Session](ctx, c, "fork.create", session, &r.ID, &r)
}

// Path is lineage.path, page after page, root first.
func (c *Client) Path(ctx context.Context, session turns.ID, r api.GetPath) iter.Seq2[api.PathTurn, error] {
	return list(ctx, c, "lineage.path", session, r, (*api.Path).Items)
}

// Base is lineage.base.
func (c *Client) Base(ctx context.Context, session turns.ID, r api.GetBase) (*api.Base, error) {
	return read[api.Base](ctx, c, "lineage.base", session, r)
}

// Tree is lineage.tree; its pages are put together.
func (c *Client) Tree(ctx context.Context, session turns.ID) (*api.Tree, error) {
	out := new(api.Tree)
	for p, err := range pages(ctx, c, "lineage.tree", session, api.GetTree{}, func(p *api.Tree) string { return p.Next }) {
		if err != nil {
			return nil, err
		}
		out.Root, out.Sessions = p.Root, append(out.Sessions, p.Sessions...)
	}
	return out, nil
}

// Export is session.export, record after record.
func (c *Client) Export(ctx context.Context, session turns.ID) iter.Seq2[api.ExportRecord, error] {
	return list(ctx, c, "session.export", session, api.ExportSession{}, (*api.Exported).Items)
}

// ExportBeforeLoss is session.export with stale_ok: of a session that lost an event, it
// has what is before that.
func (c *Client) ExportBeforeLoss(ctx context.Context, session turns.ID) iter.Seq2[api.ExportRecord, error] {
	return list(ctx, c, "session.export", session, api.ExportSession{Read: api.Read{StaleOK: true}}, (*api.Exported).Items)
}

// Import is session.import of one batch of records.
func (c *Client) Import(ctx context.Context, records []api.ExportRecord) (*api.Imported, error) {
	return read[api.Imported](ctx, c, "session.import", turns.ID{}, api.ImportRecords{Records: records})
}

// Policies is policy.list; its pages are put together.
func (c *Client) Policies(ctx context.Context) (out []api.PolicyInfo, err error) {
	for p, err := range list(ctx, c, "policy.list", turns.ID{}, api.ListPolicies{}, (*api.PolicyList).Items) {
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// PutPolicy is policy.put.
func (c *Client) PutPolicy(ctx context.Context, r api.PutPolicy) (*api.PolicyInfo, error) {
	return write[api.PolicyInfo](ctx, c, "policy.put", turns.ID{}, &r.ID, &r)
}

// Policy is policy.get.
func (c *Client) Policy(ctx context.Context, r api.GetPolicy) (*api.PolicyInfo, error) {
	return read[api.PolicyInfo](ctx, c, "policy.get", turns.ID{}, r)
}

// OpenPages is ui.open.
func (c *Client) OpenPages(ctx context.Context, r api.OpenPages) (*api.OpenedPages, error) {
	return read[api.OpenedPages](ctx, c, "ui.open", turns.ID{}, r)
}

// SessionPage is one page of session.list.
func (c *Client) SessionPage(ctx context.Context, r api.ListSessions) (*api.SessionList, error) {
	return read[api.SessionList](ctx, c, "session.list", turns.ID{}, r)
}

// TurnPage is one page of turn.list.
func (c *Client) TurnPage(ctx context.Context, session turns.ID, r api.ListTurns) (*api.TurnList, error) {
	return read[api.TurnList](ctx, c, "turn.list", session, r)
}

// TreePage is one page of lineage.tree.
func (c *Client) TreePage(ctx context.Context, session turns.ID, r api.GetTree) (*api.Tree, error) {
	return read[api.Tree](ctx, c, "lineage.tree", session, r)
}

// MemoryPage is one page of memory.list.
func (c *Client) MemoryPage(ctx context.Context, r api.ListMemories) (*api.MemoryList, error) {
	return read[api.MemoryList](ctx, c, "memory.list", turns.ID{}, r)
}

// AppendEvent is event.append.
func (c *Client) AppendEvent(ctx context.Context, r api.AppendEvent) (*api.AppendedEvent, error) {
	return write[api.AppendedEvent](ctx, c, "event.append", turns.ID{}, &r.ID, &r)
}

// Event is event.get.
func (c *Client) Event(ctx context.Context, r api.GetEvent) (*api.Event, error) {
	return read[api.Event](ctx, c, "event.get", turns.ID{}, r)
}

// Redact is turn.redact. Only the operator may: c must be of [api.Operator].
func (c *Client) Redact(ctx context.Context, session turns.ID, r api.RedactTurn) (*api.Redacted, error) {
	return write[api.Redacted](ctx, c, "turn.redact", session, &r.ID, &r)
}

// RedactMemories is memory.redact. Only the operator may: c must be of [api.Operator].
func (c *Client) RedactMemories(ctx context.Context, r api.RedactMemories) (*api.RedactedMemories, error) {
	return read[api.RedactedMemories](ctx, c, "memory.redact", turns.ID{}, r)
}

// Events is event.list, page after page.
func (c *Client) Events(ctx context.Context, r api.ListEvents) iter.Seq2[api.Event, error] {
	return list(ctx, c, "event.list", turns.ID{}, r, (*api.EventList).Items)
}

// EventPage is one page of event.list.
func (c *Client) EventPage(ctx context.Context, r api.ListEvents) (*api.EventList, error) {
	return read[api.EventList](ctx, c, "event.list", turns.ID{}, r)
}

// Channels is event.channels, page after page.
func (c *Client) Channels(ctx context.Context) iter.Seq2[api.Channel, error] {
	return list(ctx, c, "event.channels", turns.ID{}, api.ListChannels{}, (*api.ChannelList).Items)
}

// SaveMemory is memory.save.
func (c *Client) SaveMemory(ctx context.Context, r api.SaveMemory) (*api.Memory, error) {
	return write[api.Memory](ctx, c, "memory.save", turns.ID{}, &r.ID, &r)
}

// WithdrawMemory is memory.withdraw.
func (c *Client) WithdrawMemory(ctx context.Context, r api.WithdrawMemory) (*api.WithdrawnMemory, error) {
	return write[api.WithdrawnMemory](ctx, c, "memory.withdraw", turns.ID{}, &r.ID, &r)
}

// PromoteMemory is memory.promote.
func (c *Client) PromoteMemory(ctx context.Context, r api.PromoteMemory) (*api.Memory, error) {
	return write[api.Memory](ctx, c, "memory.promote", turns.ID{}, &r.ID, &r)
}

// Memories is memory.list, memory after memory, newest first.
func (c *Client) Memories(ctx context.Context, r api.ListMemories) iter.Seq2[api.Memory, error] {
	return list(ctx, c, "memory.list", turns.ID{}, r, (*api.MemoryList).Items)
}

// Document is memory.document, which reads the agent's document.
func (c *Client) Document(ctx context.Context, r api.MemoryDocument) (*api.Document, error) {
	r.ID, r.Text = turns.ID{}, nil
	return read[api.Document](ctx, c, "memory.document", turns.ID{}, r)
}

// ReplaceDocument is memory.document with a text, which replaces the version r.If.
func (c *Client) ReplaceDocument(ctx context.Context, r api.MemoryDocument) (*api.Document, error) {
	return write[api.Document](ctx, c, "memory.document", turns.ID{}, &r.ID, &r)
}

// SearchMemories is memory.search.
func (c *Client) SearchMemories(ctx context.Context, r api.SearchMemories) (*api.MemoryHits, error) {
	return read[api.MemoryHits](ctx, c, "memory.search", turns.ID{}, r)
}

// Search is search.query: one page.
func (c *Client) Search(ctx context.Context, r api.Search) (*api.SearchHits, error) {
	return read[api.SearchHits](ctx, c, "search.query", turns.ID{}, r)
}

// PutBlob is blob.put.
func (c *Client) PutBlob(ctx context.Context, r api.PutBlob) (*api.BlobInfo, error) {
	return read[api.BlobInfo](ctx, c, "blob.put", turns.ID{}, r)
}

// BackupState is backup.state.
func (c *Client) BackupState(ctx context.Context) (*api.BackupState, error) {
	return read[api.BackupState](ctx, c, "backup.state", turns.ID{}, api.GetBackup{})
}

// ReadBackup is backup.read.
func (c *Client) ReadBackup(ctx context.Context, r api.ReadBackup) (*api.BackupRecords, error) {
	return read[api.BackupRecords](ctx, c, "backup.read", turns.ID{}, r)
}

// BackupKeys is backup.keys.
func (c *Client) BackupKeys(ctx context.Context, ids ...turns.ID) (*api.BackedUpKeys, error) {
	return read[api.BackedUpKeys](ctx, c, "backup.keys", turns.ID{}, api.BackupKeys{IDs: ids})
}

// Verify is audit.verify.
func (c *Client) Verify(ctx context.Context, sessions ...turns.ID) (*api.Verified, error) {
	return read[api.Verified](ctx, c, "audit.verify", turns.ID{}, &api.Verify{Sessions: sessions})
}

// VerifyPages is audit.verify of sessions, in pages of so many events: what was found so far, and at last what
// [Client.Verify] returns. Where the daemon does not have a verification any more, as one that was started
// since, or another one of a cluster, it asks for all of it at once.
func (c *Client) VerifyPages(ctx context.Context, limit int, sessions ...turns.ID) iter.Seq2[*api.Verified, error] {
	return func(yield func(*api.Verified, error) bool) {
		r := api.Verify{Sessions: sessions, Page: api.Page{Limit: limit}}
		for v, err := range pages(ctx, c, "audit.verify", turns.ID{}, r, func(v *api.Verified) string { return v.Next }) {
			if errors.Is(err, ledger.ErrConflict) {
				v, err = c.Verify(ctx, sessions...)
			}
			if !yield(v, err) {
				return
			}
		}
	}
}
