// Package formats is the table of the formats of transcripts. What differs from format to
// format stands in their [transcript.Format]; nothing else asks for one by its name.
package formats
