// Package service writes the files by which a user's service manager runs nexusd and
// ledgerctl watch: units of systemd, property lists of launchd. It restarts a service that
// runs when its file changed; else it starts and stops nothing. It knows no ledger.
// ledgerctl service calls it. cmd/internal/release puts its [Packaged] units into a package.
//
// Begin at [Unit.File] and [Unit.Reload].
package service

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"nexus/cmd/internal/wholefile"
)

// Unit is a program that a service manager runs.
type Unit struct {
	Name    string   // nexusd or watch
	About   string   // one sentence
	Command []string // the program and its arguments
	After   string   // the name of another unit that starts before it; "": none
	Env     []string // NAME=VALUE, for the program: a service manager has no variables of a shell
}

// Manager is a service manager.
type Manager string

// The managers. They run a service of one user, without rights of the system.
const (
	Systemd Manager = "systemd"
	Launchd Manager = "launchd"
)

// Of returns the manager of an operating system, as runtime.GOOS names it.
func Of(goos string) (Manager, error) {
	switch goos {
	case "linux":
		return Systemd, nil
	case "darwin":
		return Launchd, nil
	}
	return "", fmt.Errorf("no service manager is known for %s", goos)
}

// mark is in each file of this package, and says that it may be replaced and removed.
const mark = "Written by ledgerctl service install."

// File returns the path of a unit below the user's home, and its text.
func (u Unit) File(m Manager, getenv func(string) string, home string) (path, text string, err error) {
	for _, word := range slices.Concat(u.Command, u.Env) {
		if strings.ContainsAny(word, "\n\r\x00") {
			return "", "", fmt.Errorf("the command or a variable has a line break: %q", word)
		}
	}
	if m == Launchd {
		return filepath.Join(home, "Library", "LaunchAgents", label(u.Name)+".plist"), u.plist(home), nil
	}
	config := getenv("XDG_CONFIG_HOME")
	if config == "" {
		config = filepath.Join(home, ".config")
	}
	return filepath.Join(config, "systemd", "user", "nexus-"+u.Name+".service"), u.systemd(), nil
}

// Command returns the command of a unit whose file is there, as [Unit.File] wrote it; nil if
// there is none in the text.
func Command(m Manager, text string) (words []string) {
	if m == Launchd {
		_, rest, _ := strings.Cut(text, "<key>ProgramArguments</key>")
		array, _, _ := strings.Cut(rest, "</array>")
		d := xml.NewDecoder(strings.NewReader(array + "</array>"))
		for {
			tok, err := d.Token()
			if err != nil {
				return words
			}
			if el, ok := tok.(xml.StartElement); ok && el.Name.Local == "string" {
				var word string
				if d.DecodeElement(&word, &el) != nil {
					return nil
				}
				words = append(words, word)
			}
		}
	}
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecStart=")
		if !ok {
			continue
		}
		for _, quoted := range execWord.FindAllString(rest, -1) {
			word := escapedByte.ReplaceAllString(strings.TrimSuffix(strings.TrimPrefix(quoted, `"`), `"`), "$1")
			words = append(words, strings.NewReplacer("%%", "%", "$$", "$").Replace(word))
		}
		return words
	}
	return nil
}

var (
	execWord    = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[^" ]+`)
	escapedByte = regexp.MustCompile(`\\(.)`)
)

// Start returns the commands that start a unit whose file is there, and at each log-in.
func (u Unit) Start(m Manager, path string) []string {
	if m == Launchd {
		return []string{"launchctl bootstrap gui/$(id -u) '" + strings.ReplaceAll(path, "'", `'\''`) + "'"}
	}
	return []string{"systemctl --user daemon-reload", "systemctl --user enable --now nexus-" + u.Name + ".service"}
}

// Stop returns the commands that stop a unit before its file is removed.
func (u Unit) Stop(m Manager) []string {
	if m == Launchd {
		return []string{"launchctl bootout " + launchTarget(u.Name)}
	}
	return []string{"systemctl --user disable --now nexus-" + u.Name + ".service"}
}

func label(name string) string { return "nexus." + name }

func (u Unit) systemd() string {
	var words []string
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`)
	for _, w := range u.Command {
		words = append(words, `"`+strings.ReplaceAll(quote.Replace(w), "$", "$$")+`"`)
	}
	env := ""
	for _, v := range u.Env { // systemd replaces no $ here
		env += `Environment="` + quote.Replace(v) + "\"\n"
	}
	after := ""
	if u.After != "" {
		after = "\nAfter=nexus-" + u.After + ".service"
	}
	return "# " + mark + `
[Unit]
Description=` + u.About + after + `

[Service]
` + env + `ExecStart=` + strings.Join(words, " ") + `
` + restart + userLimits + `
[Install]
WantedBy=default.target
`
}

func (u Unit) plist(home string) string {
	var words strings.Builder
	for _, w := range u.Command {
		words.WriteString("\n\t\t<string>" + escaped(w) + "</string>")
	}
	env := ""
	for _, v := range u.Env {
		name, value, _ := strings.Cut(v, "=")
		env += "\n\t\t<key>" + escaped(name) + "</key>\n\t\t<string>" + escaped(value) + "</string>"
	}
	if env != "" {
		env = "\n\t<key>EnvironmentVariables</key>\n\t<dict>" + env + "\n\t</dict>"
	}
	return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- ` + mark + ` -->
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>` + label(u.Name) + `</string>
	<key>ProgramArguments</key>
	<array>` + words.String() + `
	</array>` + env + `
	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<dict>
		<key>SuccessfulExit</key>
		<false/>
	</dict>
	<key>StandardErrorPath</key>
	<string>` + escaped(filepath.Join(home, "Library", "Logs", "nexus-"+u.Name+".log")) + `</string>
</dict>
</plist>
`
}

func escaped(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a buffer takes everything
	return b.String()
}

// ErrForeign: there is a file of this name that this package did not write.
var ErrForeign = errors.New("another program wrote this file")

// Change says what writing a file of a unit does.
type Change int

// The changes.
const (
	None     Change = iota // the file has this text
	Created                // there was no file
	Replaced               // there was one with another text
)

// Compare returns what Write would change. Its error is [ErrForeign] for a file of another
// program.
func Compare(path, text string) (Change, error) {
	there, err := Installed(path)
	if err != nil || !there {
		return Created, err
	}
	b, err := os.ReadFile(path)
	if err == nil && string(b) == text {
		return None, nil
	}
	return Replaced, err
}

// Write writes the file of a unit, as a whole. It replaces only what Write wrote.
func Write(path, text string) error {
	if _, err := Installed(path); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return wholefile.Write(path, 0o644, wholefile.Bytes([]byte(text)))
}

// Remove removes the file of a unit; one that is not there is none.
func Remove(path string) error {
	if there, err := Installed(path); err != nil || !there {
		return err
	}
	return os.Remove(path)
}

// Installed reports whether the file of a unit is there. Its error is [ErrForeign] for one
// of another program.
func Installed(path string) (bool, error) {
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !bytes.Contains(b, []byte(mark)):
		return false, fmt.Errorf("%s: %w", path, ErrForeign)
	}
	return true, nil
}
