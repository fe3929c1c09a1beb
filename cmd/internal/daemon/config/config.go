package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nexus/cmd/internal/engine/cache"
	"nexus/cmd/internal/provider"
	"nexus/compactor"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream"
	"nexus/turns"

	"nexus/turns/tokens"
)

// Config says how a daemon runs. The zero value of each field is its default.
type Config struct {
	// Listen is host:port of the embedded NATS server; port 0 picks one.
	// Default 127.0.0.1:4222. Not used with NATS.
	Listen string `toml:"listen" env:"LISTEN"`
	// HTTP is host:port of health and metrics, or "off". Default 127.0.0.1:8422. An
	// address that is not loopback needs Token, TLSCert and TLSKey, and speaks HTTPS.
	HTTP string `toml:"http" env:"HTTP"`
	// HTTPHosts are names by which HTTP is reached beside the local ones and the host of
	// HTTP, separated by commas, without ports. Requests for other hosts are refused.
	HTTPHosts string `toml:"http_hosts" env:"HTTP_HOSTS"`
	// Token is who may use HTTP. Without rows, on loopback, everybody is the agent main of
	// the tenant default.
	Token []TokenRow `toml:"token" env:"-"`
	// Auth is "on" (clients of the embedded server connect as a user, with its key)
	// or "off" (whoever connects may do everything; on loopback only). Default on.
	// Not used with NATS.
	Auth string `toml:"auth" env:"AUTH"`
	// TLSCert and TLSKey are PEM files for the embedded NATS server, and for HTTP beyond
	// loopback. An address that is not loopback needs them.
	TLSCert string `toml:"tls_cert" env:"TLS_CERT"`
	TLSKey  string `toml:"tls_key" env:"TLS_KEY"`
	// User is users of the embedded server beside the two whose keys the daemon makes.
	User []UserRow `toml:"user" env:"-"`
	// Agent is what agents may do that no request can take. An agent without a row has
	// none of it.
	Agent []AgentRow `toml:"agent" env:"-"`
	// Data is the folder of stream, projections and keys. The programs have a default.
	Data string `toml:"data" env:"DATA"`
	// NATS is the URL of an external server or cluster; "" runs one inside.
	NATS string `toml:"nats" env:"NATS"`
	// NATSService is the URL that the service connects with; "": NATS. With a user
	// of another account, clients can't reach the streams. Not used without NATS.
	NATSService string `toml:"nats_service" env:"NATS_SERVICE"`
	// Replicas of the stream on an external cluster: 1, 3 or 5. Default 3 with
	// NATS, 1 without.
	Replicas int `toml:"replicas" env:"REPLICAS"`
	// Create allows a daemon to create the streams on an external server when
	// they are missing. An embedded server's are created on the first start only.
	Create bool `toml:"create" env:"CREATE"`
	// Seal is "on" (bodies are encrypted under a key of each session) or "off"
	// (for those who want to read the stream with plain tools). Default on with
	// the embedded server, off with NATS: a cluster needs a shared key store,
	// and there is none yet.
	Seal string `toml:"seal" env:"SEAL"`
	// Plaintext says that bodies may be stored in the clear on an external server,
	// where whoever reads its streams or disks reads the conversations. NATS needs it,
	// as long as Seal has no shared key store. Not used without NATS.
	Plaintext bool `toml:"plaintext" env:"PLAINTEXT"`
	// MaxStore bounds the stream's files, in bytes. 0: 45 % of what is free and
	// what the folder takes already: the projections hold every event too.
	MaxStore int64 `toml:"max_store" env:"MAX_STORE"`
	// Scrub is the time within which everything stored is read once and compared with
	// its checksums, such as "24h", or "off". Default 24h. Not used with NATS.
	Scrub string `toml:"scrub" env:"SCRUB"`
	// CollectAfter is the grace time after which a blob that no event names is collected,
	// such as "168h", at least an hour, or "off". Default 168h. Not used with NATS.
	CollectAfter string `toml:"collect_after" env:"COLLECT_AFTER"`
	// Files is the folder of the files that policies ask for, or "off". Default: files
	// in Data. They hold plain text.
	Files string `toml:"files" env:"FILES"`
	// Search is "on" (words of everything that is stored are indexed in the folder search of
	// Data, in the clear) or "off". Default on.
	Search string `toml:"search" env:"SEARCH"`
	// CacheBytes is the memory of all caches together, in bytes. Default 256 MiB, at least 16
	// MiB. The index of words has a quarter as much for itself, at least 16 MiB. The metric nexus_cache_bytes shows what each keeps.
	CacheBytes int64 `toml:"cache_bytes" env:"CACHE_BYTES"`
	// ResponsesMemory is the memory of all responses of /v1 that are under way, in bytes: what
	// models are asked, what came of their answers, and what slow clients have not read. Where
	// the responses of an agent grow over its part, the largest ends. Default 256 MiB, at least
	// 16 MiB.
	ResponsesMemory int64 `toml:"responses_memory" env:"RESPONSES_MEMORY"`
	// SpoolBytes bounds the folder spool of Data, which has the events of responses without a
	// stored answer, in bytes. Default twice ResponsesMemory, which is the least.
	SpoolBytes int64 `toml:"spool_bytes" env:"SPOOL_BYTES"`
	// SpoolAge is how long the events of a response that failed, was cancelled or was lost are
	// kept, such as "720h", at least a minute. Default 720h.
	SpoolAge string `toml:"spool_age" env:"SPOOL_AGE"`
	// LogLevel is debug, info, warn or error. Default info.
	LogLevel string `toml:"log_level" env:"LOG_LEVEL"`

	// Summarizer is the model that writes summaries, as PROVIDER/MODEL: the name of a row of
	// Providers, and of one of its models. "": none is asked. The daemon tries it first, and the
	// extractive summarizer if it fails.
	Summarizer string `toml:"summarizer" env:"SUMMARIZER"`
	// SummarizerSpendLimit is the most that summaries may cost in a UTC day, in US
	// dollars, by the price of the model table; then the extract takes their place.
	// 0: no limit. It is counted in memory: a restart begins at nothing.
	SummarizerSpendLimit float64 `toml:"summarizer_spend_limit" env:"SUMMARIZER_SPEND_LIMIT"`

	// Model has rows of the model table: the limits of sessions that name a model and
	// state no window. A row here replaces the row of nexusd with the same name.
	Model []ModelRow `toml:"model" env:"-"`

	// Checkpoint says how the log of hashes is signed, and where the checkpoints go. Not used with NATS.
	Checkpoint CheckpointTable `toml:"checkpoint" env:"-"`

	// Watch names folders of transcripts to follow. Without one, nothing is followed.
	Watch WatchTable `toml:"watch" env:"-"`
	// Follow follows them until its context ends, as a client of the agent that Watch
	// names; nil: nothing is followed. nexusd makes it of Watch.
	Follow func(context.Context, *client.Client) error `toml:"-" env:"-"`
	// Unfollow has what Follow keeps beside the ledger name a session that was erased no more; done is false
	// until it does. It can be called again. nil: it keeps nothing.
	Unfollow func(session turns.ID) (done bool, err error) `toml:"-" env:"-"`

	// Providers are the models behind /v1. Of the rows whose patterns match a model, the
	// first serves it.
	Providers []provider.Row `toml:"provider" env:"-"`

	// Models are the summarizers that are tried before the extract; see
	// [Config.Summarizer], which nexusd makes them of.
	Models []compactor.Tier `toml:"-" env:"-"`
	// ModelTiers returns the summarizers of a model that a policy or a session names; nil if
	// there is none, or if the function is nil.
	ModelTiers func(model string) []compactor.Tier `toml:"-" env:"-"`
	// Provider returns who answers for a model of /v1, and its name there; nil: nobody.
	Provider func(model string) (client provider.Client, upstream string, err error) `toml:"-" env:"-"`
	// ProviderModels lists the models of GET /v1/models; nil: none.
	ProviderModels func() []string `toml:"-" env:"-"`
	// Logger takes the daemon's log; nil: silent. Turn content is never logged.
	Logger *slog.Logger `toml:"-" env:"-"`
	// PagesOnly has HTTP serve the explorer and /healthz alone: nothing that is open to every
	// program of this machine.
	PagesOnly bool `toml:"-" env:"-"`
	// Vanished lists transcripts that are gone from their agents' folders, for the explorer; nil:
	// nobody watches any.
	Vanished func() ([]VanishedFile, error) `toml:"-" env:"-"`
	// Version is reported by the service.
	Version string `toml:"-" env:"-"`
}

