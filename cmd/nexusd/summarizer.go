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
	s, err := llm.New(llm.Config{Provider: cfg.Summarizer, BaseURL: cfg.SummarizerURL, Model: cfg.SummarizerModel,
		Key: strings.TrimSpace(key), Window: cfg.SummarizerWindow})
	if err != nil {
		return nil, err
	}
	return []compactor.Tier{{Name: llm.Tier, Summarizer: s}, {Name: llm.PartialTier, Summarizer: s.Partial()}}, nil
}
