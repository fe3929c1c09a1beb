package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/caarlos0/env/v11"
	"github.com/pelletier/go-toml/v2"

	"nexus/cmd/internal/daemon/config"
)

const usage = `Usage: nexusd [flags]
       nexusd repair [flags]
       nexusd restore FILE [flags]
       nexusd keys FROM --data DIR
       nexusd token NAME [flags]
       nexusd user new NAME [flags]

Runs the ledger: an embedded NATS server with JetStream, or --nats URL.
When it can serve it prints one JSON line with nats_url, http_url, data, and the
files of the credentials that it made.

  --listen HOST:PORT   NATS for clients, port 0 picks one
                       (default 127.0.0.1:4222)
  --auth on|off        whether clients of the embedded server need credentials
                       (default on; off on loopback only)
  --tls-cert FILE, --tls-key FILE
                       PEM; an address that is not loopback needs them
  --http HOST:PORT     /v1 (Open Responses), /mcp, /healthz, /readyz, /metrics,
                       or off (default 127.0.0.1:8422; beyond loopback it needs
                       [[token]] rows and a certificate)
  --http-hosts NAMES   further names by which HTTP is reached, with commas
  --data DIR           stream, projections and keys (default the user's data
                       folder: ~/.local/share/nexus)
  --nats URL           use an external NATS server or cluster instead
  --nats-service URL   what the service connects with, if not --nats: with
                       another account there, clients can't reach the streams
  --replicas N         copies on the cluster: 1, 3 or 5 (default 3 with --nats)
  --create             create the streams on the external server if they are
                       missing
  --seal on|off        encrypt bodies under a key of each session
                       (default on; off with --nats)
  --plaintext          accept that bodies are in the clear on the external
                       server: --nats needs it
  --max-store BYTES    most bytes of the stream's files
  --cache-bytes BYTES  memory of all caches together (default 268435456)
  --responses-memory BYTES
                       memory of all responses of /v1 under way (default
                       268435456)
  --spool-bytes BYTES  most bytes of the events of responses without a stored
                       answer, sealed (default twice --responses-memory)
  --spool-age TIME     how long those of a failed response are kept (default
                       720h)
  --scrub TIME         within which all that is stored is read and checked, or
                       off (default 24h)
  --collect-after TIME after which a blob that no event names is removed, or
                       off (default 168h)
  --files DIR          files that policies ask for, in plain text, or off
                       (default files in the data folder)
  --search on|off      an index of the words of all that is stored, in plain
                       text in the data folder (default on)
  --log-level LEVEL    debug, info, warn or error (default info)
  --summarizer PROVIDER/MODEL
                       have a model of a [[provider]] row write the summaries;
                       without it they are extracted, and no model is asked
  --summarizer-spend-limit DOLLARS
                       most that summaries may cost in a UTC day; then they are
                       extracted
  --config FILE        TOML with the same names, as max_store = 1000000000;
                       [[user]], [[token]], [[agent]], [[provider]] (models
                       behind /v1 and for summaries) and [[model]] rows, and
                       [watch] and [checkpoint], stand only there
  --version, --help

Each flag has an environment variable: NEXUS_LISTEN, NEXUS_MAX_STORE, …
Flags win over the environment, and the environment over the file.

Example:
  $ nexusd --data /var/lib/nexus --listen 127.0.0.1:4222
  {"ready":true,"nats_url":"nats://127.0.0.1:4222","http_url":"…","data":"…",…}
`

var (
	errHelp    = errors.New("help")
	errVersion = errors.New("version")
)

