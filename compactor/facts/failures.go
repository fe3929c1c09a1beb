package facts

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"nexus/compactor/summary"
	"nexus/turns"
)

// result is what a tool returned.
type result struct {
	output string // what it printed, without the figures that its agent writes around it
	stderr string // where the source has it apart
	failed bool   // the source says so, or the exit code does
}

const (
	// maxErrors bounds the errors of one result: a failed build repeats itself.
	maxErrors = 40
	// maxReport is how many lines an output has whose last one counts where none has the
	// shape of an error.
	maxReport = 10
)

// resultOf reads a result. Agents write the exit code of a command beside its output, each
// in a way of its own.
func resultOf(p *turns.Part) (r result) {
	r.failed = p.IsError
	text := ""
	switch {
	case p.Response.Kind() == '{':
		text = string(p.Response)
	default:
		text = summary.ResultText(p)
	}
	if strings.HasPrefix(text, "{") && r.members(turns.Raw(text)) {
		return r
	}
	if exit, ok := exitOf(text); ok && exit != 0 {
		r.failed = true
	}
	r.output = summary.CommandOutput(text)
	if p.Ref == nil && p.Response.Kind() == '[' {
		if _, ok := summary.ResultParts(p); !ok { // a list of the tool's own
			r.output = argumentText(p.Response)
		}
	}
	return r
}

// members reads a result that is a JSON object; ok is false if it is none.
func (r *result) members(v turns.Raw) (ok bool) {
	var m map[string]turns.Raw
	if turns.DecodeJSON(v, &m) != nil {
		return false
	}
	exit := func(m map[string]turns.Raw) {
		for _, name := range [...]string{"exit_code", "exitCode", "exit_status", "returncode", "return_code"} {
			if n, err := strconv.Atoi(string(m[name])); err == nil && n != 0 {
				r.failed = true
			}
		}
	}
	exit(m)
	var inner map[string]turns.Raw
	if turns.DecodeJSON(m["metadata"], &inner) == nil {
		exit(inner)
	}
	if b := string(m["is_error"]) + string(m["isError"]); strings.Contains(b, "true") {
		r.failed = true
	}
	for _, name := range [...]string{"stdout", "stderr", "output", "error"} {
		if s, ok := m[name].Text(); ok && s != "" {
			if name == "stderr" {
				r.stderr = s
			}
			if name == "error" {
				r.failed = true
			}
			if exit, ok := exitOf(s); ok && exit != 0 {
				r.failed = true
			}
			r.output += summary.CommandOutput(s) + "\n"
		}
	}
	if r.output == "" {
		r.output = argumentText(v)
	}
	return true
}

// exitLine is the exit code as agents write it before or after what a command printed.
var exitLine = regexp.MustCompile(`(?i)^\W{0,2}(?:exit code|exited with code|command exited with code|process exited with code|exit status):? (-?\d{1,9})\W{0,2}$`)

// headLines is within how many lines of the beginning or the end of a result its exit code
// stands.
const headLines = 8

// exitOf returns the exit code that a result states.
func exitOf(text string) (code int, ok bool) {
	at := func(line string) bool {
		if m := exitLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			code, _ = strconv.Atoi(m[1])
			ok = true
		}
		return ok
	}
	rest := text
	for range headLines {
		line, after, more := strings.Cut(rest, "\n")
		if at(line) || line == "Output:" || !more {
			break
		}
		rest = after
	}
	rest = strings.TrimRight(text, "\n ")
	for i := 0; i < 3 && !ok; i++ {
		from := strings.LastIndexByte(rest, '\n')
		if at(rest[from+1:]) || from < 0 {
			break
		}
		rest = rest[:from]
	}
	return code, ok
}

// refusal returns what a person wrote who refused a call; ok is false for another result.
func refusal(output string) (text string, ok bool) {
	if !strings.HasPrefix(output, "The user doesn't want to") {
		return "", false
	}
	_, text, _ = strings.Cut(output, "the user said:\n")
	return text, true
}

// eachError calls found for the lines of a result that report a failure: in the shapes in
// which compilers, test runners, shells and stack traces do, and the message of a tool that
// failed. What a tool only read has none.
func (r *result) eachError(c call, found func(string)) {
	if !r.failed && !c.runs {
		return
	}
	n := 0
	some := func(line string) {
		if n < maxErrors {
			found(line)
		}
		n++
	}
	if r.failed {
		for line := range strings.SplitSeq(r.stderr, "\n") {
			if line = errorText(line); line != "" && !isCode(line) {
				some(line)
			}
		}
	}
	first, last, lines := "", "", 0
	for line := range strings.SplitSeq(r.output, "\n") {
		line = errorText(line)
		if line == "" || exitLine.MatchString(line) {
			continue
		}
		if isErrorReport(line, r.failed) {
			some(line)
		}
		if lines++; first == "" {
			first = line
		}
		if !divider.MatchString(line) {
			last = line
		}
	}
	switch {
	case !r.failed || n > 0 || first == "":
	case !c.shell: // a tool says first why it failed
		some(first)
	case c.runs && lines <= maxReport && last != "" && !isCode(last): // a program says it last
		some(last)
	}
}

// errorText returns a line without colors and without the tags that agents put around an
// error.
func errorText(line string) string {
	if strings.IndexByte(line, '\x1b') >= 0 {
		line = colors.ReplaceAllString(line, "")
	}
	line = strings.TrimSpace(line)
	line = strings.TrimPrefix(line, "<tool_use_error>")
	line = strings.TrimSuffix(line, "</tool_use_error>")
	return strings.TrimSpace(line)
}

