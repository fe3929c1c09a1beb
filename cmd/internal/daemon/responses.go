package daemon

import (
	"crypto/rand"
	"errors"
	"net/http"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/provider"
	"nexus/cmd/internal/responses"
	"nexus/cmd/internal/web"
	"nexus/ledger/api/client"

	"nexus/turns"
	"nexus/turns/seal"
	"nexus/turns/seal/keyring"
)

// errNoProvider tells the caller of a model what the configuration lacks.
var errNoProvider = errors.New("no provider is configured: a [[provider]] row of nexusd's configuration names one")

// responsesHandler serves the Open Responses API. own acts for the callers of HTTP.
func (d *Daemon) responsesHandler(own *client.Client, registry prometheus.Registerer) (http.Handler, error) {
	find := d.cfg.Provider
	if find == nil {
		find = func(string) (provider.Client, string, error) { return nil, "", errNoProvider }
	}
	key, err := d.itemKey()
	if err != nil {
		return nil, err
	}
	age, err := d.cfg.SpoolTime()
	if err != nil {
		return nil, err
	}
	door, err := responses.New(responses.Config{
		Streams: d.cfg.ResponsesMemory, SpoolBytes: d.cfg.SpoolBytes, SpoolAge: age,
		Provider: find, Models: d.cfg.ProviderModels, Spool: filepath.Join(d.cfg.Data, "spool"), Logger: d.logger, Now: time.Now,
		Budget: func(model string) (uint64, bool) {
			m, ok := d.cfg.FindModel(model)
			return m.InputBudget(), ok
		},
		Key:    key,
		Client: func(c web.Caller) *client.Client { return own.For(c.Tenant, c.Agent) },
	})
	if err != nil {
		return nil, err
	}
	d.door = door
	countResponses(registry, door, d.cfg)
	return door.Handler(), nil
}

// countResponses makes the metrics of the memory and the folder of responses.
func countResponses(registry prometheus.Registerer, door *responses.Server, c config.Config) {
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "nexus_responses_memory_bytes", Help: "Memory that the responses of /v1 under way use."},
			func() float64 { return float64(door.Usage().Memory) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "nexus_responses_memory_budget_bytes", Help: "The most bytes that they may use together (responses_memory)."},
			func() float64 { return float64(c.ResponsesMemory) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "nexus_responses_spool_bytes", Help: "Bytes of the folder spool: events of responses without a stored answer."},
			func() float64 { return float64(door.Usage().Spool) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "nexus_responses_evicted_total", Help: "Responses that ended because those of their agent took too much memory."},
			func() float64 { return float64(door.Usage().Evicted) }))
}

// itemKey returns where the key of compaction items comes from: the ledger's own key, or
// with seal off, where there is none, one of this daemon in two copies below items/.
func (d *Daemon) itemKey() (func() (seal.Key, error), error) {
	if d.cfg.Seal == "on" {
		return d.engine.Store.LedgerKey, nil
	}
	keys, err := keyring.Open(filepath.Join(d.cfg.Data, "items"))
	if err != nil {
		return nil, err
	}
	keys.Warn = func(err error) { d.logger.Warn("keys", "err", err) }
	return func() (seal.Key, error) { return keys.Create(turns.ID(d.engine.Store.Ledger), rand.Reader) }, nil
}
