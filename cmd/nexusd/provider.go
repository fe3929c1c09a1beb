package main

import (
	"fmt"
	"os"
	"strings"

	"nexus/cmd/nexusd/daemon"
	"nexus/cmd/nexusd/daemon/provider"
)

// providers are those that the configuration names, with their keys. An error names the row
// and quotes no key.
func providers(cfg daemon.Config) (*provider.Set, error) {
	set := new(provider.Set)
	for _, r := range cfg.Providers {
		key, err := providerKey(r)
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", r.Name, err)
		}
		models, err := r.ModelsOf()
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", r.Name, err)
		}
		client, err := provider.New(provider.Row{Name: r.Name, Kind: r.Kind, URL: r.URL, Key: key})
		if err != nil {
			return nil, err
		}
		set.Add(client, models)
	}
	return set, nil
}

func providerKey(r daemon.ProviderRow) (key string, err error) {
	switch {
	case r.KeyEnv != "":
		if key = strings.TrimSpace(os.Getenv(r.KeyEnv)); key == "" {
			return "", fmt.Errorf("key_env: the variable %.80s is empty", r.KeyEnv)
		}
	case r.KeyFile != "":
		b, err := os.ReadFile(r.KeyFile)
		if err != nil {
			return "", fmt.Errorf("key_file: %w", err)
		}
		line, _, _ := strings.Cut(string(b), "\n")
		if key = strings.TrimSpace(line); key == "" {
			return "", fmt.Errorf("key_file: the first line of %s is empty", r.KeyFile)
		}
	}
	if strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return "", fmt.Errorf("the key holds what a header can't")
	}
	return key, nil
}
