package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"

	"nexus/turns"
)

// Operator is the agent that sees all agents of a tenant and creates nothing.
const Operator = "_"

// Client speaks the contract for one agent of one tenant over a NATS
// connection. Safe for concurrent use; the zero value is not usable.
//
// Every mutating call is given an id if it has none, and is retried with it on
// busy, unavailable and indeterminate answers until ctx ends: it is stored once.
type Client struct {
	nc            *nats.Conn
	tenant, agent string
}

// NewClient uses nc, which stays the caller's to close.
func NewClient(nc *nats.Conn, tenant, agent string) *Client {
	return &Client{nc: nc, tenant: tenant, agent: agent}
}

// As is a client for another agent on the same connection.
func (c *Client) As(agent string) *Client { return NewClient(c.nc, c.tenant, agent) }

// Agent is the agent that the client speaks for.
func (c *Client) Agent() string { return c.agent }

// Conn is the connection.
func (c *Client) Conn() *nats.Conn { return c.nc }

// NotifySubject is where hints of a session's events come; what may be ">" for all.
func (c *Client) NotifySubject(session turns.ID, what string) string {
	return fmt.Sprintf("nexus.v1.%s.%s.notify.%s.%s", c.tenant, c.agent, session, what)
}

// Call makes one request: noun.verb, the session if the verb has one, and the
// request's value. The reply is decoded into out, leniently: members this build
// does not know are ignored. Errors are *Error, or ctx's.
func (c *Client) Call(ctx context.Context, verb string, session turns.ID, in, out any) error {
	b, err := turns.EncodeJSON(in)
	if err != nil {
		return err
	}
	if most := c.nc.MaxPayload(); int64(len(b)) > most {
		return Errorf(TooLarge, map[string]any{"limit": most}, "the request has %d bytes, a message may have %d", len(b), most)
	}
	subject := fmt.Sprintf("nexus.v1.%s.%s.%s", c.tenant, c.agent, verb)
	if !session.IsZero() {
		subject += "." + session.String()
	}
	wait := requestTimeout
	if verb == "audit.verify" { // reads the whole ledger
		wait = verifyTimeout
	}
	var last *Error // what the daemon said when it was last asked
	try := func() (struct{}, error) {
		err := c.once(ctx, wait, subject, b, out)
		var e *Error
		if errors.As(err, &e) {
			last = e
		}
		if e != nil && (e.Code == Busy || e.Code == Unavailable || e.Code == Indeterminate) && ctx.Err() == nil {
			return struct{}{}, err
		}
		if err != nil {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, nil
	}
	_, err = backoff.Retry(ctx, try, backoff.WithMaxElapsedTime(30*time.Second))
	var p *backoff.PermanentError
	if errors.As(err, &p) {
		err = p.Unwrap()
	}
	if last != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return last // says more than that time is over
	}
	return err
}

// How long one try waits for its reply: longer than the daemon works on it.
const (
	requestTimeout = 35 * time.Second
	verifyTimeout  = 31 * time.Minute
)

func (c *Client) once(ctx context.Context, wait time.Duration, subject string, b []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	m, err := c.nc.RequestWithContext(ctx, subject, b)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return Errorf(Unavailable, nil, "no nexusd serves this NATS server")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return Errorf(Indeterminate, nil, "no answer in time; the request may have been carried out")
	case err != nil:
		return Errorf(Unavailable, nil, "%v", err)
	}
	if m.Header.Get("Nats-Service-Error-Code") != "" {
		var e struct {
			Error *Error `json:"error"`
		}
		if err := unmarshalLenient(m.Data, &e); err != nil || e.Error == nil {
			return Errorf(Internal, nil, "%s", m.Header.Get("Nats-Service-Error"))
		}
		return e.Error
	}
	if out == nil {
		return nil
	}
	return unmarshalLenient(m.Data, out)
}

// NewID makes an id for a call.
func NewID() turns.ID {
	id, err := turns.NewID(time.Now(), rand.Reader)
	if err != nil {
		panic(err) // the system's randomness failed: nothing can be promised any more
	}
	return id
}

func ensure(id *turns.ID) {
	if id.IsZero() {
		*id = NewID()
	}
}