// DefaultCacheBytes is what CacheBytes is if it is 0.
const DefaultCacheBytes = cache.DefaultBytes

// minCache is the smallest budget of the caches: a page of a context, a preamble
// and the parts of a large turn fit side by side.
const minCache = 16 << 20

// ModelRow is a row of the model table in a configuration file: sizes in
// tokens, prices in US dollars a million tokens.
type ModelRow struct {
	Name           string  `toml:"name"`
	ContextWindow  uint64  `toml:"context_window"`
	OutputReserve  uint64  `toml:"output_reserve"`
	SeparateOutput bool    `toml:"separate_output"` // the answer takes nothing of the window
	Input          float64 `toml:"price_input"`
	Output         float64 `toml:"price_output"`
	CacheRead      float64 `toml:"price_cache_read"`
	CacheWrite     float64 `toml:"price_cache_write"`
	CacheHour      float64 `toml:"price_cache_write_1h"` // of what stays in the cache for an hour
}

// checkSummarizer lists the faults of c's summarizer.
func (c Config) checkSummarizer(bad func(format string, args ...any)) {
	if row, model, ok := strings.Cut(c.Summarizer, "/"); c.Summarizer != "" && (!ok || row == "" || model == "") {
		bad("summarizer: %.60q is not PROVIDER/MODEL: the name of a [[provider]] row, and of one of its models", c.Summarizer)
	}
	if !(c.SummarizerSpendLimit >= 0 && c.SummarizerSpendLimit < 1e9) {
		bad("summarizer_spend_limit: %v is not a number of dollars", c.SummarizerSpendLimit)
	} else if c.SummarizerSpendLimit > 0 && c.Summarizer == "" {
		bad("summarizer_spend_limit: there is no summarizer that it could limit; set summarizer = \"PROVIDER/MODEL\" too")
	}
}

