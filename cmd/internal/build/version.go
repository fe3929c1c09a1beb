// Package build says which version of the module the programs were built from.
//
// nexusd and ledgerctl call it, so that two programs of one build name one version.
package build

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// version is what a release was built as. Only the linker sets it: -X
// nexus/cmd/internal/build.version=0.1.0 (cmd/internal/release).
var version string

// Version returns the version of the release, else the module's version, without a leading
// v; 0.1.0-dev for a build that has neither, such as a test.
func Version() string {
	module := ""
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		module = strings.TrimPrefix(info.Main.Version, "v")
	}
	return cmp.Or(version, module, "0.1.0-dev")
}
