package api

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/turns"
)

// Operator is the agent that sees all agents of a tenant and creates nothing.
const Operator = "_"

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

// NewClient uses nc, which stays the caller's to close. It puts an error handler
// in front of nc's own, which still hears everything; one that is set on nc
// later has to call it. So make one client for a connection, and the clients of
// other agents with [Client.As].
func NewClient(nc *nats.Conn, tenant, agent string) *Client {
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

// NewID makes an id for a call.
func NewID() turns.ID {
	id, err := turns.NewID(time.Now(), rand.Reader)
	if err != nil {
		panic(err) // the system's randomness failed: nothing can be promised any more
	}
	return id
}

// Create is session.create.
func (c *Client) Create(ctx context.Context, r CreateSession) (*Session, error) {
	return write[Session](ctx, c, "session.create", turns.ID{}, &r.ID, &r)
}

// Session is session.get.
func (c *Client) Session(ctx context.Context, id turns.ID) (*Session, error) {
	return c.GetSession(ctx, id, GetSession{})
}

// GetSession is session.get, with all that may be asked of it.
func (c *Client) GetSession(ctx context.Context, id turns.ID, r GetSession) (*Session, error) {
	return read[Session](ctx, c, "session.get", id, r)
}

// Sessions is session.list, page after page.
func (c *Client) Sessions(ctx context.Context) iter.Seq2[Session, error] {
	return c.ListSessions(ctx, ListSessions{})
}

// ListSessions is session.list, with all that may be asked of it, page after page.
func (c *Client) ListSessions(ctx context.Context, r ListSessions) iter.Seq2[Session, error] {
	return list(ctx, c, "session.list", turns.ID{}, r, (*SessionList).items)
}

// Resolve is session.resolve.
func (c *Client) Resolve(ctx context.Context, label string) (*Session, error) {
	return read[Session](ctx, c, "session.resolve", turns.ID{}, Resolve{label})
}

// FindNames is lineage.find.
func (c *Client) FindNames(ctx context.Context, r FindNames) (*Names, error) {
	return read[Names](ctx, c, "lineage.find", turns.ID{}, r)
}

// Set is session.set.
func (c *Client) Set(ctx context.Context, id turns.ID, r SetSession) (*Session, error) {
	return write[Session](ctx, c, "session.set", id, &r.ID, &r)
}

// Close is session.close.
func (c *Client) Close(ctx context.Context, id turns.ID, r CloseSession) (*Session, error) {
	return write[Session](ctx, c, "session.close", id, &r.ID, &r)
}

// Reset is session.reset; it returns the successor.
func (c *Client) Reset(ctx context.Context, id turns.ID, r ResetSession) (*Session, error) {
	return write[Session](ctx, c, "session.reset", id, &r.ID, &r)
}

// Move is session.move.
func (c *Client) Move(ctx context.Context, id turns.ID, r MoveSession) (*Session, error) {
	return write[Session](ctx, c, "session.move", id, &r.ID, &r)
}

// Append is turn.append. If r is larger than a message, Append stores the content of its
// largest parts with [Client.PutContent] first.
func (c *Client) Append(ctx context.Context, session turns.ID, r AppendTurn) (*Appended, error) {
	ensure(&r.ID)
	if r.Messages == nil {
		r.Messages = []turns.Message{}
	}
	content := messageBytes(r.Messages)
	if r.Response != nil {
		content += messageBytes([]turns.Message{*r.Response})
	}
	return writeFitting[Appended](ctx, c, "turn.append", session, r.ID, &r, content, func(size int64) error { return c.fitAppend(ctx, session, &r, size) })
}

// Turn is turn.get.
func (c *Client) Turn(ctx context.Context, session, id turns.ID) (*Turn, error) {
	return read[Turn](ctx, c, "turn.get", session, GetTurn{ID: id})
}

// Turns is turn.list, page after page.
func (c *Client) Turns(ctx context.Context, session turns.ID, r ListTurns) iter.Seq2[Turn, error] {
	return list(ctx, c, "turn.list", session, r, (*TurnList).items)
}

// Expand is compaction.expand, page after page.
func (c *Client) Expand(ctx context.Context, session turns.ID, r ExpandCompaction) iter.Seq2[Turn, error] {
	return list(ctx, c, "compaction.expand", session, r, (*Expanded).items)
}

// Expansion is compaction.expand: one page.
func (c *Client) Expansion(ctx context.Context, session turns.ID, r ExpandCompaction) (*Expanded, error) {
	return read[Expanded](ctx, c, "compaction.expand", session, r)
}

// LostFacts is compaction.lost: one page.
func (c *Client) LostFacts(ctx context.Context, session turns.ID, r ListLost) (*LostList, error) {
	return read[LostList](ctx, c, "compaction.lost", session, r)
}

// Compactions is compaction.list, page after page.
func (c *Client) Compactions(ctx context.Context, session turns.ID) iter.Seq2[Turn, error] {
	return list(ctx, c, "compaction.list", session, ListCompactions{}, (*TurnList).items)
}

// Compaction is compaction.get.
func (c *Client) Compaction(ctx context.Context, session, id turns.ID) (*Turn, error) {
	return read[Turn](ctx, c, "compaction.get", session, GetTurn{ID: id})
}

// Context is context.get; the pages of one context are put together.
func (c *Client) Context(ctx context.Context, session turns.ID, r GetContext) (*Context, error) {
	return wholeContext(ctx, c, "context.get", session, r)
}

// Overflow is context.overflow; the pages of the context are put together.
func (c *Client) Overflow(ctx context.Context, session turns.ID, r Overflow) (*Context, error) {
	ensure(&r.ID)
	return wholeContext(ctx, c, "context.overflow", session, r)
}

// contextReads is how often a context is read whose settings change between two pages.
const contextReads = 4

func wholeContext[Req any, PReq pagedRequest[Req]](ctx context.Context, c *Client, verb string, session turns.ID, r Req) (*Context, error) {
	for range contextReads {
		out, err := joinContext(pages[Context, Req, PReq](ctx, c, verb, session, r, func(p *Context) string { return p.Next }))
		if out != nil || err != nil {
			return out, err
		}
	}
	return nil, Errorf(Conflict, nil, "the context kept changing while it was read")
}

// joinContext puts the pages of one context together; nil if they are of two.
func joinContext(pages iter.Seq2[*Context, error]) (out *Context, _ error) {
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
		case p.Fingerprint != out.Fingerprint:
			return nil, nil
		default:
			out.Messages, out.Sources = append(out.Messages, p.Messages...), append(out.Sources, p.Sources...)
		}
	}
	out.Next, out.Partial, out.PartialEnd = "", "", false
	return out, nil
}

