package main

import (
	"fmt"

	"github.com/caarlos0/env/v11"

	"nexus/cmd/internal/daemon/config"
	asked "nexus/cmd/internal/provider"
	"nexus/cmd/nexusd/internal/summaries"
)

// withProviders makes the providers that the configuration names, with their keys, and of them the
// summarizers. Without rows nobody answers for /v1, and no model is asked for summaries.
func withProviders(cfg *config.Config, environ []string) error {
	vars := env.ToMap(environ)
	set, err := asked.New(cfg.Providers, asked.Options{
		Getenv: func(name string) string { return vars[name] },
		MaxOutput: func(model string) uint64 {
			row, _ := cfg.FindModel(model)
			return row.OutputReserve
		},
	})
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if len(cfg.Providers) > 0 {
		cfg.Provider, cfg.ProviderModels = set.For, set.Models
	}
	if cfg.Summarizer == "" {
		return nil
	}
	models, tiers, err := summaries.New(summaries.Config{Providers: set, Summarizer: cfg.Summarizer, SpendLimit: cfg.SummarizerSpendLimit, Find: cfg.FindModel, Logger: cfg.Logger})
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	cfg.Models, cfg.ModelTiers = tiers, models.For
	return nil
}