// parse reads the configuration: the file, then the environment, then the flags.
func parse(args, environ []string) (config.Config, error) {
	var cfg, flags config.Config
	var file string
	var showVersion bool
	fs := flag.NewFlagSet("nexusd", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&flags.Listen, "listen", "", "")
	fs.StringVar(&flags.Auth, "auth", "", "")
	fs.StringVar(&flags.TLSCert, "tls-cert", "", "")
	fs.StringVar(&flags.TLSKey, "tls-key", "", "")
	fs.StringVar(&flags.HTTP, "http", "", "")
	fs.StringVar(&flags.HTTPHosts, "http-hosts", "", "")
	fs.StringVar(&flags.Data, "data", "", "")
	fs.StringVar(&flags.NATS, "nats", "", "")
	fs.StringVar(&flags.NATSService, "nats-service", "", "")
	fs.IntVar(&flags.Replicas, "replicas", 0, "")
	fs.BoolVar(&flags.Create, "create", false, "")
	fs.StringVar(&flags.Seal, "seal", "", "")
	fs.BoolVar(&flags.Plaintext, "plaintext", false, "")
	fs.Int64Var(&flags.MaxStore, "max-store", 0, "")
	fs.Int64Var(&flags.CacheBytes, "cache-bytes", 0, "")
	fs.Int64Var(&flags.ResponsesMemory, "responses-memory", 0, "")
	fs.Int64Var(&flags.SpoolBytes, "spool-bytes", 0, "")
	fs.StringVar(&flags.SpoolAge, "spool-age", "", "")
	fs.StringVar(&flags.Scrub, "scrub", "", "")
	fs.StringVar(&flags.CollectAfter, "collect-after", "", "")
	fs.StringVar(&flags.Files, "files", "", "")
	fs.StringVar(&flags.Search, "search", "", "")
	fs.StringVar(&flags.LogLevel, "log-level", "", "")
	fs.StringVar(&flags.Summarizer, "summarizer", "", "")
	fs.Float64Var(&flags.SummarizerSpendLimit, "summarizer-spend-limit", 0, "")
	fs.StringVar(&file, "config", "", "")
	fs.BoolVar(&showVersion, "version", false, "")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return cfg, errHelp
	} else if err != nil {
		return cfg, err
	}
	if showVersion {
		return cfg, errVersion
	}
	if fs.NArg() > 0 {
		return cfg, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	vars := env.ToMap(environ)
	if file == "" {
		file = vars["NEXUS_CONFIG"]
	}
	if file != "" {
		if err := readFile(file, &cfg); err != nil {
			return cfg, err
		}
	}
	if err := env.ParseWithOptions(&cfg, env.Options{Environment: vars, Prefix: "NEXUS_"}); err != nil {
		return cfg, fmt.Errorf("environment: %w", err)
	}
	fs.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "listen":
			cfg.Listen = flags.Listen
		case "auth":
			cfg.Auth = flags.Auth
		case "tls-cert":
			cfg.TLSCert = flags.TLSCert
		case "tls-key":
			cfg.TLSKey = flags.TLSKey
		case "http":
			cfg.HTTP = flags.HTTP
		case "http-hosts":
			cfg.HTTPHosts = flags.HTTPHosts
		case "data":
			cfg.Data = flags.Data
		case "nats":
			cfg.NATS = flags.NATS
		case "nats-service":
			cfg.NATSService = flags.NATSService
		case "replicas":
			cfg.Replicas = flags.Replicas
		case "create":
			cfg.Create = flags.Create
		case "seal":
			cfg.Seal = flags.Seal
		case "plaintext":
			cfg.Plaintext = flags.Plaintext
		case "max-store":
			cfg.MaxStore = flags.MaxStore
		case "cache-bytes":
			cfg.CacheBytes = flags.CacheBytes
		case "responses-memory":
			cfg.ResponsesMemory = flags.ResponsesMemory
		case "spool-bytes":
			cfg.SpoolBytes = flags.SpoolBytes
		case "spool-age":
			cfg.SpoolAge = flags.SpoolAge
		case "scrub":
			cfg.Scrub = flags.Scrub
		case "collect-after":
			cfg.CollectAfter = flags.CollectAfter
		case "files":
			cfg.Files = flags.Files
		case "search":
			cfg.Search = flags.Search
		case "log-level":
			cfg.LogLevel = flags.LogLevel
		case "summarizer":
			cfg.Summarizer = flags.Summarizer
		case "summarizer-spend-limit":
			cfg.SummarizerSpendLimit = flags.SummarizerSpendLimit
		}
	})
	return cfg, cfg.Validate()
}

func readFile(name string, cfg *config.Config) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	err = toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields().Decode(cfg)
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) {
		// Not the lines themselves: the field that is not known may be a key.
		out := fmt.Sprintf("configuration %s:", name)
		for i := range strict.Errors {
			row, _ := strict.Errors[i].Position()
			out += fmt.Sprintf("\n  line %d: there is no field %s", row, strings.Join(strict.Errors[i].Key(), "."))
		}
		return errors.New(out)
	}
	if err != nil {
		if at := (*toml.DecodeError)(nil); errors.As(err, &at) { // its own text quotes the value
			row, column := at.Position()
			return fmt.Errorf("configuration %s: line %d, column %d: %s can't be read", name, row, column, cmp.Or(strings.Join(at.Key(), "."), "it"))
		}
		return fmt.Errorf("configuration %s: %w", name, err)
	}
	return nil
}