// Create is session.create.
func (c *Client) Create(ctx context.Context, r CreateSession) (*Session, error) {
	ensure(&r.ID)
	out := new(Session)
	return out, c.Call(ctx, "session.create", turns.ID{}, r, out)
}

// Session is session.get.
func (c *Client) Session(ctx context.Context, id turns.ID) (*Session, error) {
	return c.GetSession(ctx, id, GetSession{})
}

// GetSession is session.get, with all that may be asked of it.
func (c *Client) GetSession(ctx context.Context, id turns.ID, r GetSession) (*Session, error) {
	out := new(Session)
	return out, c.Call(ctx, "session.get", id, r, out)
}

// Sessions is session.list, page after page.
func (c *Client) Sessions(ctx context.Context) iter.Seq2[Session, error] {
	return c.ListSessions(ctx, ListSessions{})
}

// ListSessions is session.list, with all that may be asked of it, page after page.
func (c *Client) ListSessions(ctx context.Context, r ListSessions) iter.Seq2[Session, error] {
	return func(yield func(Session, error) bool) {
		for {
			var out SessionList
			if err := c.Call(ctx, "session.list", turns.ID{}, r, &out); err != nil {
				yield(Session{}, err)
				return
			}
			for _, s := range out.Sessions {
				if !yield(s, nil) {
					return
				}
			}
			if r.After = out.Next; r.After == "" {
				return
			}
		}
	}
}

// Resolve is session.resolve.
func (c *Client) Resolve(ctx context.Context, label string) (*Session, error) {
	out := new(Session)
	return out, c.Call(ctx, "session.resolve", turns.ID{}, Resolve{label}, out)
}

// Set is session.set.
func (c *Client) Set(ctx context.Context, id turns.ID, r SetSession) (*Session, error) {
	ensure(&r.ID)
	out := new(Session)
	return out, c.Call(ctx, "session.set", id, r, out)
}

// Close is session.close.
func (c *Client) Close(ctx context.Context, id turns.ID, r CloseSession) (*Session, error) {
	ensure(&r.ID)
	out := new(Session)
	return out, c.Call(ctx, "session.close", id, r, out)
}

// Reset is session.reset; it returns the successor.
func (c *Client) Reset(ctx context.Context, id turns.ID, r ResetSession) (*Session, error) {
	ensure(&r.ID)
	out := new(Session)
	return out, c.Call(ctx, "session.reset", id, r, out)
}

// Move is session.move.
func (c *Client) Move(ctx context.Context, id turns.ID, r MoveSession) (*Session, error) {
	ensure(&r.ID)
	out := new(Session)
	return out, c.Call(ctx, "session.move", id, r, out)
}

// Append is turn.append.
func (c *Client) Append(ctx context.Context, session turns.ID, r AppendTurn) (*Appended, error) {
	ensure(&r.ID)
	if r.Messages == nil {
		r.Messages = []turns.Message{}
	}
	out := new(Appended)
	return out, c.Call(ctx, "turn.append", session, r, out)
}

// Turn is turn.get.
func (c *Client) Turn(ctx context.Context, session, id turns.ID) (*Turn, error) {
	out := new(Turn)
	return out, c.Call(ctx, "turn.get", session, GetTurn{ID: id}, out)
}

// Turns is turn.list, page after page.
func (c *Client) Turns(ctx context.Context, session turns.ID, r ListTurns) iter.Seq2[Turn, error] {
	return c.turns(ctx, "turn.list", session, r.After, func(after string) any { r.After = after; return r })
}

// Expand is compaction.expand, page after page.
func (c *Client) Expand(ctx context.Context, session turns.ID, r ExpandCompaction) iter.Seq2[Turn, error] {
	return c.turns(ctx, "compaction.expand", session, r.After, func(after string) any { r.After = after; return r })
}

// Compactions is compaction.list, page after page.
func (c *Client) Compactions(ctx context.Context, session turns.ID) iter.Seq2[Turn, error] {
	return c.turns(ctx, "compaction.list", session, "", func(after string) any { return ListCompactions{Page: Page{After: after}} })
}

