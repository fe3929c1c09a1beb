// Package otlp reads the spans and log records of an OTLP export in JSON, and the messages
// in their attributes, by OpenTelemetry's conventions for generative AI. It makes no turns
// of them: package chat does.
package otlp
