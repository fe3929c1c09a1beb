// Package rows is what stands in the database of the projections: the keys and the values.
// It opens no database.
//
// The log makes every row again, so no row has an older form: a change of a key or value
// changes [Schema], and the rows are made anew.
//
// Begin at [Prefix] in keys.go, the table of all keys. rows.go has the values with a type of
// their own, encode.go their bytes; other values are folds of package ledger, in CBOR: session.go has that
// of a session.
// families.go names the row of a key for people.
package rows