// ModelTable returns the model table: the rows of c before those that come with nexusd.
func (c Config) ModelTable() tokens.Models { return tokens.KnownModels().With(c.rows()...) }

// FindModel returns the row of a model in the table, by its name.
func (c Config) FindModel(name string) (tokens.Model, bool) { return c.ModelTable().Find(name) }

func (c Config) rows() (out []tokens.Model) {
	micros := func(dollars float64) uint64 { return uint64(math.Round(max(0, dollars) * 1e6)) }
	for _, r := range c.Model {
		out = append(out, tokens.Model{
			Name: r.Name, ContextWindow: r.ContextWindow, OutputReserve: r.OutputReserve, SeparateOutput: r.SeparateOutput,
			Price: tokens.Price{Input: micros(r.Input), Output: micros(r.Output), CacheRead: micros(r.CacheRead), CacheWrite: micros(r.CacheWrite), CacheHour: micros(r.CacheHour)},
		})
	}
	return out
}

// ScrubInterval is Scrub as a duration; 0: off.
func (c Config) ScrubInterval() (time.Duration, error) {
	if c.Scrub == "off" {
		return 0, nil
	}
	d, err := time.ParseDuration(c.Scrub)
	if err == nil && d < time.Minute {
		err = fmt.Errorf("%v is less than a minute", d)
	}
	return d, err
}

