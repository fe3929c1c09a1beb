package policy

import "slices"

// Files asks for files beside the ledger, in the folder that the daemon has for them.
// They hold plain text, whether the ledger seals or not. The ledger keeps everything
// that is in them.
type Files struct {
	// Layout names the published design whose paths and formats the files have, one
	// of [Layouts]. "": no files.
	Layout string `json:"layout,omitzero"`
	// Archive also keeps what left the context: the turns that a compaction covered,
	// and the whole session when it ends.
	Archive bool `json:"archive,omitzero"`
}

// Layouts returns the values of [Files.Layout], beside "".
func Layouts() []string { return []string{"gsv", "autobyteus", "wolffish"} }

// On reports whether there are files.
func (f Files) On() bool { return f.Layout != "" }

func (f Files) check(check checkFunc) {
	check(f.Layout == "" || slices.Contains(Layouts(), f.Layout), "files/layout", "%.60q is not one of \"\", gsv, autobyteus, wolffish", f.Layout)
	check(!f.Archive || f.On(), "files/archive", "there is no layout that says where")
}
