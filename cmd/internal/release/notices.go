package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

// licenses are the names of files that a copy of a module must come with.
var licenses = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|patents)([._-].*)?$`)

// notices returns the licences of modules, one after the other. A module without any is an
// error: it could not be given away.
func (r *release) notices(ctx context.Context, modules []debug.Module) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("The programs of this release contain these modules. Each stands under its own licence, below its name.\n")
	for _, m := range modules {
		dir, err := r.source(ctx, m)
		if err != nil {
			return nil, err
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		found := false
		for _, e := range entries {
			if e.IsDir() || !licenses.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&out, "\n%s\n%s %s, %s\n\n%s\n", strings.Repeat("=", 80), m.Path, m.Version, e.Name(), bytes.TrimSpace(text))
			found = true
		}
		if !found {
			return nil, fmt.Errorf("module %s %s has no licence in %s", m.Path, m.Version, dir)
		}
	}
	return out.Bytes(), nil
}

// source returns the folder of a module's files.
func (r *release) source(ctx context.Context, m debug.Module) (string, error) {
	if m.Path == "std" {
		out, err := r.command(ctx, nil, "go", "env", "GOROOT")
		return strings.TrimSpace(string(out)), err
	}
	out, err := r.command(ctx, nil, "go", "mod", "download", "-json", m.Path+"@"+m.Version)
	if err != nil {
		return "", err
	}
	var at struct{ Dir string }
	err = json.Unmarshal(out, &at)
	return at.Dir, err
}
