package seal

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
)

// frozen reads a file of values that never change. docs/examples/python/read_export.py, a reader of
// its own, checks them as well.
func frozen(t testing.TB, name string) (values map[string]string) {
	t.Helper()
	b, err := os.ReadFile("../testdata/" + name)
	if err == nil {
		err = json.Unmarshal(b, &values)
	}
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// TestGoldenKeysAreThoseOfTheFile: who reads the golden files in another language has the keys.
func TestGoldenKeysAreThoseOfTheFile(t *testing.T) {
	keys := frozen(t, "keys.json")
	for n := range byte(2) {
		id, k := goldenID(n+1), goldenKey(n)
		if got := keys[hex.EncodeToString(id[:])]; got != hexKey(k) {
			t.Errorf("key %d is %s", n, got)
		}
	}
	if len(keys) != 2 {
		t.Errorf("%d keys", len(keys))
	}
}

// TestASecondReaderReadsTheGoldenFiles: a program in another language that knows docs/FORMAT.md alone.
func TestASecondReaderReadsTheGoldenFiles(t *testing.T) {
	if out, err := exec.Command(python(t), "../../docs/examples/python/read_export.py", "--vectors", "../testdata").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// python is a Python with what the reader needs; the test is skipped where there is none.
func python(t *testing.T) string {
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(p, "-c", "import cryptography, zstandard").Run() == nil {
			return p
		}
	}
	t.Skip("no Python with cryptography and zstandard (Debian: python3-cryptography, python3-zstandard)")
	return ""
}
