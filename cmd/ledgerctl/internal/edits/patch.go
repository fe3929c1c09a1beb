package edits

import (
	"slices"
	"strings"
)

// hunk is a change of a patch: lines that are there, and those in their place.
type hunk struct {
	after    string // a line that stands before the change; hasAfter says whether there is one
	hasAfter bool
	old, new []string
	end      bool // the change is at the end of the file
}

// patchFile is the part of a patch that is of one file.
type patchFile struct {
	kind  kind // writes, removes, patches, moves
	path  string
	to    string
	lines []string // of writes
	hunks []hunk
}

// The limits of a patch.
const maxPatchFiles, maxPatchHunks = 1000, 10_000

// parsePatch reads a patch of apply_patch. ok is false if a line of it does not belong
// there; the files are then those that were read, without what they become.
func parsePatch(text string) (files []patchFile, ok bool) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) < 2 || strings.TrimSpace(lines[0]) != "*** Begin Patch" || strings.TrimSpace(lines[len(lines)-1]) != "*** End Patch" {
		return nil, false
	}
	var f *patchFile
	var h *hunk
	hunks := 0
	for _, line := range lines[1 : len(lines)-1] {
		marker := strings.TrimSpace(line)
		begin := func(k kind, prefix string) {
			files = append(files, patchFile{kind: k, path: marker[len(prefix):]})
			f, h = &files[len(files)-1], nil
		}
		switch {
		case len(files) > maxPatchFiles || hunks > maxPatchHunks:
			return files, false
		case strings.HasPrefix(marker, "*** Add File: "):
			begin(writes, "*** Add File: ")
		case strings.HasPrefix(marker, "*** Delete File: "):
			begin(removes, "*** Delete File: ")
		case strings.HasPrefix(marker, "*** Update File: "):
			begin(patches, "*** Update File: ")
		case f == nil:
			return files, false
		case strings.HasPrefix(marker, "*** Move to: ") && f.kind == patches && f.hunks == nil:
			f.kind, f.to = moves, marker[len("*** Move to: "):]
		case f.kind == writes:
			added, isLine := strings.CutPrefix(line, "+")
			if !isLine {
				return files, false
			}
			f.lines = append(f.lines, added)
		case f.kind == removes:
			return files, false
		case line == "@@" || strings.HasPrefix(line, "@@ "):
			after, has := strings.CutPrefix(line, "@@ ")
			f.hunks = append(f.hunks, hunk{after: after, hasAfter: has})
			h = &f.hunks[len(f.hunks)-1]
			hunks++
		case marker == "*** End of File" && h != nil:
			h.end = true
		default:
			if h == nil || h.end {
				if h != nil {
					return files, false
				}
				f.hunks = append(f.hunks, hunk{})
				h = &f.hunks[0]
				hunks++
			}
			switch {
			case line == "":
				h.old, h.new = append(h.old, ""), append(h.new, "")
			case line[0] == ' ':
				h.old, h.new = append(h.old, line[1:]), append(h.new, line[1:])
			case line[0] == '-':
				h.old = append(h.old, line[1:])
			case line[0] == '+':
				h.new = append(h.new, line[1:])
			default:
				return files, false
			}
		}
	}
	return files, len(files) > 0
}

// applyHunks changes a text as apply_patch does, where the outcome does not depend on how it
// searches: each change fits, to the letter, in one place of the file, in the order of the
// changes. ok is false for others.
func applyHunks(text string, hunks []hunk) (out string, ok bool) {
	lines := strings.Split(text, "\n")
	if n := len(lines); lines[n-1] == "" {
		lines = lines[:n-1]
	}
	var done []string
	from := 0
	for _, h := range hunks {
		if len(h.old) == 0 {
			return "", false // where it goes depends on the version
		}
		if h.hasAfter {
			i := slices.Index(lines[from:], h.after)
			if i < 0 {
				return "", false
			}
			done, from = append(done, lines[from:from+i+1]...), from+i+1
		}
		at := -1
		for i := range len(lines) - len(h.old) + 1 {
			if lines[i] == h.old[0] && slices.Equal(lines[i:i+len(h.old)], h.old) {
				if at >= 0 {
					return "", false
				}
				at = i
			}
		}
		if at < from || h.end && at+len(h.old) != len(lines) {
			return "", false
		}
		done = append(append(done, lines[from:at]...), h.new...)
		from = at + len(h.old)
	}
	done = append(done, lines[from:]...)
	if len(done) == 0 {
		return "", false // versions differ in whether a line break stays
	}
	return strings.Join(done, "\n") + "\n", true
}
