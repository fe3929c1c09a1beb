package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"nexus/compactor"
)

// Config says how a daemon runs. The zero value of each field is its default.
type Config struct {
	// Listen is host:port of the embedded NATS server; port 0 picks one.
	// Default 127.0.0.1:4222. Not used with NATS.
	Listen string `toml:"listen" env:"LISTEN"`
	// HTTP is host:port of health and metrics, or "off". Default 127.0.0.1:8422.
	HTTP string `toml:"http" env:"HTTP"`
	// Data is the folder of stream, projections and keys. Default ./nexus-data.
	Data string `toml:"data" env:"DATA"`
	// NATS is the URL of an external server or cluster; "" runs one inside.
	NATS string `toml:"nats" env:"NATS"`
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
	// MaxStore bounds the stream's files, in bytes. 0: 45 % of what is free and
	// what the folder takes already: the projections hold every event too.
	MaxStore int64 `toml:"max_store" env:"MAX_STORE"`
	// LogLevel is debug, info, warn or error. Default info.
	LogLevel string `toml:"log_level" env:"LOG_LEVEL"`

	// Summarizer is a model that writes summaries: "openai" (that and all
	// servers that speak its chat completions) or "anthropic"; "": none is asked.
	// It is tried first; the extractive summarizer stands behind it.
	Summarizer string `toml:"summarizer" env:"SUMMARIZER"`
	// SummarizerURL is its base URL; "": the provider's own.
	SummarizerURL string `toml:"summarizer_url" env:"SUMMARIZER_URL"`
	// SummarizerModel is the model's name at the provider.
	SummarizerModel string `toml:"summarizer_model" env:"SUMMARIZER_MODEL"`
	// SummarizerWindow is the tokens that a request to it may have. Default 128000.
	SummarizerWindow uint64 `toml:"summarizer_window" env:"SUMMARIZER_WINDOW"`
	// SummarizerKeyFile is a file with its API key on the first line; the
	// environment's NEXUS_SUMMARIZER_KEY wins. The key stands nowhere else: no
	// flag takes it, for others see those, and no event, log or error holds it.
	SummarizerKeyFile string `toml:"summarizer_key_file" env:"SUMMARIZER_KEY_FILE"`
	SummarizerKey     string `toml:"-" env:"SUMMARIZER_KEY"`

	// Models are the summarizers that are tried before the extract; see
	// [Config.Summarizer], which nexusd makes them of.
	Models []compactor.Tier `toml:"-" env:"-"`
	// Logger takes the daemon's log; nil: silent. Turn content is never logged.
	Logger *slog.Logger `toml:"-" env:"-"`
	// Version is reported by the service.
	Version string `toml:"-" env:"-"`
}

// withDefaults is c with its zero fields filled in.
func (c Config) withDefaults() Config {
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	def(&c.Listen, "127.0.0.1:4222")
	def(&c.HTTP, "127.0.0.1:8422")
	def(&c.Data, "./nexus-data")
	def(&c.LogLevel, "info")
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
	c = c.withDefaults()
	var faults []error
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		bad("listen: %q is not host:port", c.Listen)
	}
	if _, _, err := net.SplitHostPort(c.HTTP); err != nil && c.HTTP != "off" {
		bad("http: %q is neither host:port nor off", c.HTTP)
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
	if c.NATS != "" && c.Seal == "on" {
		bad("seal: on an external server daemons would need a shared key store, and there is none yet")
	}
	if c.MaxStore < 0 {
		bad("max_store: %d is negative", c.MaxStore)
	}
	if c.Summarizer == "" && (c.SummarizerURL != "" || c.SummarizerModel != "" || c.SummarizerKeyFile != "") {
		bad("summarizer: its settings are given, but not which provider it is: openai or anthropic")
	}
	switch strings.ToLower(c.LogLevel) {
	case "debug", "info", "warn", "error":
	default:
		bad("log_level: %q is not debug, info, warn or error", c.LogLevel)
	}
	return errors.Join(faults...)
}