// Compaction is compaction.get.
func (c *Client) Compaction(ctx context.Context, session, id turns.ID) (*Turn, error) {
	out := new(Turn)
	return out, c.Call(ctx, "compaction.get", session, GetTurn{ID: id}, out)
}

func (c *Client) turns(ctx context.Context, verb string, session turns.ID, after string, page func(after string) any) iter.Seq2[Turn, error] {
	return func(yield func(Turn, error) bool) {
		for after := after; ; {
			var out TurnList
			if err := c.Call(ctx, verb, session, page(after), &out); err != nil {
				yield(Turn{}, err)
				return
			}
			for _, t := range out.Turns {
				if !yield(t, nil) {
					return
				}
			}
			if after = out.Next; after == "" {
				return
			}
		}
	}
}

// Context is context.get; the pages of one context are put together.
func (c *Client) Context(ctx context.Context, session turns.ID, r GetContext) (*Context, error) {
	return c.context(ctx, "context.get", session, func(after string) any { r.After = after; return r })
}

// Overflow is context.overflow; the pages of the context are put together.
func (c *Client) Overflow(ctx context.Context, session turns.ID, r Overflow) (*Context, error) {
	ensure(&r.ID)
	return c.context(ctx, "context.overflow", session, func(after string) any { r.After = after; return r })
}

func (c *Client) context(ctx context.Context, verb string, session turns.ID, page func(after string) any) (*Context, error) {
	var out *Context
	var partial strings.Builder
	tries := 0
	again := func() bool { tries++; return tries < 4 }
	for next := ""; ; {
		p := new(Context)
		if err := c.Call(ctx, verb, session, page(next), p); err != nil {
			return nil, err
		}
		if partial.WriteString(p.Partial); p.PartialEnd {
			p.Messages = append(p.Messages, turns.Raw(partial.String()))
			partial.Reset()
		}
		if next = p.Next; out == nil {
			out = p
		} else if p.Fingerprint != out.Fingerprint {
			// The session's settings changed between two pages.
			if out, next = nil, ""; !again() {
				return nil, Errorf(Conflict, nil, "the context kept changing while it was read")
			}
			partial.Reset()
			continue
		} else {
			out.Messages, out.Sources = append(out.Messages, p.Messages...), append(out.Sources, p.Sources...)
		}
		if next == "" {
			out.Next, out.Partial, out.PartialEnd = "", "", false
			return out, nil
		}
	}
}

// Compact is compaction.run.
func (c *Client) Compact(ctx context.Context, session turns.ID, r RunCompaction) (*CompactionRun, error) {
	if !r.DryRun {
		ensure(&r.ID)
	}
	out := new(CompactionRun)
	return out, c.Call(ctx, "compaction.run", session, r, out)
}

// Take is compaction.take; the pages of the content are put together.
func (c *Client) Take(ctx context.Context, session turns.ID, r TakeCompaction) (*TakenCompaction, error) {
	out := new(TakenCompaction)
	for {
		page := new(TakenCompaction)
		if err := c.Call(ctx, "compaction.take", session, r, page); err != nil {
			return nil, err
		}
		if out.Plan == "" {
			*out = *page
		} else {
			out.Content += page.Content
		}
		if r.After = page.Next; r.After == "" {
			out.Next = ""
			return out, nil
		}
	}
}

// Submit is compaction.submit.
func (c *Client) Submit(ctx context.Context, session turns.ID, r SubmitCompaction) (*Turn, error) {
	ensure(&r.ID)
	out := new(Turn)
	return out, c.Call(ctx, "compaction.submit", session, r, out)
}

// Record is compaction.record.
func (c *Client) Record(ctx context.Context, session turns.ID, r RecordCompaction) (*Turn, error) {
	ensure(&r.ID)
	out := new(Turn)
	return out, c.Call(ctx, "compaction.record", session, r, out)
}

// BeginFlush is flush.begin.
func (c *Client) BeginFlush(ctx context.Context, session turns.ID, r BeginFlush) (*BegunFlush, error) {
	ensure(&r.ID)
	out := new(BegunFlush)
	return out, c.Call(ctx, "flush.begin", session, r, out)
}

