package main

import (
	"fmt"
	"os"
	"strings"

	"nexus/cmd/nexusd/daemon"
	"nexus/compactor"
	"nexus/compactor/llm"
)

// models are the tiers of the summarizer that the configuration names, the full
// and the partial one; none where it names none. They are made here and not by the
// daemon, so that a program with a daemon inside does not carry the providers'
// libraries.
func models(cfg daemon.Config) ([]compactor.Tier, error) {
	if cfg.Summarizer == "" {
		return nil, nil
	}
	key := cfg.SummarizerKey
	if key == "" && cfg.SummarizerKeyFile != "" {
		b, err := os.ReadFile(cfg.SummarizerKeyFile)
		if err != nil {
			return nil, fmt.Errorf("summarizer_key_file: %w", err)
		}
		key, _, _ = strings.Cut(string(b), "\n")
	}
	row, known := cfg.FindModel(cfg.SummarizerModel)
	if cfg.SummarizerSpendLimit > 0 && row.Price.Input == 0 && row.Price.Output == 0 {
		return nil, fmt.Errorf("summarizer_spend_limit: no price of model %q is known; add a [[model]] row with price_input and price_output", cfg.SummarizerModel)
	}
	window := cfg.SummarizerWindow
	if budget := row.InputBudget(); window == 0 && known && budget < 128_000 {
		window = budget
	}
	s, err := llm.New(llm.Config{Provider: cfg.Summarizer, BaseURL: cfg.SummarizerURL, Model: cfg.SummarizerModel,
		Key: strings.TrimSpace(key), Window: window, Logger: cfg.Logger, SpendLimit: uint64(cfg.SummarizerSpendLimit * 1e6),
		Price: llm.Price{Input: row.Price.Input, Output: row.Price.Output, CacheRead: row.Price.CacheRead}})
	if err != nil {
		return nil, err
	}
	return []compactor.Tier{{Name: llm.Tier, Summarizer: s}, {Name: llm.PartialTier, Summarizer: s.Partial()}}, nil
}