// Compact is compaction.run.
func (c *Client) Compact(ctx context.Context, session turns.ID, r RunCompaction) (*CompactionRun, error) {
	if !r.DryRun {
		ensure(&r.ID)
	}
	return read[CompactionRun](ctx, c, "compaction.run", session, &r)
}

// Take is compaction.take; the pages of the content are put together.
func (c *Client) Take(ctx context.Context, session turns.ID, r TakeCompaction) (*TakenCompaction, error) {
	var out *TakenCompaction
	var content strings.Builder
	for p, err := range pages(ctx, c, "compaction.take", session, r, func(p *TakenCompaction) string { return p.Next }) {
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
func (c *Client) Submit(ctx context.Context, session turns.ID, r SubmitCompaction) (*Turn, error) {
	return write[Turn](ctx, c, "compaction.submit", session, &r.ID, &r)
}

// Record is compaction.record. If r is larger than a message, Record stores the content
// of the largest parts of its replacement with [Client.PutContent] first.
func (c *Client) Record(ctx context.Context, session turns.ID, r RecordCompaction) (*Turn, error) {
	ensure(&r.ID)
	return writeFitting[Turn](ctx, c, "compaction.record", session, r.ID, &r, messageBytes(r.Replacement), func(size int64) (err error) {
		r.Replacement, err = c.moveParts(ctx, session, r.Replacement, size, c.Conn().MaxPayload(), true)
		return err
	})
}

// BeginFlush is flush.begin.
func (c *Client) BeginFlush(ctx context.Context, session turns.ID, r BeginFlush) (*BegunFlush, error) {
	return write[BegunFlush](ctx, c, "flush.begin", session, &r.ID, &r)
}

// DoneFlush is flush.done.
func (c *Client) DoneFlush(ctx context.Context, session turns.ID, r DoneFlush) (*EndedFlush, error) {
	return write[EndedFlush](ctx, c, "flush.done", session, &r.ID, &r)
}

// Fork is fork.create.
func (c *Client) Fork(ctx context.Context, session turns.ID, r CreateFork) (*Session, error) {
	return write[Session](ctx, c, "fork.create", session, &r.ID, &r)
}

// Path is lineage.path, page after page, root first.
func (c *Client) Path(ctx context.Context, session turns.ID, r GetPath) iter.Seq2[PathTurn, error] {
	return list(ctx, c, "lineage.path", session, r, (*Path).items)
}

// Base is lineage.base.
func (c *Client) Base(ctx context.Context, session turns.ID, r GetBase) (*Base, error) {
	return read[Base](ctx, c, "lineage.base", session, r)
}

// Tree is lineage.tree; its pages are put together.
func (c *Client) Tree(ctx context.Context, session turns.ID) (*Tree, error) {
	out := new(Tree)
	for p, err := range pages(ctx, c, "lineage.tree", session, GetTree{}, func(p *Tree) string { return p.Next }) {
		if err != nil {
			return nil, err
		}
		out.Root, out.Sessions = p.Root, append(out.Sessions, p.Sessions...)
	}
	return out, nil
}

// Export is session.export, record after record.
func (c *Client) Export(ctx context.Context, session turns.ID) iter.Seq2[ExportRecord, error] {
	return list(ctx, c, "session.export", session, ExportSession{}, (*Exported).items)
}

// ExportBeforeLoss is session.export with stale_ok: of a session that lost an event, it
// has what is before that.
func (c *Client) ExportBeforeLoss(ctx context.Context, session turns.ID) iter.Seq2[ExportRecord, error] {
	return list(ctx, c, "session.export", session, ExportSession{Read: Read{StaleOK: true}}, (*Exported).items)
}

// Import is session.import of one batch of records.
func (c *Client) Import(ctx context.Context, records []ExportRecord) (*Imported, error) {
	return read[Imported](ctx, c, "session.import", turns.ID{}, ImportRecords{records})
}

// Policies is policy.list; its pages are put together.
func (c *Client) Policies(ctx context.Context) (out []PolicyInfo, err error) {
	for p, err := range list(ctx, c, "policy.list", turns.ID{}, ListPolicies{}, (*PolicyList).items) {
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// PutPolicy is policy.put.
func (c *Client) PutPolicy(ctx context.Context, r PutPolicy) (*PolicyInfo, error) {
	return write[PolicyInfo](ctx, c, "policy.put", turns.ID{}, &r.ID, &r)
}

// Policy is policy.get.
func (c *Client) Policy(ctx context.Context, r GetPolicy) (*PolicyInfo, error) {
	return read[PolicyInfo](ctx, c, "policy.get", turns.ID{}, r)
}

// AppendEvent is event.append.
func (c *Client) AppendEvent(ctx context.Context, r AppendEvent) (*AppendedEvent, error) {
	return write[AppendedEvent](ctx, c, "event.append", turns.ID{}, &r.ID, &r)
}

// Event is event.get.
func (c *Client) Event(ctx context.Context, r GetEvent) (*Event, error) {
	return read[Event](ctx, c, "event.get", turns.ID{}, r)
}

// Events is event.list, page after page.
func (c *Client) Events(ctx context.Context, r ListEvents) iter.Seq2[Event, error] {
	return list(ctx, c, "event.list", turns.ID{}, r, (*EventList).items)
}

// EventPage is one page of event.list.
func (c *Client) EventPage(ctx context.Context, r ListEvents) (*EventList, error) {
	return read[EventList](ctx, c, "event.list", turns.ID{}, r)
}

// Channels is event.channels, page after page.
func (c *Client) Channels(ctx context.Context) iter.Seq2[Channel, error] {
	return list(ctx, c, "event.channels", turns.ID{}, ListChannels{}, (*ChannelList).items)
}

// SaveMemory is memory.save.
func (c *Client) SaveMemory(ctx context.Context, r SaveMemory) (*Memory, error) {
	return write[Memory](ctx, c, "memory.save", turns.ID{}, &r.ID, &r)
}

// WithdrawMemory is memory.withdraw.
func (c *Client) WithdrawMemory(ctx context.Context, r WithdrawMemory) (*WithdrawnMemory, error) {
	return write[WithdrawnMemory](ctx, c, "memory.withdraw", turns.ID{}, &r.ID, &r)
}

// PromoteMemory is memory.promote.
func (c *Client) PromoteMemory(ctx context.Context, r PromoteMemory) (*Memory, error) {
	return write[Memory](ctx, c, "memory.promote", turns.ID{}, &r.ID, &r)
}

// Memories is memory.list, memory after memory, newest first.
func (c *Client) Memories(ctx context.Context, r ListMemories) iter.Seq2[Memory, error] {
	return list(ctx, c, "memory.list", turns.ID{}, r, (*MemoryList).items)
}

// Document is memory.document, which reads the agent's document.
func (c *Client) Document(ctx context.Context, r MemoryDocument) (*Document, error) {
	r.ID, r.Text = turns.ID{}, nil
	return read[Document](ctx, c, "memory.document", turns.ID{}, r)
}

// ReplaceDocument is memory.document with a text, which replaces the version r.If.
func (c *Client) ReplaceDocument(ctx context.Context, r MemoryDocument) (*Document, error) {
	return write[Document](ctx, c, "memory.document", turns.ID{}, &r.ID, &r)
}

// SearchMemories is memory.search.
func (c *Client) SearchMemories(ctx context.Context, r SearchMemories) (*MemoryHits, error) {
	return read[MemoryHits](ctx, c, "memory.search", turns.ID{}, r)
}

// Search is search.query: one page.
func (c *Client) Search(ctx context.Context, r Search) (*SearchHits, error) {
	return read[SearchHits](ctx, c, "search.query", turns.ID{}, r)
}

// PutBlob is blob.put.
func (c *Client) PutBlob(ctx context.Context, r PutBlob) (*BlobInfo, error) {
	return read[BlobInfo](ctx, c, "blob.put", turns.ID{}, r)
}

// BackupState is backup.state.
func (c *Client) BackupState(ctx context.Context) (*BackupState, error) {
	return read[BackupState](ctx, c, "backup.state", turns.ID{}, GetBackup{})
}

// ReadBackup is backup.read.
func (c *Client) ReadBackup(ctx context.Context, r ReadBackup) (*BackupRecords, error) {
	return read[BackupRecords](ctx, c, "backup.read", turns.ID{}, r)
}

// BackupKeys is backup.keys.
func (c *Client) BackupKeys(ctx context.Context, ids ...turns.ID) (*BackedUpKeys, error) {
	return read[BackedUpKeys](ctx, c, "backup.keys", turns.ID{}, BackupKeys{ids})
}

// Verify is audit.verify.
func (c *Client) Verify(ctx context.Context, sessions ...turns.ID) (*Verified, error) {
	return read[Verified](ctx, c, "audit.verify", turns.ID{}, Verify{sessions})
}
