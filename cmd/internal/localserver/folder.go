package localserver

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// defaultFolder is the data folder where none is named: in the user's data folder, by XDG and its like on macOS.
// Where there is no home it is ./nexus-data.
func defaultFolder() string {
	home, err := os.UserHomeDir()
	if err != nil && !filepath.IsAbs(os.Getenv("XDG_DATA_HOME")) {
		return workingFolder
	}
	return FolderBelow(home)
}

// FolderBelow is the default folder for a home.
func FolderBelow(home string) string {
	switch dir := os.Getenv("XDG_DATA_HOME"); {
	case filepath.IsAbs(dir):
		return filepath.Join(dir, "nexus")
	case runtime.GOOS == "darwin":
		return filepath.Join(home, "Library", "Application Support", "nexus")
	}
	return filepath.Join(home, ".local", "share", "nexus")
}

const workingFolder = "nexus-data"

// Folder is the data folder: the one named, else the default.
func Folder(named string) string { return cmp.Or(named, defaultFolder()) }

// OtherLedger names a ledger in the folder one stands in, where data is another one: earlier programs made it there.
// "" if there is none.
func OtherLedger(data string) string {
	here, err := filepath.Abs(workingFolder)
	if err != nil || here == data || !HasLedger(here) {
		return ""
	}
	return "./" + workingFolder
}

// HasLedger reports whether a folder is the data folder of a ledger.
func HasLedger(data string) bool {
	_, err := os.Stat(filepath.Join(data, "ledger.json"))
	return err == nil
}

// ErrFolder: a process of this user shall not serve the folder.
var ErrFolder = errors.New("this folder can't be used")

// check refuses a folder of another user, whose files would become this one's, and one on a network disk, where
// a lock may not keep out another machine. A folder that is not there yet is judged by the one that it will be in.
func check(data string) error {
	at := data
	info, err := os.Stat(at)
	for err != nil && at != filepath.Dir(at) {
		at = filepath.Dir(at)
		info, err = os.Stat(at)
	}
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() && (at == data || os.Geteuid() == 0 && st.Uid != 0) {
		return fmt.Errorf("%w: %s is of another user (id %d)", ErrFolder, at, st.Uid)
	}
	if kind := networkDisk(at); kind != "" {
		return fmt.Errorf("%w: %s is on a network disk (%s), whose locks don't keep other machines out; name a folder on this machine's own disk with --data", ErrFolder, at, kind)
	}
	return nil
}
