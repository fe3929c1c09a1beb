//go:build !linux

package localserver

// networkDisk knows no file systems here.
func networkDisk(string) string { return "" }
