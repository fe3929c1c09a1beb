package interchange

import (
	"bytes"
	"fmt"
)

// lineObjects is the JSON objects of one line. There is one, but for broken
// lines: a crash and a resume leave two on a line, the first perhaps torn. A last
// line without a line break that is not whole is held back unless final.
func lineObjects(line sourceLine, final bool, loss *lossReport) (out [][]byte) {
	rest := line.b
	if v, n, repaired := readCCObject(rest); n == len(rest) && n > 0 && repaired == "" {
		return [][]byte{v}
	}
	if len(rest) == 0 || (!line.whole && !final) {
		return nil
	}
	note := func(what, format string, args ...any) { loss.add(line.n, what, fmt.Sprintf(format, args...), "") }
	for len(rest) > 0 {
		v, n, repaired := readCCObject(rest)
		if n == 0 {
			next := nextCCStart(rest)
			if next < 0 {
				note("skipped", "%s no JSON object (torn or broken)", are(len(rest), "byte"))
				break
			}
			note("skipped", "%s torn, before another object on the line", are(next, "byte"))
			rest = rest[next:]
			continue
		}
		if repaired != "" {
			note("repaired", "%s", repaired)
		}
		out, rest = append(out, v), bytes.TrimSpace(rest[n:])
	}
	if len(out) > 1 {
		note("repaired", "%d objects on one line were split", len(out))
	}
	return out
}
