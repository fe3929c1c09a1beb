package names

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/pflag"

	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/turns"
)

// PolicyFlags are the flags --policy NAME and --set KEY=VALUE of a verb.
type PolicyFlags struct {
	Name string // as [Policy] reads it
	Set  []string
}

// Add adds the flags to a verb. about says what the policy is for.
func (p *PolicyFlags) Add(f *pflag.FlagSet, about string) {
	f.StringVar(&p.Name, "policy", "", about)
	p.AddSet(f)
}

// AddSet adds --set alone.
func (p *PolicyFlags) AddSet(f *pflag.FlagSet) {
	f.StringArrayVar(&p.Set, "set", nil, "KEY=VALUE, a setting of the policy")
}

// Policy is the policy that the flags name; nil: none.
func (p *PolicyFlags) Policy() (*api.Policy, error) {
	switch {
	case p.Name == "" && len(p.Set) == 0:
		return nil, nil
	case p.Name == "":
		return nil, fault.Usage(errors.New("--set changes a setting of the policy that --policy names"))
	}
	named, err := Policy(p.Name)
	if err != nil {
		return nil, err
	}
	named.Set, err = WithSettings(named.Set, p.Set)
	return named, err
}

// WithSettings returns a policy's settings, a JSON object or nil, with those of --set. A value
// that is no JSON is a text.
func WithSettings(object turns.Raw, set []string) (turns.Raw, error) {
	if len(set) == 0 {
		return object, nil
	}
	all := make(map[string]jsontext.Value)
	if object != nil && json.Unmarshal(object, &all) != nil {
		return nil, fault.Usage(errors.New("what follows the name of the policy is not a JSON object"))
	}
	more := make(map[string]jsontext.Value)
	for _, s := range set {
		key, value, ok := strings.Cut(s, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, fault.Usage(fmt.Errorf("--set takes KEY=VALUE, as --set keep_tokens=8000, not %q", s))
		}
		if _, twice := more[key]; twice {
			return nil, fault.Usage(fmt.Errorf("--set gives %s twice", key))
		}
		if more[key] = jsontext.Value(strings.TrimSpace(value)); !more[key].IsValid() {
			more[key] = jsontext.Value(turns.RawText(value))
		}
	}
	maps.Copy(all, more)
	b, err := json.Marshal(all, json.Deterministic(true))
	return turns.Raw(b), err
}
