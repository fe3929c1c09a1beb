package costview

import (
	"fmt"
	"os"
	"slices"

	"github.com/pelletier/go-toml/v2"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/turns/tokens"
)

// Prices returns the table of models that comes with this version, under the prices
// of a file, if one is named: the rows [[model]] as the configuration of nexusd has them.
func Prices(file string) (tokens.Models, error) {
	if file == "" {
		return tokens.KnownModels(), nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return tokens.Models{}, fault.Usage(err)
	}
	var rows struct {
		Model []config.ModelRow `toml:"model"`
	}
	if err := toml.Unmarshal(b, &rows); err != nil {
		return tokens.Models{}, fault.Usage(fmt.Errorf("prices in %s: %w", file, err))
	}
	// A row of a configuration may be there for the window alone.
	rows.Model = slices.DeleteFunc(rows.Model, func(r config.ModelRow) bool { return r.Input+r.Output+r.CacheRead+r.CacheWrite+r.CacheHour == 0 })
	if len(rows.Model) == 0 {
		return tokens.Models{}, fault.Usage(fmt.Errorf("%s has no price: it takes rows [[model]] with name and price_input, price_output, price_cache_read, price_cache_write, price_cache_write_1h, in dollars a million tokens", file))
	}
	for _, r := range rows.Model {
		if least, most := min(r.Input, r.Output, r.CacheRead, r.CacheWrite, r.CacheHour), max(r.Input, r.Output, r.CacheRead, r.CacheWrite, r.CacheHour); r.Name == "" || !(least >= 0) || most > 1e6 {
			return tokens.Models{}, fault.Usage(fmt.Errorf("%s: model %q has no name, or a price that is not a number of dollars", file, r.Name))
		}
	}
	return config.Config{Model: rows.Model}.ModelTable(), nil
}
