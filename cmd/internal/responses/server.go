package responses

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"nexus/cmd/internal/provider"
	"nexus/cmd/internal/responses/place"
	"nexus/cmd/internal/responses/run"
	"nexus/cmd/internal/responses/socket"
	"nexus/cmd/internal/responses/stream"
	"nexus/cmd/internal/responses/window"
	"nexus/cmd/internal/responses/wire"
	"nexus/cmd/internal/web"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/seal"
)

// Config says what a server needs.
type Config struct {
	// Provider returns who answers for a model, and its name there. An error is told to the
	// client with 404 model_not_found.
	Provider func(model string) (client provider.Client, upstream string, err error)
	// Models lists the models for GET /v1/models; nil: none.
	Models func() []string
	// Budget returns how many tokens the input of a model may have; false: nobody knows.
	Budget func(model string) (tokens uint64, ok bool)
	// Client returns a client of the service that acts for a caller.
	Client func(web.Caller) *client.Client
	// Spool is the folder of the files of answers that are not stored yet.
	Spool string
	// Key returns the ledger's own key, under which compaction items and the files are sealed.
	// nil: there are no items, and nobody reads a file once the process ended.
	Key    func() (seal.Key, error)
	Logger *slog.Logger // nil: silent
	Now    func() time.Time

	MaxBody        int64         // bytes of a request's body; 0: 32 MiB
	BodyProgress   time.Duration // for each 64 KiB of a body; 0: 10 s
	MaxGenerations int           // of one agent at a time; 0: 64
	KeepAlive      time.Duration // between two signs of life of a stream without events; 0: 15 s
	Memory         int64         // bytes of all requests that are read or under way; one agent has half at most; 0: 256 MiB
	Streams        int64         // bytes of memory that all responses under way may use; one agent has half at most; 0: 256 MiB
	SpoolBytes     int64         // bytes of the files, twice Streams or more; 0: 512 MiB
	SpoolAge       time.Duration // how long the file of a response without an answer is kept; 0: 30 days
	MaxAnswer      int64         // bytes of the texts and arguments of one answer; 0: 4 MiB

	// After returns a channel that gets a value after d, and what frees it. nil: the clock's.
	After func(d time.Duration) (<-chan time.Time, func() bool)
}

// Bounds of a request.
const (
	defaultMaxBody     = 32 << 20
	defaultProgress    = 10 * time.Second
	defaultGenerations = 64
	defaultKeepAlive   = 15 * time.Second
	defaultMemory      = 256 << 20
	defaultStreams     = 256 << 20
	defaultAnswer      = 4 << 20
	maxMessage         = 8 << 20 // of a WebSocket
)

// Server serves the responses of all agents. Safe for concurrent use.
type Server struct {
	cfg     Config
	sockets *socket.Server
	log     *slog.Logger
	room    *room
	spools  *stream.Spools
	places  *place.Service
	runs    *run.Runner
	keeper  sync.WaitGroup // removes old files

	mu    sync.Mutex
	busy  map[[2]string]int // generations by tenant and agent
	locks map[turns.ID]*lock
}