func (c Config) SpoolTime() (time.Duration, error) {
	d, err := time.ParseDuration(c.SpoolAge)
	if err == nil && d < time.Minute {
		err = fmt.Errorf("%v is less than a minute", d)
	}
	return d, err
}

// WithDefaults is c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	def(&c.Listen, "127.0.0.1:4222")
	def(&c.HTTP, "127.0.0.1:8422")
	def(&c.LogLevel, "info")
	def(&c.Scrub, "24h")
	def(&c.CollectAfter, "168h")
	def(&c.Search, "on")
	def(&c.SpoolAge, "720h")
	if c.ResponsesMemory == 0 {
		c.ResponsesMemory = 256 << 20
	}
	if c.SpoolBytes == 0 {
		c.SpoolBytes = 2 * c.ResponsesMemory
	}
	def(&c.Files, filepath.Join(c.Data, "files"))
	def(&c.Version, "0.0.0-dev")
	if c.NATS == "" {
		def(&c.Seal, "on")
	} else {
		def(&c.Seal, "off")
	}
	if c.Replicas == 0 {
		c.Replicas = 1
		if c.NATS != "" {
			c.Replicas = 3
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate lists every fault of c.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var faults []error
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		bad("listen: %q is not host:port", c.Listen)
	}
	if _, _, err := net.SplitHostPort(c.HTTP); err != nil && c.HTTP != "off" {
		bad("http: %q is neither host:port nor off", c.HTTP)
	}
	for name, list := range map[string]string{"nats": c.NATS, "nats_service": c.NATSService} {
		if _, err := Servers(list); list != "" && err != nil {
			bad("%s: %w", name, err)
		}
	}
	if c.NATS == "" && c.NATSService != "" {
		bad("nats_service: it is for an external server (nats)")
	}
	if c.Replicas != 1 && c.Replicas != 3 && c.Replicas != 5 {
		bad("replicas: %d is not 1, 3 or 5", c.Replicas)
	}
	if c.NATS == "" && c.Replicas != 1 {
		bad("replicas: the embedded server keeps one copy; %d need a cluster (nats)", c.Replicas)
	}
	if c.Seal != "on" && c.Seal != "off" {
		bad("seal: %q is neither on nor off", c.Seal)
	}
	if c.Search != "on" && c.Search != "off" {
		bad("search: %q is neither on nor off", c.Search)
	}
	switch {
	case c.NATS == "" && c.Plaintext:
		bad("plaintext: it is for an external server (nats); seal = \"off\" leaves bodies of the embedded one in the clear")
	case c.NATS != "" && !c.Plaintext && c.Seal != "on":
		bad("plaintext: on an external server (nats) bodies are stored in the clear: whoever reads its streams or disks reads the conversations; --plaintext (NEXUS_PLAINTEXT=true, plaintext = true) accepts that")
	}
	if c.NATS != "" && c.Seal == "on" {
		bad("seal: on an external server daemons would need a shared key store, and there is none yet")
	}
	if c.CacheBytes != 0 && c.CacheBytes < minCache {
		bad("cache_bytes: %d is below %d", c.CacheBytes, minCache)
	}
	if c.ResponsesMemory < minCache {
		bad("responses_memory: %d is below %d", c.ResponsesMemory, minCache)
	} else if least := 2 * c.ResponsesMemory; c.SpoolBytes < least {
		bad("spool_bytes: %d is below %d, twice responses_memory", c.SpoolBytes, least)
	}
	if _, err := c.SpoolTime(); err != nil {
		bad("spool_age: %q is no time of a minute or more, as 720h", c.SpoolAge)
	}
	if _, err := c.ScrubInterval(); err != nil {
		bad("scrub: %q is neither a time of a minute or more, as 24h, nor off", c.Scrub)
	}
	if _, err := c.CollectGrace(); err != nil {
		bad("collect_after: %q is neither a time of an hour or more, as 168h, nor off", c.CollectAfter)
	}
	if c.MaxStore < 0 {
		bad("max_store: %d is negative", c.MaxStore)
	}
	for i, r := range c.Model {
		prices := []float64{r.Input, r.Output, r.CacheRead, r.CacheWrite, r.CacheHour}
		switch {
		case r.Name == "":
			bad("model: row %d has no name", i+1)
		case r.ContextWindow < 1000 || r.OutputReserve >= r.ContextWindow:
			bad("model %q: a window of %d tokens with %d for the answer", r.Name, r.ContextWindow, r.OutputReserve)
		case slices.Max(prices) > 1e6 || !(slices.Min(prices) >= 0):
			bad("model %q: a price is not a number of dollars", r.Name)
		}
	}
	c.checkSummarizer(bad)
	c.checkUsers(bad)
	c.checkAgents(bad)
	c.checkWatch(bad)
	c.checkCheckpoint(bad)
	c.checkWeb(bad)
	for _, err := range provider.Check(c.Providers) {
		bad("%w", err)
	}
	switch strings.ToLower(c.LogLevel) {
	case "debug", "info", "warn", "error":
	default:
		bad("log_level: %q is not debug, info, warn or error", c.LogLevel)
	}
	return errors.Join(faults...)
}

