package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// build builds the programs of a platform into a folder, and returns their paths.
//
// The bytes follow from the checkout and the toolchain alone: paths are trimmed, the state of
// git is not looked at, and settings of the caller's environment are replaced.
func (r *release) build(ctx context.Context, p platform, dir string) ([]string, error) {
	env := []string{"CGO_ENABLED=0", "GOOS=" + p.os, "GOARCH=" + p.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off"}
	flags := "-s -w -X nexus/cmd/internal/build.version=" + r.version
	_, err := r.command(ctx, env, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", flags, "-o", dir+"/", "./cmd/nexusd", "./cmd/ledgerctl")
	return []string{filepath.Join(dir, "nexusd"), filepath.Join(dir, "ledgerctl")}, err
}

// modulesOf returns the modules that programs are made of, sorted by path, without the one
// that is released. The standard library is the module std.
func modulesOf(programs []string) ([]debug.Module, error) {
	found := make(map[string]debug.Module)
	for _, name := range programs {
		info, err := buildinfo.ReadFile(name)
		if err != nil {
			return nil, err
		}
		found["std"] = debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}
		for _, m := range info.Deps {
			if m.Replace != nil {
				return nil, fmt.Errorf("%s: module %s is replaced", name, m.Path)
			}
			found[m.Path] = *m
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b debug.Module) int { return strings.Compare(a.Path, b.Path) }), nil
}
