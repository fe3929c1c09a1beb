package main

import (
	"fmt"

	"github.com/caarlos0/env/v11"

	"nexus/cmd/internal/daemon"
	asked "nexus/cmd/internal/provider"
)

// withProviders makes the providers that the configuration names, with their keys. Without rows
// nobody answers for /v1.
func withProviders(cfg *daemon.Config, environ []string) error {
	if len(cfg.Providers) == 0 {
		return nil
	}
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
	cfg.Provider, cfg.ProviderModels = set.For, set.Models
	return nil
}