var colors = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")

var (
	// place is a place in a file, as compilers print it before a message: a.go:3:7: and a.ts(3,7): .
	place = regexp.MustCompile(`^[^\s:(]+\.\w{1,8}(?::\d+(?::\d+)?:|\(\d+,\d+\):) \S`)
	// report is a message with its kind before it, behind the name of a program at most.
	report = regexp.MustCompile(`^(?:[\w.@/+-]{1,60}:? (?:\d+: )?)?(?:fatal|error|panic|Error|ERROR|FATAL|Fatal|fatal error|Fatal error|internal compiler error|ERR!)(?:[\[(][\w.-]{1,30}[\])])?(?: TS\d+)?: \S|^npm (?:ERR!|error) \S|^error Command failed|^mise ERROR \S`)
	// noError is a report of none.
	noError = regexp.MustCompile(`(?i)error[^:]{0,20}: [(<]?(?:none|null|nil|false|0)[)>]?[.,]?$`)
	// divider is a line that commands print between parts of their output.
	divider = regexp.MustCompile(`^(?:={3,}|-{3,}|\*{3,}|#{3,}|~{3,}|_{3,}|>{3,}|<{3,})(?:$|[^\w=*#~_<>-])`)
	// exception is the name of one, alone or with its message.
	exception = regexp.MustCompile(`^(?:Uncaught |Caused by: |Unhandled |E +|Exception in thread "[^"]*" )*[A-Za-z_][\w.$:]*(?:Error|Exception|Panic|Exit|Interrupt)(?:: .+| \[.*)?$`)
	// verdict is how test runners and builds name what failed.
	verdict = regexp.MustCompile(`^(?:--- FAIL: |FAIL(?:ED)?(?:$|[:\t (]| +\S)|=== FAIL|not ok \d|[✗✘✕×❌●] ?\S|make(?:\[\d+\])?: \*\*\* |ninja: build stopped|thread '.*' panicked at|panic: |exit status [1-9]|signal: |Segmentation fault|Build failed|BUILD FAILED|test .* \.\.\. FAILED$|Tests?:? +.*\b[1-9]\d* failed|.{0,40}\b[1-9]\d* (?:tests? )?(?:failed|failing)\b|AssertionError|assertion failed|fatal: )`)
	// shell is how a shell or a program says what it can't do.
	shell = regexp.MustCompile(`^[\w./()-]{1,60}: .*(?:No such file or directory|[Pp]ermission denied|command not found|not found|Is a directory|Not a directory|no matches found|cannot access|Operation not permitted|Connection refused|[Tt]imed? ?out|invalid option|unrecognized option|not a git repository|address already in use|no space left on device|[Ff]ile exists)`)
	// hints are what a message at a place says of a failure.
	hints = regexp.MustCompile(`(?i)\berror\b|undefined|cannot|can't|not (?:found|used|defined|checked|assignable)|unused|expected|unexpected|missing|mismatch|unresolved|panic|fail(?:ed|ure)?\b|undeclared|redeclared|too many|too few|does not|invalid`)
)

// isErrorReport reports whether a line of an output reports a failure. failed says that the
// tool did: then each message at a place does.
func isErrorReport(line string, failed bool) bool {
	if len(line) < 4 || len(line) > 2_000 || isCode(line) || noError.MatchString(line) {
		return false
	}
	if verdict.MatchString(line) || exception.MatchString(line) || report.MatchString(line) || shell.MatchString(line) {
		return true
	}
	return place.MatchString(line) && (failed || hints.MatchString(line))
}

// isCode reports whether a line looks like one of a program, a patch or a listing.
func isCode(line string) bool {
	if strings.HasPrefix(line, "--- FAIL") || strings.HasPrefix(line, "panic: ") {
		return false
	}
	for _, head := range [...]string{"//", "/*", "* ", "+", "- ", "-\t", "@@ ", "#include", "# ", "return ", "func ", "if ", "def ", "fn ", "class ", "raise ", "throw ", "catch ", "except ", "import ", "const ", "let ", "var ", "}", "{", ")"} {
		if strings.HasPrefix(line, head) {
			return true
		}
	}
	for _, tail := range [...]string{"{", ";", "=>", "):", "})", "},", "(", "&&", "||"} {
		if strings.HasSuffix(line, tail) {
			return true
		}
	}
	for _, in := range [...]string{"Errorf(", "errors.New(", "Fatalf(", ".Error(", " := ", "console.error(", "new Error(", "raise ", " != nil", "log.Printf("} {
		if strings.Contains(line, in) {
			return true
		}
	}
	for _, head := range [...]string{"npm error path ", "npm error workspace ", "npm error location ", "npm error A complete log", "npm ERR! A complete log", "npm ERR! path "} {
		if strings.HasPrefix(line, head) {
			return true
		}
	}
	n := 0 // a line with its number, as listings print it
	for n < len(line) && line[n] >= '0' && line[n] <= '9' {
		n++
	}
	return n > 0 && n < len(line) && (line[n] == '\t' || line[n] == '|' || line[n] == ':' || strings.HasPrefix(line[n:], "→") || strings.HasPrefix(line[n:], "  "))
}

// runeStart returns the first place at or before n that begins a character of s.
func runeStart(s string, n int) int {
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}
