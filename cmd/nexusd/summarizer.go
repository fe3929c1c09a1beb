package main

import (
	"fmt"
	"os"
	"strings"

	"nexus/cmd/internal/daemon"
	"nexus/compactor"
	"nexus/compactor/llm"
)

// models are the tiers of the summarizers that the configuration names, the full
// and the partial one of each of their models, the default one's first; none where
// it names none. They are made here and not by the daemon, so that a program with a
// daemon inside does not carry the providers' libraries.
func models(cfg daemon.Config) (tiers []compactor.Tier, err error) {
	for _, r := range cfg.SummarizerRows() {
		of, err := summarizer(cfg, r)
		if err != nil {
			return nil, fmt.Errorf("summarizer %s: %w", r.Name, err)
		}
		for _, s := range of {
			tiers = append(tiers, compactor.Tier{Name: llm.Tier, Model: s.Model(), Summarizer: s},
				compactor.Tier{Name: llm.PartialTier, Model: s.Model(), Summarizer: s.Partial()})
		}
	}
	return tiers, nil
}

// summarizer returns a row's summarizer, under each of its models.
func summarizer(cfg daemon.Config, r daemon.SummarizerRow) (of []*llm.Summarizer, err error) {
	key := r.Key
	if key == "" && r.KeyFile != "" {
		b, err := os.ReadFile(r.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("key file: %w", err)
		}
		key, _, _ = strings.Cut(string(b), "\n")
	}
	for _, name := range r.AllModels() {
		row, known := cfg.FindModel(name)
		if r.SpendLimit > 0 && row.Price.Input == 0 && row.Price.Output == 0 {
			return nil, fmt.Errorf("spend limit: no price of model %q is known; add a [[model]] row with price_input and price_output", name)
		}
		window := r.Window
		if budget := row.InputBudget(); window == 0 && known && budget < 128_000 {
			window = budget
		}
		price := row.Price
		price.CacheWrite = 0 // a summarizer asks for no cache: what a provider writes to one is billed as input
		var s *llm.Summarizer
		if len(of) > 0 {
			s, err = of[0].For(name, window, price)
		} else {
			s, err = llm.New(llm.Config{Name: r.Name, Provider: r.Provider, BaseURL: r.URL, Model: name, Key: strings.TrimSpace(key),
				Window: window, Logger: cfg.Logger, Price: price, SpendLimit: uint64(r.SpendLimit * 1e6)})
		}
		if err != nil {
			return nil, err
		}
		of = append(of, s)
	}
	return of, nil
}
