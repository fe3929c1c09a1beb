package engine_test

import (
	"testing"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/projections"
	"nexus/turns"
)

// Short names of package enginetest.
type (
	Engine     = engine.Engine
	world      = enginetest.World
	firstWords = enginetest.FirstWords
)

var (
	alice    = enginetest.Alice
	newWorld = enginetest.NewWorld
	canon    = enginetest.JSON
	code     = enginetest.Code
	create   = enginetest.Create
	add      = enginetest.Add
	say      = enginetest.Say
	verified = enginetest.Verified
	noise    = enginetest.Noise
	long     = enginetest.Text
)

func must[T any](v T, err error) func(testing.TB) T { return enginetest.Must(v, err) }

func newEngine(w *world, store *projections.Store) *Engine { return w.EngineOver(store) }

func newID(t *testing.T) turns.ID { t.Helper(); return enginetest.ID(t) }
