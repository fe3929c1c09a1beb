package main

import (
	"encoding/json"
	"runtime/debug"
	"time"
)

// bom is a list of components in the form of CycloneDX 1.6, with what we say of them.
type bom struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp  string     `json:"timestamp"`
	Component  component  `json:"component"`
	Properties []property `json:"properties"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Licenses   []license  `json:"licenses,omitempty"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type license struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// sbom lists the modules of a platform's programs, as the programs name them.
func (r *release) sbom(p platform, modules []debug.Module) ([]byte, error) {
	apache := license{}
	apache.License.ID = "Apache-2.0"
	self := component{Type: "application", Name: "nexus", Version: r.version, Licenses: []license{apache}, PURL: "pkg:generic/nexus@" + r.version}
	self.Ref = self.PURL
	out := bom{Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata: metadata{r.date.Format(time.RFC3339), self, []property{{"commit", r.commit}, {"platform", p.os + "/" + p.arch}}}}
	uses := dependency{Ref: self.Ref}
	for _, m := range modules {
		c := component{Type: "library", Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version}
		c.Ref = c.PURL
		if m.Sum != "" {
			c.Properties = []property{{"go.sum", m.Sum}}
		}
		out.Components = append(out.Components, c)
		uses.DependsOn = append(uses.DependsOn, c.Ref)
	}
	out.Dependencies = []dependency{uses}
	b, err := json.MarshalIndent(out, "", "  ")
	return append(b, '\n'), err
}