// New makes a server. It creates the folder of its files.
func New(c Config) (*Server, error) {
	if c.Provider == nil || c.Client == nil || c.Spool == "" {
		return nil, errors.New("responses: Provider, Client and Spool are needed")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.MaxBody == 0 {
		c.MaxBody = defaultMaxBody
	}
	if c.BodyProgress == 0 {
		c.BodyProgress = defaultProgress
	}
	if c.MaxGenerations == 0 {
		c.MaxGenerations = defaultGenerations
	}
	if c.KeepAlive == 0 {
		c.KeepAlive = defaultKeepAlive
	}
	if c.After == nil {
		c.After = func(d time.Duration) (<-chan time.Time, func() bool) {
			t := time.NewTimer(d)
			return t.C, t.Stop
		}
	}
	if c.Memory == 0 {
		c.Memory = defaultMemory
	}
	if c.Streams == 0 {
		c.Streams = defaultStreams
	}
	if c.MaxAnswer == 0 {
		c.MaxAnswer = defaultAnswer
	}
	if c.SpoolBytes == 0 {
		c.SpoolBytes = stream.DefaultSpoolBytes
	}
	if c.SpoolAge == 0 {
		c.SpoolAge = stream.DefaultSpoolAge
	}
	key := c.Key
	if key == nil {
		var own seal.Key
		if _, err := rand.Read(own[:]); err != nil {
			return nil, err
		}
		key = func() (seal.Key, error) { return own, nil }
	}
	files, err := stream.OpenSpools(c.Spool, key, c.SpoolBytes, c.SpoolAge, c.Now)
	if err != nil {
		return nil, err
	}
	id, err := stream.ReadServerID(c.Spool)
	if err != nil {
		return nil, err
	}
	runs := run.New(run.Config{Log: c.Logger, Now: c.Now, After: c.After, KeepAlive: c.KeepAlive, MaxAnswer: c.MaxAnswer, Streams: c.Streams})
	d := &Server{cfg: c, log: c.Logger, room: newRoom(c.Memory), runs: runs, spools: files, busy: make(map[[2]string]int), locks: make(map[turns.ID]*lock)}
	d.places = &place.Service{ID: id, Budget: c.Budget, Now: c.Now, Log: c.Logger, Base: runs.Base(), Lock: d.lock, Find: d.earlier}
	d.keeper.Go(d.expireFiles(runs.Base()))
	d.sockets = socket.New(socket.Config{MaxMessage: min(c.MaxBody, maxMessage), Expired: socket.Limit.Event(), TooLarge: socket.Large.Event(), NoRoom: failure(errNoRoom).Event(), Take: d.room.take, Give: d.room.give})
	if c.Key != nil {
		d.places.Sealer = window.Sealer{Key: c.Key}
	}
	return d, nil
}

// Usage is what the responses of a server use.
type Usage struct {
	Memory  int64  // bytes of those under way
	Evicted uint64 // how many ended for want of memory, since the start
	Spool   int64  // bytes of the folder
}

// Usage returns what the server uses now. Safe for concurrent use.
func (d *Server) Usage() (u Usage) {
	u.Memory, u.Evicted = d.runs.Usage()
	u.Spool = d.spools.Size()
	return u
}

// EraseFiles is [Server.Erase] for the folder of responses of a daemon that serves none.
func EraseFiles(dir string, session turns.ID) (files int, err error) {
	return stream.EraseFiles(dir, session)
}

// Erase removes what is kept of responses of a session beside the ledger, and returns how many files are removed now.
// What an answer that is being made has goes when that ends: done is false until then.
func (d *Server) Erase(session turns.ID) (files int, done bool, err error) {
	return d.spools.Erase(session)
}

// expireFiles returns what removes files that are too old, until ctx ends.
func (d *Server) expireFiles(ctx context.Context) func() {
	return func() {
		hourly := time.NewTicker(time.Hour)
		defer hourly.Stop()
		for {
			select {
			case <-hourly.C:
				if err := d.spools.Expire(); err != nil {
					d.log.Warn("responses: old files", "err", err)
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// Close ends the calls of models that are under way, and waits until they ended or ctx
// does. Their responses are what a kill of the process would leave.
func (d *Server) Close(ctx context.Context) error {
	d.runs.Close()
	if err := d.sockets.Close(ctx); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() { d.runs.Wait(); d.keeper.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Handler serves /v1/responses and what is below it, and /v1/models. It stands behind the
// guard of the listener: a request without a caller is refused.
func (d *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	d.routes(mux)
	sites := http.NewCrossOriginProtection() // a page of another site can't make a browser call it
	return sites.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := web.CallerOf(r.Context())
		switch {
		case !ok:
			wire.Refuse(w, &wire.Error{Status: http.StatusUnauthorized, Type: wire.InvalidRequest, Code: "invalid_api_key", Message: "A token of this server is needed: Authorization: Bearer ….", Final: true})
		case c.Agent == api.Operator:
			wire.Refuse(w, &wire.Error{Status: http.StatusForbidden, Type: wire.InvalidRequest, Code: "insufficient_permissions", Message: "The operator has no responses of its own; use the token of an agent.", Final: true})
		case c.Scope < web.Write && r.Method != http.MethodGet && r.Method != http.MethodHead, c.Scope < web.Read:
			wire.Refuse(w, &wire.Error{Status: http.StatusForbidden, Type: wire.InvalidRequest, Code: "insufficient_permissions", Message: "The token's scope is " + c.Scope.String() + "; this needs write.", Final: true})
		default:
			mux.ServeHTTP(w, r)
		}
	}))
}

func (d *Server) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/responses", d.getSocket)
	mux.HandleFunc("POST /v1/responses/compact", d.postCompact)
	mux.HandleFunc("POST /v1/responses/input_tokens", d.postInputTokens)
	mux.HandleFunc("POST /v1/conversations", d.postConversation)
	mux.HandleFunc("GET /v1/conversations/{id}", d.onConversation(d.getConversation))
	mux.HandleFunc("POST /v1/conversations/{id}", d.onConversation(d.setConversation))
	mux.HandleFunc("DELETE /v1/conversations/{id}", d.onConversation(d.deleteConversation))
	mux.HandleFunc("POST /v1/conversations/{id}/items", d.onConversation(d.postItems))
	mux.HandleFunc("GET /v1/conversations/{id}/items", d.onConversation(d.getItems))
	mux.HandleFunc("GET /v1/conversations/{id}/items/{item}", d.onConversation(d.getItem))
	mux.HandleFunc("DELETE /v1/conversations/{id}/items/{item}", d.onConversation(d.deleteItem))
	mux.HandleFunc("POST /v1/responses", d.post)
	mux.HandleFunc("GET /v1/responses/{id}", d.get)
	mux.HandleFunc("DELETE /v1/responses/{id}", d.delete)
	mux.HandleFunc("GET /v1/responses/{id}/input_items", d.inputItems)
	mux.HandleFunc("POST /v1/responses/{id}/cancel", d.postCancel)
	mux.HandleFunc("GET /v1/models", d.models)
	mux.HandleFunc("GET /v1/models/{id...}", d.model)
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		wire.Refuse(w, &wire.Error{Status: http.StatusNotFound, Type: wire.NotFoundType, Code: "unknown_url", Message: "Unknown request: " + wire.Clip(r.Method+" "+r.URL.Path) + "."})
	})
}

// caller is who sent r, known since [Server.Handler] let it pass.
func caller(r *http.Request) web.Caller {
	c, _ := web.CallerOf(r.Context())
	return c
}

func (d *Server) client(c web.Caller) *client.Client { return d.cfg.Client(c).Within(place.CallTime) }

// readBody reads the body of a request. It is bounded, also when it is decompressed, and
// each piece of it must come in time: see [paced].
//
// Its bytes are taken from the server's room until done is called, which is never nil.
func (d *Server) readBody(w http.ResponseWriter, r *http.Request) (_ []byte, done func(), err error) {
	t := &taking{room: d.room, owner: ownerOf(caller(r))}
	b, err := d.readInto(t, w, r)
	return b, sync.OnceFunc(t.done), err
}

func (d *Server) readInto(t *taking, w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return nil, &wire.Error{Status: http.StatusUnsupportedMediaType, Type: wire.InvalidRequest, Code: "unsupported_media_type", Message: "The Content-Type is application/json.", Final: true}
	}
	rc := http.NewResponseController(w)
	body := io.Reader(&paced{r: http.MaxBytesReader(w, r.Body, d.cfg.MaxBody), extend: func() { _ = rc.SetReadDeadline(time.Now().Add(d.cfg.BodyProgress)) }})
	switch enc := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding"))); enc {
	case "", "identity":
	case "zstd":
		z, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(d.cfg.MaxBody)), zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		body = z
	default:
		return nil, &wire.Error{Status: http.StatusUnsupportedMediaType, Type: wire.InvalidRequest, Code: "unsupported_encoding", Message: "The Content-Encoding is zstd or none.", Final: true}
	}
	t.r = body
	b, err := io.ReadAll(io.LimitReader(t, d.cfg.MaxBody+1))
	tooLarge := (*http.MaxBytesError)(nil)
	switch {
	case int64(len(b)) > d.cfg.MaxBody, errors.As(err, &tooLarge), errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded):
		return nil, &wire.Error{Status: http.StatusRequestEntityTooLarge, Type: wire.InvalidRequest, Code: "request_too_large", Message: "The body is too large.", Final: true}
	case errors.Is(err, errNoRoom):
		return nil, err
	case err != nil:
		return nil, &wire.Error{Status: http.StatusBadRequest, Type: wire.InvalidRequest, Code: "invalid_body", Message: "The body did not come whole, or not in time.", Final: true}
	}
	_ = rc.SetReadDeadline(time.Time{}) // else the server takes its end for that of the connection
	return b, nil
}

