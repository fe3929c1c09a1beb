package daemon

import (
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
)

func TestAgentRowsGrantKindMain(t *testing.T) {
	c := config.Config{Agent: []config.AgentRow{{Name: "owner", Main: true}, {Name: "peer"}, {Name: "owner", Tenant: "acme"}}}
	for who, want := range map[[2]string]bool{{"default", "owner"}: true, {"default", "peer"}: false, {"acme", "owner"}: false, {"default", "other"}: false} {
		if got := c.MayOpenMain(who[0], who[1]); got != want {
			t.Errorf("agent %s of %s may open main: %v", who[1], who[0], got)
		}
	}
	for name, rows := range map[string][]config.AgentRow{"no name": {{Main: true}}, "the operator": {{Name: "_", Main: true}}, "a tenant that is none": {{Name: "a", Tenant: "A b"}}, "two rows": {{Name: "a"}, {Name: "a", Tenant: "default", Main: true}}} {
		if err := (config.Config{Agent: rows}).Validate(); err == nil || !strings.Contains(err.Error(), "agent: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
