package embed

import (
	"fmt"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"
)

// CheckRoom returns an error if so many bytes more would take the last twentieth of the store, or
// over half of what the disk has free: what fills them up makes the server refuse appends.
func (s *Server) CheckRoom(dataDir string, bytes int64) error {
	info, err := s.srv.Jsz(&server.JSzOptions{})
	if err != nil {
		return fmt.Errorf("room of the store: %w", err)
	}
	used := int64(min(info.Store, 1<<62))
	if limit := info.Config.MaxStore; limit > 0 && used+bytes > limit-limit/20 {
		return fmt.Errorf("%d bytes more would fill the store, which holds %d of %d bytes (max_store)", bytes, used, limit)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(dataDir, &st); err != nil {
		return fmt.Errorf("free space of %s: %w", dataDir, err)
	}
	if free := int64(st.Bavail) * int64(st.Bsize); bytes > free/2 {
		return fmt.Errorf("%d bytes more are over half of the %d bytes that the disk of %s has free", bytes, free, dataDir)
	}
	return nil
}