// pieceBytes is how much of a body has to come in its time.
const pieceBytes = 64 << 10

// paced gives each piece of a body its time, not each read: a client that sends a byte now
// and then would hold a connection for as long as it likes.
type paced struct {
	r      io.Reader
	left   int // bytes until the next piece begins
	extend func()
}

func (p *paced) Read(b []byte) (int, error) {
	if p.left <= 0 {
		p.left = pieceBytes
		p.extend()
	}
	n, err := p.r.Read(b[:min(len(b), p.left)])
	p.left -= n
	return n, err
}

// admit counts a generation of c until release is called.
func (d *Server) admit(c web.Caller) (release func(), err error) {
	who := [2]string{c.Tenant, c.Agent}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[who] >= d.cfg.MaxGenerations {
		return nil, &wire.Error{Status: http.StatusTooManyRequests, Type: wire.TooMany, Code: "rate_limit_exceeded", Message: "Too many responses of this agent are under way.", RetryAfter: time.Second}
	}
	d.busy[who]++
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.busy[who]--; d.busy[who] == 0 {
			delete(d.busy, who)
		}
	}), nil
}

// lock is held by the request that begins the response of a key, or the next one of a
// session.
type lock struct {
	sem  chan struct{}
	uses int
}

// lock waits until no other request of this server holds the lock of a key or a session.
func (d *Server) lock(ctx context.Context, id turns.ID) (unlock func(), err error) {
	d.mu.Lock()
	l := d.locks[id]
	if l == nil {
		l = &lock{sem: make(chan struct{}, 1)}
		d.locks[id] = l
	}
	l.uses++
	d.mu.Unlock()
	leave := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if l.uses--; l.uses == 0 {
			delete(d.locks, id)
		}
	}
	select {
	case l.sem <- struct{}{}:
		return func() { <-l.sem; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// model is a model as a client reads it.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func (d *Server) models(w http.ResponseWriter, _ *http.Request) {
	list := []model{}
	if d.cfg.Models != nil {
		for _, m := range d.cfg.Models() {
			list = append(list, model{m, "model", 0, "nexus"})
		}
	}
	wire.Reply(w, http.StatusOK, struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", list})
}

func (d *Server) model(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if _, _, err := d.cfg.Provider(id); err != nil {
		wire.Refuse(w, noModel(err))
		return
	}
	wire.Reply(w, http.StatusOK, model{id, "model", 0, "nexus"})
}

// noModel is the refusal of a model that nobody answers for.
func noModel(err error) *wire.Error {
	return &wire.Error{Status: http.StatusNotFound, Type: wire.InvalidRequest, Code: wire.CodeNoModel, Message: err.Error(), Param: "model", Final: true}
}
