// Package jetstream keeps a ledger's log and blobs in NATS JetStream.
package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
)

// The streams. The names and subjects never change.
const (
	StreamName = "NEXUS_LEDGER"
	BlobsName  = "NEXUS_BLOBS"

	metaFormat = "nexus-format"
	metaLedger = "nexus-ledger"
	format     = "1"
)

// Config says how the streams are kept.
type Config struct {
	Replicas int    // 1, 3 or 5
	Create   bool   // create what is missing; otherwise a missing stream is an error
	Ledger   string // UUID to give to a stream that is created
}

// Log is the log on the stream NEXUS_LEDGER. Safe for concurrent use.
type Log struct {
	js     js.JetStream
	stream js.Stream
	blobs  *Blobs
	id     string
	made   time.Time
	max    int64
	send   func(ctx context.Context, subject string, expect uint64, payload []byte, hash string) (uint64, error)
}

// streamConfig is what the ledger's stream must be. What is zero is off: no
// limits, no TTL, no rollup, no schedules (which switch deny-purge off), no
// compression (its bugs are not worth the space, bodies are compressed). Message
// ids are not used, so the duplicate window is as short as it may be.
func streamConfig(c Config) js.StreamConfig {
	return js.StreamConfig{
		Name: StreamName, Subjects: []string{"agents.>"}, Storage: js.FileStorage, Retention: js.LimitsPolicy,
		MaxConsumers: -1, MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1, Discard: js.DiscardNew,
		DenyDelete: true, DenyPurge: true, Replicas: c.Replicas, Duplicates: 100 * time.Millisecond,
		Metadata: map[string]string{metaFormat: format, metaLedger: c.Ledger},
	}
}

func blobsConfig(c Config) js.StreamConfig {
	s := streamConfig(c)
	s.Name, s.Subjects = BlobsName, []string{"blobs.>"}
	s.MaxMsgsPerSubject, s.DiscardNewPerSubject = 1, true // a chunk is written once
	return s
}

// Open opens the streams, or creates them where c allows it, and compares their
// configuration, as the server has it, field by field with what it must be.
// Errors: [ledger.ErrNotFound] for a stream that is missing,
// [ledger.ErrCorrupt] for one that is configured otherwise, [ledger.ErrUnavailable].
func Open(ctx context.Context, j js.JetStream, c Config) (*Log, error) {
	stream, err := openStream(ctx, j, streamConfig(c), c.Create)
	if err != nil {
		return nil, err
	}
	blobs, err := openStream(ctx, j, blobsConfig(c), c.Create)
	if err != nil {
		return nil, err
	}
	info := stream.CachedInfo()
	l := &Log{js: j, stream: stream, id: info.Config.Metadata[metaLedger], made: info.Created, max: j.Conn().MaxPayload() - headerRoom}
	l.blobs = &Blobs{js: j, stream: blobs}
	l.send = l.publish
	return l, nil
}

// Ledger is the UUID of the ledger that the stream belongs to.
func (l *Log) Ledger() string { return l.id }

// Blobs is the blobs beside the log.
func (l *Log) Blobs() *Blobs { return l.blobs }

func openStream(ctx context.Context, j js.JetStream, want js.StreamConfig, create bool) (js.Stream, error) {
	s, err := j.Stream(ctx, want.Name)
	if errors.Is(err, js.ErrStreamNotFound) {
		if !create {
			return nil, fmt.Errorf("%w: stream %s is missing; it is not created anew in place of one that should be there", ledger.ErrNotFound, want.Name)
		}
		s, err = j.CreateStream(ctx, want)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: stream %s: %w", ledger.ErrUnavailable, want.Name, err)
	}
	info, err := s.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: stream %s: %w", ledger.ErrUnavailable, want.Name, err)
	}
	if diff := drift(want, info.Config); len(diff) > 0 {
		return nil, fmt.Errorf("%w: stream %s is not configured as a ledger: %s", ledger.ErrCorrupt, want.Name, strings.Join(diff, "; "))
	}
	return s, nil
}

// drift lists how a configuration differs from what it must be.
func drift(want, got js.StreamConfig) (diff []string) {
	check := func(field string, want, got any) {
		if w, g := fmt.Sprint(want), fmt.Sprint(got); w != g {
			diff = append(diff, fmt.Sprintf("%s is %s, must be %s", field, g, w))
		}
	}
	check("subjects", want.Subjects, got.Subjects)
	check("storage", want.Storage, got.Storage)
	check("retention", want.Retention, got.Retention)
	check("max_msgs", want.MaxMsgs, got.MaxMsgs)
	check("max_bytes", want.MaxBytes, got.MaxBytes)
	check("max_age", want.MaxAge, got.MaxAge)
	check("max_msg_size", want.MaxMsgSize, got.MaxMsgSize)
	check("max_msgs_per_subject", want.MaxMsgsPerSubject, got.MaxMsgsPerSubject)
	check("discard", want.Discard, got.Discard)
	check("deny_delete", want.DenyDelete, got.DenyDelete)
	check("deny_purge", want.DenyPurge, got.DenyPurge)
	check("allow_rollup_hdrs", want.AllowRollup, got.AllowRollup)
	check("sealed", want.Sealed, got.Sealed)
	check("num_replicas", want.Replicas, got.Replicas)
	check("compression", want.Compression, got.Compression)
	check("mirror", want.Mirror != nil, got.Mirror != nil)
	check("sources", len(want.Sources), len(got.Sources))
	check("republish", want.RePublish != nil, got.RePublish != nil)
	check("subject_transform", want.SubjectTransform != nil, got.SubjectTransform != nil)
	check("allow_msg_ttl", want.AllowMsgTTL, got.AllowMsgTTL)
	check("metadata "+metaFormat, format, got.Metadata[metaFormat])
	if got.Metadata[metaLedger] == "" {
		diff = append(diff, "metadata "+metaLedger+" is missing")
	}
	return diff
}

// State implements [ledger.Log].
func (l *Log) State(ctx context.Context) (ledger.State, error) {
	info, err := l.stream.Info(ctx)
	if err != nil {
		return ledger.State{}, fmt.Errorf("%w: state of the log: %w", ledger.ErrUnavailable, err)
	}
	st := ledger.State{
		Identity: info.Config.Metadata[metaLedger] + "/" + strconv.FormatInt(info.Created.UnixNano(), 36),
		Created:  info.Created, First: info.State.FirstSeq, Last: info.State.LastSeq, Count: info.State.Msgs,
	}
	if st.Last == 0 {
		st.First = 1
	}
	return st, nil
}