// collectAfter is CollectAfter as a duration; 0: off.
func (c Config) CollectGrace() (time.Duration, error) {
	if c.CollectAfter == "off" {
		return 0, nil
	}
	d, err := time.ParseDuration(c.CollectAfter)
	if err == nil && d < minCollectAfter {
		err = turns.ErrMalformed
	}
	return d, err
}

// WatchTable is the table [watch] of a configuration file: folders of transcripts, by the
// agent that writes them, which the daemon follows as "ledgerctl watch" does. The state is
// in the folder watch of Data.
type WatchTable struct {
	Claude []string `toml:"claude"`
	Codex  []string `toml:"codex"`
	Pi     []string `toml:"pi"`
	Gemini []string `toml:"gemini"`
	Tenant string   `toml:"tenant"` // whose the sessions are; default: "default"
	Agent  string   `toml:"agent"`  // default: "main"
}

// Folders returns the folders of each agent, by the agent's name.
func (w WatchTable) Folders() map[string][]string {
	return map[string][]string{"claude": w.Claude, "codex": w.Codex, "pi": w.Pi, "gemini": w.Gemini}
}

// checkWatch lists the faults of c's watch.
func (c Config) checkWatch(bad func(format string, args ...any)) {
	for _, name := range []string{cmp.Or(c.Watch.Tenant, "default"), cmp.Or(c.Watch.Agent, "main")} {
		if !turns.ValidName(name) {
			bad("watch: %.80q is not a tenant or an agent", name)
		}
	}
}

// Servers are the URLs of a comma-separated list. An error quotes nothing: a
// URL may hold a password.
func Servers(list string) (out []*url.URL, err error) {
	for i, s := range strings.Split(list, ",") {
		s = strings.TrimSpace(s)
		if !strings.Contains(s, "://") {
			s = "nats://" + s
		}
		u, err := url.Parse(s)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("URL %d of the list can't be read; it has the form nats://user:password@host:port", i+1)
		}
		out = append(out, u)
	}
	return out, nil
}

// WithoutUser returns the URLs of list without user, password and token, as it may be
// shown.
func WithoutUser(list string) string {
	us, err := Servers(list)
	if err != nil {
		return "?"
	}
	var out []string
	for _, u := range us {
		u.User = nil
		out = append(out, u.String())
	}
	return strings.Join(out, ",")
}

// minCollectAfter is the shortest grace time. The requests that put a blob and refer to it
// are done long before.
const minCollectAfter = jetstream.HoldTime

// VanishedFile is a transcript that is no longer where its agent wrote it. The ledger has what was
// stored of it.
type VanishedFile struct {
	File, Agent string
	Session     turns.ID // one of those that it held; zero: not known
	Kept, Lost  int64    // bytes that are in the ledger, and bytes that it had when it was read last and that are not
	Gone        time.Time
}
