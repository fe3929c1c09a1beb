// Package build says which version of the module the programs were built from.
//
// nexusd and ledgerctl call it, so that two programs of one build name one version.
package build

import "runtime/debug"

// Version returns the module's version without its leading v, or 0.1.0-dev for a build
// that has none, such as a test.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version[min(len(info.Main.Version)-1, 1):]
	}
	return "0.1.0-dev"
}
