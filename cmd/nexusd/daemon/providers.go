package daemon

import (
	"fmt"
	"net/url"
	"path"

	"nexus/cmd/nexusd/daemon/provider"
	"nexus/turns"
)

// ProviderRow is a provider of models behind /v1 in a configuration file. The first row
// whose models hold the name serves.
type ProviderRow struct {
	Name    string `toml:"name"`
	Kind    string `toml:"kind"`     // one of [provider.Kinds]
	URL     string `toml:"url"`      // with its version: https://host/v1
	KeyEnv  string `toml:"key_env"`  // the variable with the key
	KeyFile string `toml:"key_file"` // a file with it on the first line
	Models  any    `toml:"models"`   // patterns, or a table: our name = the provider's
}

// ModelsOf returns what the member models of a row says.
func (r ProviderRow) ModelsOf() (m provider.Models, err error) {
	bad := fmt.Errorf(`models is a list of patterns such as ["*"], or a table such as {small = "qwen3-8b"}`)
	switch v := r.Models.(type) {
	case []any:
		for _, x := range v {
			s, ok := x.(string)
			if !ok || s == "" {
				return m, bad
			}
			if _, err := path.Match(s, ""); err != nil {
				return m, fmt.Errorf("models: %.60q is no pattern", s)
			}
			m.Patterns = append(m.Patterns, s)
		}
	case map[string]any:
		m.Renames = make(map[string]string)
		for name, x := range v {
			s, ok := x.(string)
			if !ok || s == "" || name == "" {
				return m, bad
			}
			m.Renames[name] = s
		}
	default:
		return m, bad
	}
	if len(m.Patterns)+len(m.Renames) == 0 {
		return m, bad
	}
	return m, nil
}

// checkProviders lists the faults of c's providers. It quotes no URL: one may hold a
// password.
func (c Config) checkProviders(bad func(format string, args ...any)) {
	names := make(map[string]bool)
	for i, r := range c.Providers {
		if !turns.ValidName(r.Name) || names[r.Name] {
			bad("provider %d: name %.60q is not a name, or one that another row has", i+1, r.Name)
		}
		names[r.Name] = true
		if _, err := provider.New(provider.Row{Name: r.Name, Kind: r.Kind}); err != nil {
			bad("%s", err)
		}
		u, err := url.Parse(r.URL)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			bad("provider %s: url is not http:// or https:// with a host", r.Name)
		case u.User != nil:
			bad("provider %s: url holds a password; key_env or key_file names the key", r.Name)
		case u.RawQuery != "" || u.Fragment != "":
			bad("provider %s: url has a query or a fragment", r.Name)
		}
		if r.KeyEnv != "" && r.KeyFile != "" {
			bad("provider %s: key_env and key_file exclude each other", r.Name)
		}
		if _, err := r.ModelsOf(); err != nil {
			bad("provider %s: %s", r.Name, err)
		}
	}
}