// DoneFlush is flush.done.
func (c *Client) DoneFlush(ctx context.Context, session turns.ID, r DoneFlush) (*EndedFlush, error) {
	ensure(&r.ID)
	out := new(EndedFlush)
	return out, c.Call(ctx, "flush.done", session, r, out)
}

// Fork is fork.create.
func (c *Client) Fork(ctx context.Context, session turns.ID, r CreateFork) (*Session, error) {
	ensure(&r.ID)
	out := new(Session)
	return out, c.Call(ctx, "fork.create", session, r, out)
}

// Path is lineage.path, page after page, root first.
func (c *Client) Path(ctx context.Context, session turns.ID, r GetPath) iter.Seq2[PathTurn, error] {
	return func(yield func(PathTurn, error) bool) {
		for {
			var out Path
			if err := c.Call(ctx, "lineage.path", session, r, &out); err != nil {
				yield(PathTurn{}, err)
				return
			}
			for _, t := range out.Turns {
				if !yield(t, nil) {
					return
				}
			}
			if r.After = out.Next; r.After == "" {
				return
			}
		}
	}
}

// Base is lineage.base.
func (c *Client) Base(ctx context.Context, session turns.ID, r GetBase) (*Base, error) {
	out := new(Base)
	return out, c.Call(ctx, "lineage.base", session, r, out)
}

// Tree is lineage.tree; its pages are put together.
func (c *Client) Tree(ctx context.Context, session turns.ID) (*Tree, error) {
	out := new(Tree)
	for r := (GetTree{}); ; {
		var page Tree
		if err := c.Call(ctx, "lineage.tree", session, r, &page); err != nil {
			return nil, err
		}
		out.Root = page.Root
		out.Sessions = append(out.Sessions, page.Sessions...)
		if r.After = page.Next; r.After == "" {
			return out, nil
		}
	}
}

// Export is session.export, record after record.
func (c *Client) Export(ctx context.Context, session turns.ID) iter.Seq2[ExportRecord, error] {
	return func(yield func(ExportRecord, error) bool) {
		for r := (ExportSession{}); ; {
			var page Exported
			if err := c.Call(ctx, "session.export", session, r, &page); err != nil {
				yield(ExportRecord{}, err)
				return
			}
			for _, x := range page.Records {
				if !yield(x, nil) {
					return
				}
			}
			if r.After = page.Next; r.After == "" {
				return
			}
		}
	}
}

// Import is session.import of one batch of records.
func (c *Client) Import(ctx context.Context, records []ExportRecord) (*Imported, error) {
	out := new(Imported)
	return out, c.Call(ctx, "session.import", turns.ID{}, ImportRecords{records}, out)
}

// Policies is policy.list.
func (c *Client) Policies(ctx context.Context) ([]PolicyInfo, error) {
	var out PolicyList
	err := c.Call(ctx, "policy.list", turns.ID{}, struct{}{}, &out)
	return out.Policies, err
}

// Policy is policy.get.
func (c *Client) Policy(ctx context.Context, r GetPolicy) (*PolicyInfo, error) {
	out := new(PolicyInfo)
	return out, c.Call(ctx, "policy.get", turns.ID{}, r, out)
}

// PutBlob is blob.put.
func (c *Client) PutBlob(ctx context.Context, r PutBlob) (*BlobInfo, error) {
	out := new(BlobInfo)
	return out, c.Call(ctx, "blob.put", turns.ID{}, r, out)
}

// Blob is the whole content of a blob, by as many blob.get as it takes.
func (c *Client) Blob(ctx context.Context, session turns.ID, digest turns.Hash) ([]byte, error) {
	var all []byte
	for r := (GetBlob{Session: session, Digest: digest}); ; {
		var page BlobData
		if err := c.Call(ctx, "blob.get", turns.ID{}, r, &page); err != nil {
			return nil, err
		}
		if all = append(all, page.Data...); page.Next == 0 {
			return all, nil
		}
		r.Offset = page.Next
	}
}

// Verify is audit.verify.
func (c *Client) Verify(ctx context.Context, sessions ...turns.ID) (*Verified, error) {
	out := new(Verified)
	return out, c.Call(ctx, "audit.verify", turns.ID{}, Verify{sessions}, out)
}
